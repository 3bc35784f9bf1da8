//! Answers, as bytes.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::index::Stored;
use crate::registry::Kind;
use crate::status::ApiError;

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Longest warning header.
const MAX_WARNING: usize = 1024;

/// An answer of JSON.
pub(super) fn json(code: u16, body: impl Into<Bytes>) -> Response<ResponseBody> {
    whole(code, "application/json", body)
}

/// An answer of a JSON value.
pub(super) fn value(code: u16, body: &Value) -> Response<ResponseBody> {
    json(code, body.to_string())
}

/// An answer of plain text.
pub(super) fn text(code: u16, body: &'static str) -> Response<ResponseBody> {
    whole(code, "text/plain; charset=utf-8", body)
}

/// An answer that refuses.
pub(super) fn error(error: &ApiError) -> Response<ResponseBody> {
    let mut response = value(error.code, &error.body());
    if error.code == 401 {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// An answer that goes on: a watch.
pub(super) fn stream(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<ResponseBody> {
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Adds warnings that `kubectl` shows.
pub(super) fn warn(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let clean: String = warning
            .chars()
            .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
            .take(MAX_WARNING)
            .collect();
        let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn whole(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The metadata of a list.
pub(super) fn list_meta(version: u64, continue_: Option<&str>, remaining: usize) -> Value {
    let mut meta = json!({ "resourceVersion": version.to_string() });
    if let Some(token) = continue_ {
        meta["continue"] = token.into();
        meta["remainingItemCount"] = remaining.into();
    }
    meta
}

/// A list of objects that are encoded already: copied together, not encoded anew.
pub(super) fn list(kind: &Kind, meta: &Value, objects: &[Arc<Stored>]) -> Bytes {
    let bytes: usize = objects.iter().map(|o| o.json.len() + 1).sum();
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{meta},\"items\":[",
        kind.kind,
        kind.api_version()
    );
    let mut out = BytesMut::with_capacity(head.len() + bytes + 8);
    out.put_slice(head.as_bytes());
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(&object.json);
    }
    out.put_slice(b"]}\n");
    out.freeze()
}
