//! Captures: what a service makes up itself (tokens, root passwords) is taken out first, whatever the status, and
//! watched for from then on (attacks 47, 48).

use super::document::Doc;
use super::project::{Found, Source, select, text_of};
use crate::scan::FLOOR;
use crate::secret::SecretBytes;
use holdfast_manifest::Capture;
use std::collections::BTreeMap;

/// Longest captured value in bytes. A longer one is no token, and would fill the provider's live set (attack 47).
pub(crate) const CAPTURE_MAX: usize = 8192;

/// Captured values by name. A capture at an object or list takes every text below it, so that a service which
/// changes shape doesn't slip a secret by.
#[derive(Default)]
pub(crate) struct Captured {
    pub values: BTreeMap<String, Vec<SecretBytes>>,
    /// Mandatory captures that the reply doesn't have.
    pub missing: Vec<String>,
}

impl Captured {
    /// The single value of a session capture.
    pub fn one(&self, name: &str) -> Option<&SecretBytes> {
        match self.values.get(name)?.as_slice() {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Is every value [`FLOOR`] to [`CAPTURE_MAX`] bytes long?
    pub fn within_bounds(&self) -> bool {
        self.values.values().flatten().all(|value| (FLOOR..=CAPTURE_MAX).contains(&value.len()))
    }
}

/// Takes every declared capture that is present.
pub(crate) fn capture(captures: &BTreeMap<String, Capture>, source: &Source<'_>) -> Captured {
    let mut out = Captured::default();
    for (name, capture) in captures {
        let mut values = Vec::new();
        for found in select(&capture.at, source).unwrap_or_default() {
            collect(&found, &mut values);
        }
        values.retain(|value| value.len() > 0);
        if values.is_empty() {
            if !capture.optional {
                out.missing.push(name.clone());
            }
        } else {
            out.values.insert(name.clone(), values);
        }
    }
    out
}

fn collect(found: &Found<'_>, values: &mut Vec<SecretBytes>) {
    if let Some(text) = text_of(found) {
        values.push(SecretBytes::copy_of(text.as_bytes()));
        return;
    }
    match found {
        Found::Doc(Doc::List(list)) => list.iter().for_each(|doc| collect(&Found::Doc(doc), values)),
        Found::Doc(Doc::Map(map)) => map.values().for_each(|doc| collect(&Found::Doc(doc), values)),
        Found::Doc(Doc::Element(element)) => {
            element.children.iter().for_each(|doc| collect(&Found::Doc(doc), values));
        }
        _ => {}
    }
}
