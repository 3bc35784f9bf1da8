//! Label and field selectors, in their string forms.

use crate::index::Stored;
use crate::registry::Kind;
use crate::status::ApiError;

/// What a list or watch is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
}

#[derive(Debug)]
struct FieldRequirement {
    field: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses both selectors of a request.
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = parse_labels(labels).map_err(|why| {
            ApiError::bad_request(format!(
                "unable to parse requirement: {why} in label selector \"{labels}\""
            ))
        })?;
        Ok(Self { labels, fields: parse_fields(kind, fields)? })
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.labels.iter().all(|r| r.matches(object)) && self.fields.iter().all(|r| r.matches(object))
    }

    /// The name that a field selector narrows to, if it does.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.field == "metadata.name").map(|f| f.value.as_str())
    }
}

impl Requirement {
    fn matches(&self, object: &Stored) -> bool {
        let value = object.labels.get(&self.key);
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::In => value.is_some_and(|v| self.values.contains(v)),
            Operator::NotIn => value.is_none_or(|v| !self.values.contains(v)),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Stored) -> bool {
        let value = match self.field.as_str() {
            "metadata.name" => &object.key.name,
            "metadata.namespace" => &object.key.namespace,
            field => object.fields.iter().find(|(name, _)| name == field).map_or("", |(_, v)| v.as_str()),
        };
        (value == self.value) == self.equal
    }
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<FieldRequirement>, ApiError> {
    let mut out = Vec::new();
    for term in text.split(',').filter(|t| !t.is_empty()) {
        let (field, value, equal) = if let Some((field, value)) = term.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (field, value, true)
        } else {
            return Err(ApiError::bad_request(format!("invalid field selector: '{term}' has no operator")));
        };
        let field = field.trim();
        let known = matches!(field, "metadata.name" | "metadata.namespace")
            || kind.selectable.iter().any(|(name, _)| name == field);
        if !known {
            return Err(ApiError::bad_request(format!("field label not supported: {field}")));
        }
        out.push(FieldRequirement { field: field.to_owned(), value: value.to_owned(), equal });
    }
    Ok(out)
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    split_terms(text)?.into_iter().map(parse_label).collect()
}

/// Splits at commas that are not between parentheses.
fn split_terms(text: &str) -> Result<Vec<&str>, String> {
    let (mut depth, mut start, mut terms) = (0_u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("found ')' without '('")?,
            ',' if depth == 0 => {
                terms.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err("found '(' without ')'".into());
    }
    terms.push(text[start..].trim());
    if terms.len() == 1 && terms[0].is_empty() {
        terms.clear();
    }
    Ok(terms)
}

fn parse_label(term: &str) -> Result<Requirement, String> {
    let requirement = |key: &str, operator, values: Vec<String>| {
        let key = key.trim();
        if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "=!(),".contains(c)) {
            return Err(format!("\"{key}\" is no label key"));
        }
        Ok(Requirement { key: key.to_owned(), operator, values })
    };
    if let Some((head, values)) = term.split_once('(') {
        let values = values.strip_suffix(')').ok_or("expected ')'")?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        return match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => requirement(key, Operator::In, values),
            [key, "notin"] => requirement(key, Operator::NotIn, values),
            _ => Err(format!("\"{head}\" is neither in nor notin")),
        };
    }
    if let Some((key, value)) = term.split_once("!=") {
        return requirement(key, Operator::NotIn, vec![value.trim().to_owned()]);
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return requirement(key, Operator::In, vec![value.trim().to_owned()]);
    }
    match term.strip_prefix('!') {
        Some(key) => requirement(key, Operator::Absent, Vec::new()),
        None => requirement(term, Operator::Exists, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_of_every_form_are_read() {
        let read = parse_labels("a=1,b==2,c!=3,d in (x, y),e notin (z),f,!g").unwrap();
        let expected = [
            ("a", Operator::In, vec!["1"]),
            ("b", Operator::In, vec!["2"]),
            ("c", Operator::NotIn, vec!["3"]),
            ("d", Operator::In, vec!["x", "y"]),
            ("e", Operator::NotIn, vec!["z"]),
            ("f", Operator::Exists, vec![]),
            ("g", Operator::Absent, vec![]),
        ];
        assert_eq!(read.len(), expected.len());
        for (found, (key, operator, values)) in read.iter().zip(expected) {
            assert_eq!((found.key.as_str(), found.operator), (key, operator));
            assert_eq!(found.values, values);
        }
        assert!(parse_labels("").unwrap().is_empty());
    }

    #[test]
    fn a_broken_label_selector_is_refused() {
        for text in ["a in (b", "a)", "=x", "a b", "a,,b", "a in b", "x within (y)"] {
            assert!(parse_labels(text).is_err(), "{text} was accepted");
        }
    }
}
