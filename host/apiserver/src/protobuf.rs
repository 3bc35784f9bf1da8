//! Kubernetes' protobuf bodies, read into JSON: `kubectl create secret` and its like send core kinds so.
//!
//! Only requests are read, only of the kinds below; answers are always JSON. Unknown fields are skipped.

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::status::ApiError;

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// What a field holds.
enum Type {
    Text,
    Integer,
    Flag,
    Time,
    MicroTime,
    Texts,
    TextMap,
    BytesMap,
    Message(Fields),
    Messages(Fields),
}

/// Number, JSON name and type of each field of a message.
type Fields = &'static [(u32, &'static str, Type)];

const OWNER: Fields = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::Flag),
    (7, "blockOwnerDeletion", Type::Flag),
];
const METADATA: Fields = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (7, "generation", Type::Integer),
    (8, "creationTimestamp", Type::Time),
    (9, "deletionTimestamp", Type::Time),
    (10, "deletionGracePeriodSeconds", Type::Integer),
    (11, "labels", Type::TextMap),
    (12, "annotations", Type::TextMap),
    (13, "ownerReferences", Type::Messages(OWNER)),
    (14, "finalizers", Type::Texts),
];
const REFERENCE: Fields = &[
    (1, "kind", Type::Text),
    (2, "namespace", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "resourceVersion", Type::Text),
    (7, "fieldPath", Type::Text),
];
const SOURCE: Fields = &[(1, "component", Type::Text), (2, "host", Type::Text)];
const SERIES: Fields = &[(1, "count", Type::Integer), (2, "lastObservedTime", Type::MicroTime)];
const SECRET: Fields = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "data", Type::BytesMap),
    (3, "type", Type::Text),
    (4, "stringData", Type::TextMap),
    (5, "immutable", Type::Flag),
];
const CONFIG_MAP: Fields = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "data", Type::TextMap),
    (3, "binaryData", Type::BytesMap),
    (4, "immutable", Type::Flag),
];
const NAMESPACE: Fields = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "spec", Type::Message(&[(1, "finalizers", Type::Texts)])),
    (3, "status", Type::Message(&[(1, "phase", Type::Text)])),
];
const CORE_EVENT: Fields = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "involvedObject", Type::Message(REFERENCE)),
    (3, "reason", Type::Text),
    (4, "message", Type::Text),
    (5, "source", Type::Message(SOURCE)),
    (6, "firstTimestamp", Type::Time),
    (7, "lastTimestamp", Type::Time),
    (8, "count", Type::Integer),
    (9, "type", Type::Text),
    (10, "eventTime", Type::MicroTime),
    (11, "series", Type::Message(SERIES)),
    (12, "action", Type::Text),
    (13, "related", Type::Message(REFERENCE)),
    (14, "reportingComponent", Type::Text),
    (15, "reportingInstance", Type::Text),
];
const EVENT: Fields = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "eventTime", Type::MicroTime),
    (3, "series", Type::Message(SERIES)),
    (4, "reportingController", Type::Text),
    (5, "reportingInstance", Type::Text),
    (6, "action", Type::Text),
    (7, "reason", Type::Text),
    (8, "regarding", Type::Message(REFERENCE)),
    (9, "related", Type::Message(REFERENCE)),
    (10, "note", Type::Text),
    (11, "type", Type::Text),
    (12, "deprecatedSource", Type::Message(SOURCE)),
    (13, "deprecatedFirstTimestamp", Type::Time),
    (14, "deprecatedLastTimestamp", Type::Time),
    (15, "deprecatedCount", Type::Integer),
];
const LEASE_SPEC: Fields = &[
    (1, "holderIdentity", Type::Text),
    (2, "leaseDurationSeconds", Type::Integer),
    (3, "acquireTime", Type::MicroTime),
    (4, "renewTime", Type::MicroTime),
    (5, "leaseTransitions", Type::Integer),
    (6, "strategy", Type::Text),
    (7, "preferredHolder", Type::Text),
];
const LEASE: Fields = &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(LEASE_SPEC))];
const PRECONDITIONS: Fields = &[(1, "uid", Type::Text), (2, "resourceVersion", Type::Text)];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", Type::Integer),
    (2, "preconditions", Type::Message(PRECONDITIONS)),
    (4, "propagationPolicy", Type::Text),
    (5, "dryRun", Type::Texts),
];

/// Reads a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let bad = || ApiError::bad_request("the body of the request is no protobuf that Kubernetes would send");
    let envelope = body.strip_prefix(MAGIC).ok_or_else(bad)?;
    let (mut type_, mut raw) = (Map::new(), &[][..]);
    let mut reader = Reader(envelope);
    while !reader.0.is_empty() {
        match reader.field().ok_or_else(bad)? {
            (1, Wire::Bytes(bytes)) => {
                type_ = message(&[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)], bytes)
                    .ok_or_else(bad)?;
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let word = |field: &str| type_.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (word("apiVersion"), word("kind"));
    let fields = match (version.as_str(), kind.as_str()) {
        ("v1", "Secret") => SECRET,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "Event") => CORE_EVENT,
        ("events.k8s.io/v1", "Event") => EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => {
            return Err(ApiError::unsupported_media_type(format!(
                "{kind} in version {version:?} is read as application/json only"
            )));
        }
    };
    let mut object = message(fields, raw).ok_or_else(bad)?;
    object.insert("apiVersion".into(), version.into());
    object.insert("kind".into(), kind.into());
    Ok(Value::Object(object))
}

/// Reads a message. A field that is empty is left out: this is how its writer says "not set".
fn message(fields: Fields, bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        let (number, wire) = reader.field()?;
        let Some((_, name, type_)) = fields.iter().find(|(n, _, _)| *n == number) else { continue };
        match (type_, wire) {
            (Type::Text, Wire::Bytes(b"")) | (Type::Integer, Wire::Number(0)) => {}
            (Type::Text, Wire::Bytes(text)) => drop(object.insert((*name).into(), text_of(text)?.into())),
            // A number on the wire is a two's complement in 64 bits.
            (Type::Integer, Wire::Number(n)) => drop(object.insert((*name).into(), n.cast_signed().into())),
            (Type::Flag, Wire::Number(n)) => drop(object.insert((*name).into(), (n != 0).into())),
            (Type::Time, Wire::Bytes(time)) => set(&mut object, name, time_of(time, 0)?),
            (Type::MicroTime, Wire::Bytes(time)) => set(&mut object, name, time_of(time, 6)?),
            (Type::Message(fields), Wire::Bytes(inner)) => {
                let inner = message(fields, inner)?;
                if !inner.is_empty() {
                    object.insert((*name).into(), inner.into());
                }
            }
            (Type::Messages(fields), Wire::Bytes(inner)) => {
                push(&mut object, name, message(fields, inner)?.into());
            }
            (Type::Texts, Wire::Bytes(text)) => push(&mut object, name, text_of(text)?.into()),
            (Type::TextMap, Wire::Bytes(entry)) => {
                let (key, value) = entry_of(entry)?;
                add(&mut object, name, key, text_of(value)?.into());
            }
            (Type::BytesMap, Wire::Bytes(entry)) => {
                let (key, value) = entry_of(entry)?;
                add(&mut object, name, key, base64::engine::general_purpose::STANDARD.encode(value).into());
            }
            _ => return None,
        }
    }
    Some(object)
}

fn set(object: &mut Map<String, Value>, name: &str, value: Option<String>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value.into());
    }
}

fn push(object: &mut Map<String, Value>, name: &str, value: Value) {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
}

fn add(object: &mut Map<String, Value>, name: &str, key: String, value: Value) {
    let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    map[&key] = value;
}

fn text_of(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn entry_of(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (mut key, mut value) = (String::new(), &[][..]);
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        match reader.field()? {
            (1, Wire::Bytes(text)) => key = text_of(text)?,
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Some((key, value))
}

/// A time with so many digits after the second; an empty message is no time at all.
fn time_of(bytes: &[u8], digits: u8) -> Option<Option<String>> {
    let (mut seconds, mut nanos) = (None, 0_i32);
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        match reader.field()? {
            (1, Wire::Number(n)) => seconds = Some(n.cast_signed()),
            (2, Wire::Number(n)) => nanos = i32::try_from(n).ok()?,
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Some(None) };
    let at = jiff::Timestamp::new(seconds, nanos).ok()?;
    Some(Some(format!("{at:.0$}", usize::from(digits))))
}

/// A value on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn field(&mut self) -> Option<(u32, Wire<'a>)> {
        let key = self.number()?;
        let number = u32::try_from(key >> 3).ok()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.number()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return None,
        };
        Some((number, wire))
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        assert!(content.len() < 128, "one length byte only");
        out.push(content.len() as u8);
        out.extend_from_slice(content);
        out
    }

    fn secret() -> Vec<u8> {
        let metadata = [bytes(1, b"s"), bytes(2, b""), bytes(8, b"")].concat();
        let entry = [bytes(1, b"key"), bytes(2, b"\xff\x00")].concat();
        let raw = [bytes(1, &metadata), bytes(2, &entry), bytes(3, b"Opaque"), vec![5 << 3, 1]].concat();
        let type_ = [bytes(1, b"v1"), bytes(2, b"Secret")].concat();
        [MAGIC.to_vec(), bytes(1, &type_), bytes(2, &raw)].concat()
    }

    #[test]
    fn a_secret_is_read_as_its_json_would_be() {
        let expected = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" },
            "data": { "key": "/wA=" }, "type": "Opaque", "immutable": true });
        assert_eq!(decode(&secret()).unwrap(), expected);
    }

    #[test]
    fn a_time_is_read_with_its_digits() {
        let day = [&[1 << 3][..], &[0x80, 0xa3, 0x05], &[2 << 3, 0xe8, 0x07]].concat();
        assert_eq!(time_of(&day, 0).unwrap().unwrap(), "1970-01-02T00:00:00Z");
        assert_eq!(time_of(&day, 6).unwrap().unwrap(), "1970-01-02T00:00:00.000001Z");
        assert_eq!(time_of(&[], 0).unwrap(), None);
    }

    #[test]
    fn broken_bytes_are_refused_and_never_panic() {
        let good = secret();
        for length in 0..good.len() {
            let _ = decode(&good[..length]);
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = decode(&bad);
            }
        }
        assert_eq!(decode(b"json?").unwrap_err().code, 400);
    }
}
