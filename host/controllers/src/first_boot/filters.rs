//! The filters that templates may use. Those that take a secret go through its placeholder; the others refuse one.

use std::sync::Arc;

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::placeholder::{Secrets, Step, holds_secret};

/// Widest indent.
const MAX_INDENT: usize = 64;

pub(super) fn add(engine: &mut Environment<'_>, secrets: &Arc<Secrets>) {
    let with = secrets.clone();
    engine.add_filter("tojson", move |value: &Value| {
        let mut out = String::new();
        json(&with, value, &mut out, 0)?;
        Ok::<_, Error>(whole(&with, out))
    });
    let with = secrets.clone();
    engine.add_filter("b64encode", move |value: &Value| step(&with, Step::Base64, value));
    let with = secrets.clone();
    engine.add_filter("trim", move |value: &Value| step(&with, Step::Trim, value));
    let with = secrets.clone();
    engine.add_filter(
        "indent",
        move |value: &Value, width: Option<usize>, first: Option<bool>, blank: Option<bool>| {
            let width = width.unwrap_or(4);
            if width > MAX_INDENT {
                return Err(wrong(format!("an indent is at most {MAX_INDENT} wide")));
            }
            let (first, blank) = (first.unwrap_or(false), blank.unwrap_or(false));
            step(&with, Step::Indent { width, first, blank }, value)
        },
    );
    engine.add_filter("default", |value: &Value, other: Rest<Value>| {
        if value.is_undefined() {
            other.first().cloned().unwrap_or_else(|| Value::from(""))
        } else {
            value.clone()
        }
    });
    engine.add_filter("upper", |value: &Value| plain(value).map(|text| text.to_uppercase()));
    engine.add_filter("lower", |value: &Value| plain(value).map(|text| text.to_lowercase()));
    engine.add_filter("length", |value: &Value| match value.kind() {
        ValueKind::String => plain(value).map(|text| text.chars().count()),
        _ => value.len().ok_or_else(|| wrong("`length` takes a text or a list")),
    });
    engine.add_filter("split", |value: &Value, by: &Value| {
        let (text, by) = (plain(value)?, plain(by)?);
        if by.is_empty() {
            return Err(wrong("`split` needs a text to split by"));
        }
        Ok(text.split(&by).map(str::to_owned).collect::<Vec<_>>())
    });
    engine.add_filter("join", |value: &Value, by: Option<&Value>| {
        let by = by.map(text).transpose()?.unwrap_or_default();
        let items = value.try_iter()?.map(|item| text(&item)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Error>(items.join(&by))
    });
}

/// What `{{ }}` may print: a list or a map would come out in the engine's own notation, placeholders and all.
pub(super) fn print(engine: &mut Environment<'_>) {
    engine.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
            Err(wrong("a list or a map is printed through `tojson` or `join`"))
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// A value as the text that it prints.
fn text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::String | ValueKind::Number | ValueKind::Bool | ValueKind::Plain => Ok(value.to_string()),
        kind => Err(wrong(format!("a text is needed here, not a value of kind {kind}"))),
    }
}

/// The same, of a value without secrets.
fn plain(value: &Value) -> Result<String, Error> {
    let text = text(value)?;
    if holds_secret(&text) {
        let what = "a secret value can't go through this filter; `tojson`, `b64encode`, `indent` and `trim` take one";
        return Err(wrong(what));
    }
    Ok(text)
}

fn step(secrets: &Secrets, step: Step, value: &Value) -> Result<Value, Error> {
    secrets.step(step, text(value)?).map_err(wrong)
}

/// A text made of placeholders is handed on as one, so that it can't be cut.
fn whole(secrets: &Secrets, text: String) -> Value {
    if holds_secret(&text) {
        secrets.step(Step::Indent { width: 0, first: false, blank: false }, text).unwrap_or_default()
    } else {
        Value::from(text)
    }
}

fn json(secrets: &Secrets, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    if depth > 16 {
        return Err(wrong("`tojson` takes values of at most 16 levels"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::Map => {
            out.push('{');
            for (number, key) in value.try_iter()?.enumerate() {
                if number > 0 {
                    out.push(',');
                }
                out.push_str(&text(&step(secrets, Step::Json, &Value::from(text(&key)?))?)?);
                out.push(':');
                json(secrets, &value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (number, item) in value.try_iter()?.enumerate() {
                if number > 0 {
                    out.push(',');
                }
                json(secrets, &item, out, depth + 1)?;
            }
            out.push(']');
        }
        _ => out.push_str(&text(&step(secrets, Step::Json, value)?)?),
    }
    Ok(())
}
