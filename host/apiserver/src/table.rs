//! Tables for `kubectl get`: columns of each kind, and cells computed from an object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use serde_json::{Value, json};

/// One column of a table.
pub(crate) struct Column {
    name: String,
    type_: String,
    format: String,
    description: String,
    priority: i32,
    cell: Cell,
}

enum Cell {
    Path(Path),
    Made(fn(&Value) -> Value),
}

impl Column {
    /// The first column of every table.
    pub(crate) fn name() -> Self {
        let mut column = Self::path("Name", "string", "metadata.name");
        column.format = "name".into();
        column.description = "Name of the object.".into();
        column
    }

    /// A column that a CRD defines.
    pub(crate) fn from_definition(definition: &CustomResourceColumnDefinition) -> Self {
        Self {
            name: definition.name.clone(),
            type_: definition.type_.clone(),
            format: definition.format.clone().unwrap_or_default(),
            description: definition.description.clone().unwrap_or_default(),
            priority: definition.priority.unwrap_or(0),
            cell: Cell::Path(split_path(definition.json_path.trim_start_matches('.'))),
        }
    }

    fn path(name: &str, type_: &str, path: &str) -> Self {
        Self {
            name: name.into(),
            type_: type_.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            cell: Cell::Path(split_path(path)),
        }
    }

    fn made(name: &str, type_: &str, make: fn(&Value) -> Value) -> Self {
        Self { cell: Cell::Made(make), ..Self::path(name, type_, "") }
    }

    fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    fn definition(&self) -> Value {
        json!({ "name": self.name, "type": self.type_, "format": self.format,
                "description": self.description, "priority": self.priority })
    }

    fn cell(&self, object: &Value) -> Value {
        let value = match &self.cell {
            Cell::Made(make) => return make(object),
            Cell::Path(path) => look_up(object, path).unwrap_or(&Value::Null),
        };
        match (self.type_.as_str(), value) {
            ("date", Value::String(at)) => age(at),
            ("date", _) if self.name == "Age" => json!("<unknown>"),
            ("string", Value::Object(_) | Value::Array(_) | Value::Number(_) | Value::Bool(_)) => {
                json!(value.to_string())
            }
            ("string", Value::Null) if self.format != "name" => Value::Null,
            _ => value.clone(),
        }
    }
}

/// Which part of each object a table carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

/// A table of objects. A watch sends the columns with its first event only.
pub(crate) fn table(
    columns: &[Column],
    list_meta: Value,
    objects: &[Value],
    include: Include,
    header: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|c| c.cell(object)).collect();
            let mut row = json!({ "cells": cells });
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = partial(object),
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    let definitions: Vec<Value> =
        if header { columns.iter().map(Column::definition).collect() } else { Vec::new() };
    json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
            "columnDefinitions": definitions, "rows": rows })
}

/// The metadata of an object, as an object of its own.
pub(crate) fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}

/// A way into an object.
pub(crate) type Path = Vec<Part>;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Member(String),
    /// The first element of a list with a member of this name that is this text.
    Where(String, String),
}

/// Splits a dotted path; a dot after a backslash belongs to the name. `list[?(@.member=='text')]` picks an element.
pub(crate) fn split_path(path: &str) -> Path {
    let (mut parts, mut name, mut rest) = (Vec::new(), String::new(), path);
    while let Some(c) = rest.chars().next() {
        if let Some((part, after)) = chosen(rest) {
            parts.extend([Part::Member(std::mem::take(&mut name)), part]);
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let mut chars = rest.chars();
                name.extend(chars.next());
                rest = chars.as_str();
            }
            '.' => parts.push(Part::Member(std::mem::take(&mut name))),
            c => name.push(c),
        }
    }
    // After a choice there may be nothing more.
    if !name.is_empty() || parts.is_empty() {
        parts.push(Part::Member(name));
    }
    parts
}

/// A choice at the beginning of a path, and what comes after it.
fn chosen(path: &str) -> Option<(Part, &str)> {
    let (inner, rest) = path.strip_prefix("[?(@.")?.split_once(")]")?;
    let (member, text) = inner.split_once("==")?;
    let text = text.trim().trim_matches(['\'', '"']);
    Some((Part::Where(member.trim().to_owned(), text.to_owned()), rest))
}

/// The value at a path.
pub(crate) fn look_up<'a>(object: &'a Value, path: &[Part]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| match part {
        Part::Member(name) => value.get(name),
        Part::Where(member, text) => value.as_array()?.iter().find(|one| one[member.as_str()] == **text),
    })
}

/// How long ago something was, in the short form of `kubectl get`.
fn age(at: &str) -> Value {
    match at.parse::<jiff::Timestamp>() {
        Ok(at) => json!(short_duration(jiff::Timestamp::now().as_second() - at.as_second())),
        Err(_) => json!("<unknown>"),
    }
}

/// Kubernetes' short form of a duration: two units at most, fewer as it grows.
pub(crate) fn short_duration(seconds: i64) -> String {
    let two = |big: i64, b: &str, small: i64, s: &str| {
        if small == 0 { format!("{big}{b}") } else { format!("{big}{b}{small}{s}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn age_column() -> Column {
    Column::path("Age", "date", "metadata.creationTimestamp")
}

fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

/// Columns of Secret.
pub(crate) fn secret_columns() -> Vec<Column> {
    let data = Column::made("Data", "integer", |o| json!(count(&o["data"])));
    vec![Column::name(), Column::path("Type", "string", "type"), data, age_column()]
}

/// Columns of ConfigMap.
pub(crate) fn config_map_columns() -> Vec<Column> {
    let data = Column::made("Data", "integer", |o| json!(count(&o["data"]) + count(&o["binaryData"])));
    vec![Column::name(), data, age_column()]
}

/// Columns of Namespace.
pub(crate) fn namespace_columns() -> Vec<Column> {
    vec![Column::name(), Column::path("Status", "string", "status.phase"), age_column()]
}

/// Columns of Lease.
pub(crate) fn lease_columns() -> Vec<Column> {
    vec![Column::name(), Column::path("Holder", "string", "spec.holderIdentity"), age_column()]
}

/// Columns of Event, in either of its groups.
pub(crate) fn event_columns() -> Vec<Column> {
    let seen = Column::made("Last Seen", "string", |o| {
        let times = ["lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp"];
        let at = o["series"]["lastObservedTime"].as_str();
        let at = at.or_else(|| times.iter().find_map(|f| o[*f].as_str()));
        at.or(o["metadata"]["creationTimestamp"].as_str()).map_or(json!("<unknown>"), age)
    });
    let object = Column::made("Object", "string", |o| {
        let about = if o["involvedObject"].is_object() { &o["involvedObject"] } else { &o["regarding"] };
        let word = |f: &str| about[f].as_str().unwrap_or_default().to_owned();
        json!(format!("{}/{}", word("kind").to_lowercase(), word("name")))
    });
    let message = Column::made("Message", "string", |o| {
        let text = o["message"].as_str().or(o["note"].as_str()).unwrap_or_default();
        json!(text.trim())
    });
    let count = Column::made("Count", "integer", |o| {
        let count =
            [&o["series"]["count"], &o["count"], &o["deprecatedCount"]].into_iter().find_map(Value::as_i64);
        json!(count.unwrap_or(1))
    });
    vec![
        seen,
        Column::path("Type", "string", "type"),
        Column::path("Reason", "string", "reason"),
        object,
        message,
        count.wide(),
        Column::path("Name", "string", "metadata.name").wide(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_short_as_kubectl_shows_them() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (252_288_000, "8y"),
        ];
        for (seconds, shown) in table {
            assert_eq!(short_duration(seconds), shown, "{seconds} s");
        }
    }

    #[test]
    fn a_path_may_hold_an_escaped_dot() {
        let names = ["metadata", "labels", "holdfast.dev/site"].map(|name| Part::Member(name.to_owned()));
        assert_eq!(split_path("metadata.labels.holdfast\\.dev/site"), names);
        let object = json!({ "a": { "b.c": 1 } });
        assert_eq!(look_up(&object, &split_path("a.b\\.c")), Some(&json!(1)));
    }

    #[test]
    fn a_path_may_choose_an_element_of_a_list() {
        let object = json!({ "status": { "conditions": [
            { "type": "Stale", "status": "False" }, { "type": "Ready", "status": "True" },
        ] } });
        for (path, value) in [
            ("status.conditions[?(@.type=='Ready')].status", Some(json!("True"))),
            ("status.conditions[?(@.type==\"Stale\")].status", Some(json!("False"))),
            ("status.conditions[?(@.type=='Stale')]", Some(json!({ "type": "Stale", "status": "False" }))),
            ("status.conditions[?(@.type=='Other')].status", None),
            ("status[?(@.type=='Ready')].status", None),
        ] {
            assert_eq!(look_up(&object, &split_path(path)), value.as_ref(), "{path}");
        }
    }
}
