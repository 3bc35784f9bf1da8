//! Calls as a guest without a typed client makes them, and the short ways to answer.

use crate::exports::holdfast::provider::operations::{Credentials, Error, OperationRequest, OperationResult};
use crate::holdfast::provider::calls::{self, Outcome, Request};
use crate::holdfast::provider::types::{Code, Failure};

/// A parameter of the operation; empty if it has none of the name.
pub fn parameter<'a>(request: &'a OperationRequest, name: &str) -> &'a str {
    request.parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// The server of this machine.
pub fn own_server(request: &OperationRequest) -> &str {
    request.machine.provider_id.as_deref().and_then(|id| id.strip_prefix("hostile://")).unwrap_or_default()
}

/// `{"id": …}`, and one more member if it is given.
pub fn args(id: &str, more: Option<(&str, &str)>) -> String {
    match more {
        Some((name, value)) => format!(r#"{{"id":"{id}","{name}":"{value}"}}"#),
        None => format!(r#"{{"id":"{id}"}}"#),
    }
}

pub fn read(call: &str, args: String, credentials: Option<&Credentials>) -> Result<String, Error> {
    let request = Request { call: call.to_owned(), args, credentials, user_data: Vec::new() };
    calls::read(&request).map(|reply| reply.fields)
}

/// Claims success whatever the outcome says.
pub fn perform(
    call: &str,
    args: String,
    credentials: Option<&Credentials>,
) -> Result<OperationResult, Error> {
    outcome(call, args, credentials).map(|_| unchanged())
}

pub fn outcome(call: &str, args: String, credentials: Option<&Credentials>) -> Result<Outcome, Error> {
    keyed("only", call, args, credentials)
}

pub fn keyed(
    key: &str,
    call: &str,
    args: String,
    credentials: Option<&Credentials>,
) -> Result<Outcome, Error> {
    let request = Request { call: call.to_owned(), args, credentials, user_data: Vec::new() };
    calls::perform(key, &request)
}

pub fn unchanged() -> OperationResult {
    OperationResult { provider_id: None, cleanup_provider_id: None }
}

pub fn transient(reason: &str, message: &str) -> Error {
    Error::Transient(failure(reason, message))
}

pub fn permanent(reason: &str, message: &str) -> Error {
    Error::Permanent(failure(reason, message))
}

fn failure(reason: &str, message: &str) -> Failure {
    Failure {
        code: Code::Internal,
        reason: reason.to_owned(),
        message: message.to_owned(),
        native: None,
        retry_after: None,
    }
}

/// The text member of a flat JSON object.
pub fn member<'a>(json: &'a str, name: &str) -> &'a str {
    let from = json.split_once(&format!(r#""{name}":""#)).map_or("", |(_, rest)| rest);
    from.split_once('"').map_or("", |(value, _)| value)
}
