//! From a prepared request to a whole raw answer: resolve once, check every address, pin, TLS, HTTP/1.1, no redirects.

pub(crate) mod address;
pub(crate) mod connect;
pub(crate) mod pool;
pub(crate) mod tls;
pub(crate) mod wire;
