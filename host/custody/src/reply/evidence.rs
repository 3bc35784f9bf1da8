//! Evidence in lists of a create's reply: what is owned by a list shows that this very call made it (hole H3).

use super::project::Misfit;
use crate::request::args::Filled;
use holdfast_manifest::{Arg, ArgFormat, Call, CreatedAt, Source, TOKEN_FIELD};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The first list whose items do not all bear a token of this call, told without what they bear.
pub(crate) fn missing(
    call: &Call,
    args: &BTreeMap<String, Filled>,
    fields: &Map<String, Value>,
) -> Option<Misfit> {
    // Plain, or as the call wrote it.
    let written = |arg: &Arg, filled: &Filled, text: &str| match (&arg.format, filled.one()) {
        (_, Some(sent)) if sent == text => true,
        (ArgFormat::Around(before, after), Some(sent)) => {
            sent.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(after.as_str()))
                == Some(text)
        }
        _ => false,
    };
    let ours = |text: &str| {
        let tokens = call.args.iter().filter(|(_, arg)| arg.from == Source::Token);
        tokens.into_iter().any(|(name, arg)| args.get(name).is_some_and(|filled| written(arg, filled, text)))
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
