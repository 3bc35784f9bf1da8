//! Answers that refuse a request: Kubernetes' `Status` object, with its reasons, codes and wording.
//!
//! Clients match on reason and code, people read the message; both are as a real server gives them.

use serde_json::{Value, json};

use crate::registry::Kind;

/// One cause of an `Invalid` answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Kubernetes' cause type, for example `FieldValueRequired`.
    pub reason: &'static str,
    /// What is wrong, without the field's path.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

impl Cause {
    /// A field that must be set.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// A field whose value is not acceptable.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        let message = format!("Invalid value: {}: {}", shown(value), detail.as_ref());
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    /// A field whose value is of another type than the schema's.
    pub fn wrong_type(field: impl Into<String>, wanted: &str, value: &Value) -> Self {
        let field = field.into();
        let found = type_name(value);
        let message =
            format!("Invalid value: \"{found}\": {field} in body must be of type {wanted}: \"{found}\"");
        Self { reason: "FieldValueTypeInvalid", message, field }
    }

    /// A field whose value is not one of a list.
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[Value]) -> Self {
        let list: Vec<String> = supported.iter().map(Value::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", list.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// A field that must not be set, or not be changed so.
    pub fn forbidden(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {}", detail.as_ref()),
            field: field.into(),
        }
    }

    /// A field that is too long.
    pub fn too_long(field: impl Into<String>, bytes: u64) -> Self {
        Self {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {bytes} bytes"),
            field: field.into(),
        }
    }

    /// A list or map with too many entries.
    pub fn too_many(field: impl Into<String>, found: usize, most: u64) -> Self {
        Self {
            reason: "FieldValueTooMany",
            message: format!("Too many: {found}: must have at most {most} items"),
            field: field.into(),
        }
    }
}

/// A refusal, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Kubernetes' reason word.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// The `details` field, or null.
    pub details: Value,
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details = json!({ "name": name, "kind": kind.plural });
        if !kind.group.is_empty() {
            self.details["group"] = json!(kind.group);
        }
        self
    }

    /// 404: no such object.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.qualified())).about(kind, name)
    }

    /// 404: no such path.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409: a create of what is there.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.qualified()))
            .about(kind, name)
    }

    /// 409: the object moved on, or a precondition doesn't hold.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// 409: the object moved on.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: the object breaks rules; all of them are named.
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let lines: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let said = if lines.len() == 1 { lines[0].clone() } else { format!("[{}]", lines.join(", ")) };
        let mut error =
            Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {said}", kind.qualified_kind()));
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({ "reason": c.reason, "message": c.message, "field": c.field }))
            .collect();
        error.details = json!({ "name": name, "kind": kind.kind, "causes": causes });
        if !kind.group.is_empty() {
            error.details["group"] = json!(kind.group);
        }
        error
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified());
        Self::new(403, "Forbidden", message).about(kind, name)
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// 410: the history that was asked for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 500.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {}", message.into()))
    }

    /// 504: the version asked for lies in the future.
    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let mut error =
            Self::new(504, "Timeout", format!("Too large resource version: {asked}, current: {current}"));
        error.details = json!({ "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
                    "retryAfterSeconds": 1 });
        error
    }

    /// The `Status` object.
    pub fn body(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// A value as Kubernetes shows it in a message: whole objects are too long to be of use.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        Value::String(s) if s.len() > 256 => format!("\"{}...\"", &s[..s.floor_char_boundary(256)]),
        other => other.to_string(),
    }
}

/// The OpenAPI name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
