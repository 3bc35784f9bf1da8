//! Evidence in lists of a create's reply: what is owned by a list shows that this very call made it (hole H3).

use super::project::Misfit;
use crate::request::args::Filled;
use holdfast_manifest::{Call, CreatedAt, Source, TOKEN_FIELD};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The first list whose items do not all bear a token of this call, told without what they bear.
pub(crate) fn missing(
    call: &Call,
    args: &BTreeMap<String, Filled>,
    fields: &Map<String, Value>,
) -> Option<Misfit> {
    let ours = |text: &str| {
        args.iter().any(|(name, filled)| {
            call.args.get(name).is_some_and(|arg| arg.from == Source::Token) && filled.one() == Some(text)
        })
    };
    for at in call.creates.values() {
        let CreatedAt::Field(steps) = at else { continue };
        if !call.wants_evidence(steps) {
            continue;
        }
        // The loader sees to it that the outermost list stands first on the path.
        let Some(list) = steps.first() else { continue };
        let items = fields.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let bears = |item: &Value| item.get(TOKEN_FIELD).and_then(Value::as_str).is_some_and(ours);
        if !items.iter().all(bears) {
            let field = format!("{list}/{TOKEN_FIELD}");
            return Some(Misfit { field, found: "a token that is not this call's (hole H3)".into() });
        }
    }
    None
}
