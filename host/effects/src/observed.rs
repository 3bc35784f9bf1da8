//! What replies of this callback showed: the only unsealed values that a guest may carry into `from = CALL.FIELD`.

use crate::args::Args;
use crate::ownership::{select, steps, text_of, texts};
use crate::targets::Target;
use holdfast_manifest::{Manifest, Source};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Beyond this many values the rest is not remembered, and so refused.
const MAX_VALUES: usize = 16_384;

/// Values by call and field; only fields that some argument carries.
#[derive(Default)]
pub(crate) struct Observed {
    values: HashSet<(String, String, String)>,
    aims: HashMap<String, BTreeSet<Target>>,
}

impl Observed {
    pub fn add(&mut self, manifest: &Manifest, call: &str, args: &Args, fields: &Map<String, Value>) {
        let aims = aims(manifest, call, args);
        let carried =
            manifest.calls.values().flat_map(|other| other.args.values()).filter_map(|arg| match &arg.from {
                Source::Field { call: of, field } if of == call => Some(field),
                _ => None,
            });
        for field in carried {
            for text in texts(fields, &steps(field)) {
                if self.values.len() >= MAX_VALUES {
                    return;
                }
                // Equal values seal to equal texts: one that came from two targets points at both.
                self.aims.entry(text.clone()).or_default().extend(aims.iter().cloned());
                self.values.insert((call.to_owned(), field.clone(), text));
            }
        }
    }

    pub fn has(&self, call: &str, field: &str, text: &str) -> bool {
        self.values.contains(&(call.to_owned(), field.to_owned(), text.to_owned()))
    }

    pub fn aims(&self, sealed: &str) -> Option<Vec<Target>> {
        self.aims.get(sealed).map(|aims| aims.iter().cloned().collect())
    }
}

/// What a call was aimed at, for the values that it seals.
fn aims(manifest: &Manifest, call: &str, args: &Args) -> Vec<Target> {
    let Some(call) = manifest.calls.get(call) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, arg) in &call.args {
        let (Some(kind), Some(value)) = (&arg.on, args.get(name)) else { continue };
        let ids = select(value, &[]).into_iter().filter_map(text_of);
        found.extend(ids.map(|id| Target { kind: kind.clone(), id }));
    }
    found
}
