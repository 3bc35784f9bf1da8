//! The echo endpoint: an API that gives back what it was sent, in every form and at many places of its answer.
//! It is the worst case for custody: with it a test shows that nothing of a secret reaches a guest. It asks for no
//! authentication, so that a wrong credential is echoed too.

use serde_json::{Value, json};

use crate::{
    encodings::{ENCODINGS, encode, gzip},
    reply::{Refusal, Reply},
    request::Request,
};

/// Longest text put into a header.
const HEADER_MAX: usize = 8 * 1024;

/// Answers `/v1/echo`: query `as` (form, or `all`), `what`, `status`, `reply` (`json`, `text`, `gzip`).
pub(crate) fn answer(request: &Request) -> Result<Reply, Refusal> {
    let query = request.query();
    let get = |name: &str, default: &str| query.get(name).map_or(default.to_owned(), Clone::clone);
    let sent = sent(request, &get("what", "all"))?;
    let form = get("as", "raw");
    if form == "all" {
        let all = ENCODINGS.iter().map(|form| (form.to_string(), json!(encode(form, &sent))));
        return Ok(Reply::json(200, &Value::Object(all.collect())));
    }
    let text = encode(&form, &sent).ok_or_else(|| Refusal::invalid("there is no such encoding"))?;
    let status = get("status", "200").parse().ok().filter(|code| (200..=599).contains(code));
    let status = status.ok_or_else(|| Refusal::invalid("status is a number from 200 to 599"))?;
    let mut reply = match get("reply", "json").as_str() {
        "text" => Reply {
            content_type: "text/plain",
            body: text.clone().into_bytes().into(),
            ..Reply::empty(status)
        },
        "gzip" => {
            let mut reply = body_of(status, &form, &text);
            reply.body = gzip(&reply.body).into();
            reply.with("content-encoding", "gzip")
        }
        _ => body_of(status, &form, &text),
    };
    let word = header_text(&text);
    reply.headers.push(("etag".into(), format!("\"{word}\"")));
    reply.headers.push(("location".into(), format!("/v1/echo/{word}")));
    reply.headers.push(("x-echo".into(), word));
    Ok(reply)
}

/// Puts the echo into the answer of another call: member `echo`, header `X-Echo`, and the places of a fault.
pub(crate) fn spread(request: &Request, form: &str, pointers: &[String], mut reply: Reply) -> Reply {
    let Some(text) = sent(request, "all").ok().and_then(|sent| encode(form, &sent)) else { return reply };
    if let Some(mut body) = reply.body_json() {
        for place in pointers {
            if let Some(value) = body.pointer_mut(place) {
                *value = json!(text);
            }
        }
        if let Some(members) = body.as_object_mut() {
            members.insert("echo".into(), json!(text));
        }
        reply.body = serde_json::to_vec(&body).unwrap_or_default().into();
    }
    reply.with("x-echo", header_text(&text))
}

/// What was received: `authorization`, `credential` (after the scheme), `session`, `body`, `json:/pointer`, or
/// `all` (authorization, session and body, one below the other).
fn sent(request: &Request, what: &str) -> Result<Vec<u8>, Refusal> {
    let header =
        |name: &str| request.headers.get(name).map(|value| value.as_bytes().to_vec()).unwrap_or_default();
    let authorization = header("authorization");
    Ok(match what {
        "authorization" => authorization,
        "credential" => match authorization.iter().position(|byte| *byte == b' ') {
            Some(at) => authorization[at + 1..].to_vec(),
            None => authorization,
        },
        "session" => header("x-session-token"),
        "body" => request.body.to_vec(),
        "all" => [authorization, header("x-session-token"), request.body.to_vec()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(&b'\n'),
        _ => {
            let pointer =
                what.strip_prefix("json:").ok_or_else(|| Refusal::invalid("nothing of that name"))?;
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let value = body.pointer(pointer).and_then(Value::as_str);
            value.ok_or_else(|| Refusal::invalid("the body has no text at that place"))?.as_bytes().to_vec()
        }
    })
}

/// The echo at several places of a JSON body. The member `wire` holds an escaped form as it stands, so that only
/// who unescapes JSON sees the secret.
fn body_of(status: u16, form: &str, text: &str) -> Reply {
    let mut body = json!({
        "echo": text,
        "id": text,
        "text": text,
        "status": "ok",
        "wire": "",
        "nested": { "list": [{ "id": text, "name": text }] },
    });
    if status >= 400 {
        body["error"] = json!({ "code": text, "message": text });
    }
    let mut reply = Reply::json(status, &body);
    if form.starts_with("json-") {
        let wire = String::from_utf8_lossy(&reply.body).replacen(
            "\"wire\":\"\"",
            &format!("\"wire\":\"{text}\""),
            1,
        );
        reply.body = wire.into_bytes().into();
    }
    reply
}

/// A text that a header can hold: control characters become spaces.
fn header_text(text: &str) -> String {
    let fit: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut end = fit.len().min(HEADER_MAX);
    while !fit.is_char_boundary(end) {
        end -= 1;
    }
    fit[..end].trim().to_owned()
}
