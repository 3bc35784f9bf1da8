//! Request bodies: read whole under a cap, then parsed as the one format that is served.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use serde_json::Value;

use crate::protobuf;
use crate::schema::parse_json;
use crate::status::ApiError;

/// Largest request body.
const MAX_BODY: usize = 3 << 20;

/// Reads a body whole.
pub(super) async fn read<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body of the request could not be read"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > MAX_BODY {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

fn too_large() -> ApiError {
    ApiError::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
}

/// Parses an object by its content type.
pub(super) fn parse_as(content_type: &str, bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => parse(bytes),
        protobuf::MEDIA_TYPE => protobuf::decode(bytes).map(|object| (object, Vec::new())),
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json",
        )),
    }
}

/// Parses a body; also names fields that were given twice.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    if bytes.is_empty() {
        return Err(ApiError::bad_request("the body of the request is empty"));
    }
    // Where it broke, not what stood there: the body may hold a secret.
    parse_json(bytes).map_err(|e| {
        ApiError::bad_request(format!(
            "the object provided is no JSON: error at line {}, column {}",
            e.line(),
            e.column()
        ))
    })
}
