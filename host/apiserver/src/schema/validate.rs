//! Validation against a schema, in the words of the Kubernetes API server.

use serde_json::Value;

use super::{Format, Schema, Type, join};
use crate::status::Cause;

/// Most causes in one answer.
const MAX_CAUSES: usize = 64;

impl Schema {
    /// Adds to `causes` every rule that the value breaks.
    pub(crate) fn validate(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if causes.len() >= MAX_CAUSES || (value.is_null() && self.nullable) {
            return;
        }
        if self.int_or_string {
            if !(value.is_string() || value.is_i64() || value.is_u64()) {
                causes.push(Cause::wrong_type(path, "integer,string", value));
            }
            return;
        }
        if let Some(type_) = self.type_
            && !type_.admits(value)
        {
            causes.push(Cause::wrong_type(path, type_.name(), value));
            return;
        }
        if let Some(allowed) = &self.allowed
            && !allowed.contains(value)
        {
            causes.push(Cause::unsupported(path, value, allowed));
        }
        match value {
            Value::Object(map) => self.validate_object(map, path, causes),
            Value::Array(list) => self.validate_array(list, path, causes),
            Value::String(text) => self.validate_string(text, value, path, causes),
            Value::Number(number) => self.validate_number(number, value, path, causes),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn validate_object(&self, map: &serde_json::Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
        for name in &self.required {
            if !map.contains_key(name) {
                causes.push(Cause::required(join(path, name), ""));
            }
        }
        if let Some(most) = self.max_properties
            && map.len() as u64 > most
        {
            causes.push(Cause::too_many(path, map.len(), most));
        }
        for (name, child) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                schema.validate(child, &join(path, name), causes);
            }
        }
    }

    fn validate_array(&self, list: &[Value], path: &str, causes: &mut Vec<Cause>) {
        if let Some(most) = self.max_items
            && list.len() as u64 > most
        {
            causes.push(Cause::too_many(path, list.len(), most));
        }
        if let Some(least) = self.min_items
            && (list.len() as u64) < least
        {
            let detail = format!("{path} in body should have at least {least} items");
            causes.push(Cause::invalid(path, &Value::from(list.len()), detail));
        }
        if let Some(items) = &self.items {
            for (index, child) in list.iter().enumerate() {
                items.validate(child, &format!("{path}[{index}]"), causes);
            }
        }
    }

    fn validate_string(&self, text: &str, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let length = text.chars().count() as u64;
        if let Some(most) = self.max_length
            && length > most
        {
            causes.push(Cause::too_long(path, most));
        }
        if let Some(least) = self.min_length
            && length < least
        {
            let detail = format!("{path} in body should be at least {least} chars long");
            causes.push(Cause::invalid(path, value, detail));
        }
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(text)
        {
            let detail = format!("{path} in body should match '{}'", pattern.as_str());
            causes.push(Cause::invalid(path, value, detail));
        }
        let format = match self.format {
            Some(Format::DateTime) if text.parse::<jiff::Timestamp>().is_err() => "date-time",
            Some(Format::Byte) if !is_base64(text) => "byte",
            _ => return,
        };
        let detail = format!("{path} in body must be of type {format}: {value}");
        causes.push(Cause::invalid(path, value, detail));
    }

    fn validate_number(
        &self,
        number: &serde_json::Number,
        value: &Value,
        path: &str,
        causes: &mut Vec<Cause>,
    ) {
        let float = number.as_f64().unwrap_or(f64::NAN);
        if let Some(least) = self.minimum
            && float < least
        {
            let detail = format!("{path} in body should be greater than or equal to {least}");
            causes.push(Cause::invalid(path, value, detail));
        }
        if let Some(most) = self.maximum
            && float > most
        {
            let detail = format!("{path} in body should be less than or equal to {most}");
            causes.push(Cause::invalid(path, value, detail));
        }
        let fits = match self.format {
            Some(Format::Int32) => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            _ => self.type_ != Some(Type::Integer) || number.as_i64().is_some(),
        };
        if !fits {
            let width = if self.format == Some(Format::Int32) { "int32" } else { "int64" };
            causes.push(Cause::invalid(
                path,
                value,
                format!("{path} in body must be of type {width}: {value}"),
            ));
        }
    }
}

impl Type {
    fn admits(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Integer => value.is_i64() || value.is_u64(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Integer => "integer",
        }
    }
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}
