//! One request as it was received, and the record kept of requests.
//! The record holds request lines and, for every place that can hold a secret, a SHA-256 of what stood there;
//! bytes only if the option `record_bodies` is on.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
};

use bytes::Bytes;
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{reply::Refusal, secrets::sha256};

/// A request with its whole body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The token after `Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization").and_then(|value| value.strip_prefix("Bearer "))
    }

    /// Decoded query parameters; of equal names the last one counts.
    pub fn query(&self) -> HashMap<String, String> {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(k, v)| (decode(k), decode(v)))
            .collect()
    }

    /// Decoded segments of the path after its first slash.
    pub fn segments(&self) -> Vec<Cow<'_, str>> {
        self.path.split('/').skip(1).map(|part| percent_decode_str(part).decode_utf8_lossy()).collect()
    }

    /// The body as a declared type. Unknown members are refused, so that a misspelt skeleton shows.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let is_json = self.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
        if !is_json {
            return Err(Refusal::new(415, "unsupported_media_type", "a body must be application/json"));
        }
        let value: Value = serde_json::from_slice(&self.body)
            .map_err(|_| Refusal::new(400, "json_error", "the body is not JSON"))?;
        // Serde's own message would repeat parts of the body, which may be secret.
        serde_json::from_value(value).map_err(|_| Refusal::invalid("the body has a member that does not fit"))
    }
}

/// One recorded request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// From 1, in order of arrival; the ledger's entries point here.
    pub seq: u64,
    pub at_ms: i64,
    pub method: String,
    /// Path and query as received; a secret that was sent in a query stands here in clear.
    pub target: String,
    /// Absent while the request is under way, and for a connection that was reset.
    pub status: Option<u16>,
    pub idempotency_key: Option<String>,
    /// Place → hex SHA-256: `header:Authorization` (whole value), `header:Authorization#token` (after the scheme),
    /// `header:X-Session-Token`, `body`, `json:/user_data`, `json:/password`.
    pub secrets: BTreeMap<String, String>,
    /// The body, lossily as text, if bodies are recorded.
    pub body: Option<String>,
}

/// The last `limit` requests and counts of all of them.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub requests: VecDeque<Recorded>,
    /// By method and path, ids replaced by `*`.
    pub counts: BTreeMap<String, u64>,
    next: u64,
    limit: usize,
    bodies: bool,
}

impl Record {
    pub fn new(limit: usize, bodies: bool) -> Record {
        Record { limit, bodies, ..Record::default() }
    }

    /// Notes a request and returns its number.
    pub fn begin(&mut self, request: &Request, now: i64) -> u64 {
        self.next += 1;
        *self.counts.entry(route_of(request)).or_default() += 1;
        if self.limit > 0 {
            if self.requests.len() == self.limit {
                self.requests.pop_front();
            }
            self.requests.push_back(self.note(request, now));
        }
        self.next
    }

    pub fn end(&mut self, seq: u64, status: u16) {
        let Some(first) = self.requests.front().map(|recorded| recorded.seq) else { return };
        let index = seq.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        if let Some(recorded) = index.and_then(|index| self.requests.get_mut(index)) {
            recorded.status = Some(status);
        }
    }

    fn note(&self, request: &Request, now: i64) -> Recorded {
        let mut secrets = BTreeMap::new();
        let mut place = |name: &str, bytes: &[u8]| {
            secrets.insert(name.to_owned(), sha256(bytes));
        };
        if let Some(value) = request.headers.get("authorization") {
            place("header:Authorization", value.as_bytes());
            let token = value.as_bytes().splitn(2, |byte| *byte == b' ').nth(1);
            token.into_iter().for_each(|token| place("header:Authorization#token", token));
        }
        if let Some(value) = request.headers.get("x-session-token") {
            place("header:X-Session-Token", value.as_bytes());
        }
        if !request.body.is_empty() {
            place("body", &request.body);
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            for member in ["user_data", "password"] {
                if let Some(text) = body.get(member).and_then(Value::as_str) {
                    place(&format!("json:/{member}"), text.as_bytes());
                }
            }
        }
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        Recorded {
            seq: self.next,
            at_ms: now,
            method: request.method.clone(),
            target: format!("{}{query}", request.path),
            status: None,
            idempotency_key: request.header("idempotency-key").map(str::to_owned),
            secrets,
            body: self.bodies.then(|| String::from_utf8_lossy(&request.body).into_owned()),
        }
    }
}

/// `GET /v1/servers/*` for `GET /v1/servers/srv-7`.
fn route_of(request: &Request) -> String {
    let mut parts: Vec<&str> = request.path.split('/').collect();
    if let Some(id) = parts.get_mut(3) {
        *id = "*";
    }
    format!("{} {}", request.method, parts.join("/"))
}
