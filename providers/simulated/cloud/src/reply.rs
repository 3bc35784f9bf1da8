//! Answers and refusals before they become HTTP.

use bytes::Bytes;
use serde_json::{Value, json};

/// An answer of the data or admin API.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Reply {
    pub fn json(status: u16, body: &Value) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            content_type: "application/json",
            body: serde_json::to_vec(body).expect("a JSON value serialises").into(),
        }
    }

    pub fn empty(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), content_type: "", body: Bytes::new() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Reply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn body_json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// A refusal, which becomes `{"error":{"code":…,"message":…}}`. The message never repeats what was received.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    pub headers: Vec<(String, String)>,
}

impl Refusal {
    pub fn new(status: u16, code: &str, message: &str) -> Refusal {
        Refusal { status, code: code.to_owned(), message: message.to_owned(), headers: Vec::new() }
    }

    pub fn not_found(what: &str) -> Refusal {
        Refusal::new(404, "not_found", &format!("there is no such {what}"))
    }

    pub fn invalid(message: &str) -> Refusal {
        Refusal::new(422, "invalid_input", message)
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        let body = json!({ "error": { "code": refusal.code, "message": refusal.message } });
        Reply { headers: refusal.headers, ..Reply::json(refusal.status, &body) }
    }
}
