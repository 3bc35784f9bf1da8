//! Replies in Redfish's form, errors with their extended information.

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, WWW_AUTHENTICATE},
};
use serde_json::{Value, json};

pub(super) type Reply = Response<Bytes>;

pub(super) fn json(status: StatusCode, body: &Value) -> Reply {
    let mut reply = Response::new(Bytes::from(body.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json;charset=utf-8"));
    reply.headers_mut().insert("odata-version", HeaderValue::from_static("4.0"));
    reply
}

pub(super) fn ok(body: &Value) -> Reply {
    json(StatusCode::OK, body)
}

pub(super) fn no_content() -> Reply {
    let mut reply = Response::new(Bytes::new());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    reply
}

/// `message_id` is a name of the Base registry (DSP2065).
pub(super) fn error(status: StatusCode, message_id: &str, message: &str, arguments: &[&str]) -> Reply {
    let reply = json(
        status,
        &json!({ "error": {
            "code": "Base.1.18.GeneralError",
            "message": "See the extended information.",
            "@Message.ExtendedInfo": [{
                "@odata.type": "#Message.v1_1_2.Message",
                "MessageId": format!("Base.1.18.{message_id}"),
                "Message": message,
                "MessageArgs": arguments,
                "MessageSeverity": "Critical",
                "Resolution": "None.",
            }],
        }}),
    );
    match status {
        StatusCode::UNAUTHORIZED => with(reply, WWW_AUTHENTICATE, "Basic realm=\"bmc\""),
        _ => reply,
    }
}

pub(super) fn not_found(kind: &str, id: &str) -> Reply {
    let message = format!("The requested resource of type {kind} named '{id}' was not found.");
    error(StatusCode::NOT_FOUND, "ResourceNotFound", &message, &[kind, id])
}

pub(super) fn with(mut reply: Reply, name: HeaderName, value: &str) -> Reply {
    let value = HeaderValue::from_str(value).expect("the BMC's own header values have no control characters");
    reply.headers_mut().insert(name, value);
    reply
}

pub(super) fn members(path: &str, kind: &str, paths: impl Iterator<Item = String>) -> Reply {
    let members: Vec<Value> = paths.map(|path| json!({ "@odata.id": path })).collect();
    ok(&json!({
        "@odata.id": path,
        "@odata.type": format!("#{kind}Collection.{kind}Collection"),
        "Name": format!("{kind} collection"),
        "Members@odata.count": members.len(),
        "Members": members,
    }))
}
