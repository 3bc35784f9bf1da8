//! What the proxy keeps of an exchange.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{Method, Request, StatusCode, header::AUTHORIZATION};
use ring::digest::{SHA256, digest};

/// One request and its fate.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: SystemTime,
    pub method: Method,
    /// With its query.
    pub path: String,
    /// The scheme word of `Authorization`, or the name of the header that carried a token.
    pub authentication: Option<String>,
    /// Lower-case hexadecimal.
    pub request_sha256: String,
    /// The request left for the server. It may still have found it down.
    pub forwarded: bool,
    /// The server's own answer, whatever the client saw.
    pub status: Option<StatusCode>,
    pub reply_sha256: Option<String>,
    /// What the client got; none while the exchange is under way.
    pub seen: Option<Seen>,
    pub took: Option<Duration>,
    started: Instant,
}

/// What a client got to see. That it was still there to see it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Whole(u16),
    CutOff(u16),
    /// The end of the connection.
    Nothing,
}

impl Record {
    pub(super) fn of(request: &Request<Bytes>) -> Record {
        Record {
            at: SystemTime::now(),
            method: request.method().clone(),
            path: request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            authentication: authentication(request),
            request_sha256: sha256(request.body()),
            forwarded: false,
            status: None,
            reply_sha256: None,
            seen: None,
            took: None,
            started: Instant::now(),
        }
    }

    /// It reached the server, which answered 2xx.
    pub fn took_effect(&self) -> bool {
        self.status.is_some_and(|status| status.is_success())
    }

    /// The method is this one and the path ends so; the query counts as part of the path.
    pub fn is(&self, method: &str, path_ending: &str) -> bool {
        self.method.as_str() == method && self.path.ends_with(path_ending)
    }

    pub(super) fn answered(&mut self, status: StatusCode, body: &[u8]) {
        self.status = Some(status);
        self.reply_sha256 = Some(sha256(body));
    }

    pub(super) fn end(&mut self, seen: Seen) {
        self.seen = Some(seen);
        self.took = Some(self.started.elapsed());
    }
}

fn authentication(request: &Request<Bytes>) -> Option<String> {
    if request.headers().contains_key("x-auth-token") {
        return Some("X-Auth-Token".to_owned());
    }
    let value = request.headers().get(AUTHORIZATION)?.as_bytes();
    // A value of one word may be a bare token, which is not kept.
    let scheme = value.iter().position(|byte| *byte == b' ').map_or(&b"(one word)"[..], |end| &value[..end]);
    Some(String::from_utf8_lossy(scheme).into_owned())
}

fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}
