//! From a declared call to the exact bytes of a request: typed arguments by place, a skeleton, and slots.

pub(crate) mod args;
pub(crate) mod build;
pub(crate) mod form;
pub(crate) mod headers;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod slots;
