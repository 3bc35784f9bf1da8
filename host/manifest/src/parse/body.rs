//! Skeletons: the body of a request as it stands in the manifest.

use crate::error::{Rule, Syntax};
use crate::model::Body;
use crate::pattern::form;
use crate::report::{Node, Report};
use crate::table::{Tab, ok};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

pub(super) fn body(tab: &Tab<'_>, r: &mut Report) -> Body {
    const ALLOWED: &str = "\"none\", { json = TEXT }, { form = TEXT }";
    let path = tab.at("body");
    let node = match tab.get("body") {
        None => return Body::None,
        Some(Node::Str(word)) if word == "none" => return Body::None,
        Some(node @ Node::Table(_)) => node,
        Some(_) => {
            r.allowed(Rule::Grammar, &path, "this is not a body", ALLOWED);
            return Body::None;
        }
    };
    let Some(tab) = Tab::open(node, &path, &["json", "form", "xml"], r) else { return Body::None };
    if tab.has("xml") {
        r.not_yet(&path, "xml bodies are");
        return Body::None;
    }
    match (tab.has("json"), tab.has("form")) {
        (true, false) => tab.parsed("json", r, json).map_or(Body::None, Body::Json),
        (false, true) => tab.parsed("form", r, form).map_or(Body::None, Body::Form),
        _ => {
            r.allowed(Rule::Grammar, &path, "a body has one form", ALLOWED);
            ok(Ok(Body::None), &path, r).unwrap_or(Body::None)
        }
    }
}

/// A JSON skeleton: an object or a list, without duplicate keys.
fn json(text: &str) -> Result<Value, Syntax> {
    let strict: Strict =
        serde_json::from_str(text).map_err(|e| Syntax::bad(format!("not a JSON skeleton: {e}")))?;
    match strict.0 {
        value @ (Value::Object(_) | Value::Array(_)) => Ok(value),
        _ => Err(Syntax::bad("a JSON skeleton is an object or a list")),
    }
}

/// JSON in which an object names each member once: parsers disagree about which of two counts.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Strict(value) = map.next_value()?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
