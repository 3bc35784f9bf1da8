//! Structural schemas (the subset of OpenAPI v3 that CRDs may use), compiled once and walked for each write:
//! [`Schema::prune`] removes unknown fields, [`Schema::fill`] sets defaults, [`Schema::validate`] finds faults.

mod json;
mod validate;

pub(crate) use json::parse_json;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

/// A compiled schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    type_: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    /// Unknown fields are kept.
    preserve: bool,
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    allowed: Option<Vec<Value>>,
    default: Option<Value>,
    pattern: Option<Regex>,
    format: Option<Format>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    max_properties: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DateTime,
    Byte,
    Int32,
}

impl Schema {
    /// Compiles a schema; fails on what it doesn't understand, so that no rule is silently dropped.
    pub(crate) fn compile(source: &Value) -> Result<Self, String> {
        let Some(source) = source.as_object() else {
            return Ok(Self { preserve: true, ..Self::default() });
        };
        let mut schema = Self::default();
        for (word, value) in source {
            schema.take(word, value).map_err(|why| format!("{word}: {why}"))?;
        }
        Ok(schema)
    }

    fn take(&mut self, word: &str, value: &Value) -> Result<(), String> {
        let number = || value.as_f64().ok_or("not a number");
        let count = || value.as_u64().or(value.as_f64().map(|f| f as u64)).ok_or("not a count");
        match word {
            "type" => self.type_ = Some(type_of(value)?),
            "nullable" => self.nullable = value == true,
            "x-kubernetes-int-or-string" => self.int_or_string = value == true,
            "x-kubernetes-preserve-unknown-fields" => self.preserve = value == true,
            "properties" => {
                for (name, child) in value.as_object().ok_or("not an object")? {
                    let child = Self::compile(child).map_err(|why| format!("{name}: {why}"))?;
                    self.properties.insert(name.clone(), child);
                }
            }
            "required" => self.required = strings(value)?,
            "additionalProperties" => match value {
                Value::Bool(true) => self.preserve = true,
                Value::Bool(false) => {}
                other => self.additional = Some(Box::new(Self::compile(other)?)),
            },
            "items" => self.items = Some(Box::new(Self::compile(value)?)),
            "enum" => self.allowed = Some(value.as_array().ok_or("not a list")?.clone()),
            "default" => self.default = Some(value.clone()),
            "pattern" => {
                let text = value.as_str().ok_or("not a string")?;
                self.pattern = Some(Regex::new(text).map_err(|e| e.to_string())?);
            }
            "format" => {
                self.format = match value.as_str() {
                    Some("date-time") => Some(Format::DateTime),
                    Some("byte") => Some(Format::Byte),
                    Some("int32") => Some(Format::Int32),
                    _ => None,
                }
            }
            "minimum" => self.minimum = Some(number()?),
            "maximum" => self.maximum = Some(number()?),
            "minLength" => self.min_length = Some(count()?),
            "maxLength" => self.max_length = Some(count()?),
            "minItems" => self.min_items = Some(count()?),
            "maxItems" => self.max_items = Some(count()?),
            "maxProperties" => self.max_properties = Some(count()?),
            // Rules in CEL are enforced by validators in Rust (`crate::rules`); the rest is for readers.
            "x-kubernetes-validations" | "description" | "title" | "example" => {}
            word if word.starts_with("x-kubernetes-") => {}
            _ => return Err("not understood".to_owned()),
        }
        Ok(())
    }

    /// Removes fields that the schema doesn't know and adds their paths to `unknown`.
    pub(crate) fn prune(&self, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Object(map) if !self.preserve => {
                if let Some(additional) = &self.additional {
                    for (name, child) in map.iter_mut() {
                        additional.prune(child, &join(path, name), unknown);
                    }
                    return;
                }
                if self.type_ != Some(Type::Object) {
                    return;
                }
                map.retain(|name, child| match self.properties.get(name) {
                    Some(schema) => {
                        schema.prune(child, &join(path, name), unknown);
                        true
                    }
                    None => {
                        unknown.push(join(path, name));
                        false
                    }
                });
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    for (index, child) in list.iter_mut().enumerate() {
                        items.prune(child, &format!("{path}[{index}]"), unknown);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sets defaults where a field is absent, or null and not nullable.
    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    schema.fill_field(map, name);
                }
                if let Some(additional) = &self.additional {
                    map.values_mut().for_each(|child| additional.fill(child));
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|child| items.fill(child));
                }
            }
            _ => {}
        }
    }

    fn fill_field(&self, map: &mut Map<String, Value>, name: &str) {
        if let Some(default) = &self.default {
            let absent = match map.get(name) {
                None => true,
                Some(Value::Null) => !self.nullable,
                Some(_) => false,
            };
            if absent {
                map.insert(name.to_owned(), default.clone());
            }
        }
        if let Some(child) = map.get_mut(name) {
            self.fill(child);
        }
    }
}

/// Removes nulls from objects, at every depth: how core kinds read a null.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn type_of(value: &Value) -> Result<Type, String> {
    Ok(match value.as_str() {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => return Err(format!("unknown type {value}")),
    })
}

fn strings(value: &Value) -> Result<Vec<String>, String> {
    serde_json::from_value(value.clone()).map_err(|e| e.to_string())
}
