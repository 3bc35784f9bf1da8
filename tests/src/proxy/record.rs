//! What the proxy keeps of an exchange.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::{
    Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use ring::digest::{SHA256, digest};

/// One request and its fate.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: SystemTime,
    pub method: Method,
    /// With its query.
    pub path: String,
    /// What a form asks for, where it names an `Action`: that word, and in brackets what its first filter is about, as
    /// in `DescribeVolumes(tag:holdfast)`. Services with one path for everything tell their calls apart by it.
    pub action: Option<String>,
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
            action: action(request),
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

    /// Where it went: the path without its query, and after a `#` the action of its form.
    pub fn place(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        match &self.action {
            Some(action) => format!("{path}#{action}"),
            None => path.to_owned(),
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

/// Words of the interface, never an argument: what is sent may be secret.
fn action(request: &Request<Bytes>) -> Option<String> {
    let form = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    if !form.starts_with("application/x-www-form-urlencoded") {
        return None;
    }
    let value = |name: &str| {
        let pairs = url::form_urlencoded::parse(request.body());
        pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let action = value("Action")?;
    Some(match value("Filter.1.Name") {
        Some(filter) => format!("{action}({filter})"),
        None => action,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_told_by_its_action_and_first_filter_and_nothing_else_of_it() {
        for (form, path, body, place) in [
            (true, "/", "Version=1&Action=RunInstances&UserData=c2VjcmV0", "/#RunInstances"),
            (
                true,
                "/?a=b",
                "Action=DescribeVolumes&Filter.1.Name=tag%3Aholdfast&Filter.1.Value.1=x",
                "/#DescribeVolumes(tag:holdfast)",
            ),
            (true, "/a", "user=me", "/a"),
            (false, "/b?c", "Action=RunInstances", "/b"),
        ] {
            let content =
                if form { "application/x-www-form-urlencoded; charset=utf-8" } else { "text/plain" };
            let request = Request::post(path).header(CONTENT_TYPE, content).body(Bytes::from(body)).unwrap();
            assert_eq!(Record::of(&request).place(), place, "{body}");
        }
    }
}
