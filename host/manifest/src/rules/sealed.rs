//! L8: sealed values name where they come from, and a target that is one stays where its source may point.

use super::targets::names_one;
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        for (name, arg) in &call.args {
            let path = format!("calls.{}.args.{name}", call.name);
            let at_url = arg.at.contains(&Place::Url);
            if let (Source::Field { call: origin, field }, true) = (&arg.from, arg.ty != Type::Sealed)
                && m.calls.get(origin).is_some_and(|origin| !origin.effect.mutates())
            {
                let message = format!(
                    "what the read `{origin}` returns is not recorded, so `{origin}.{field}` cannot be checked"
                );
                r.allowed(
                    Rule::L8,
                    &path,
                    message,
                    "a field of type sealed, or of a call that changes something",
                );
            }
            if arg.ty != Type::Sealed {
                if at_url {
                    r.allowed(
                        Rule::L8,
                        &path,
                        "`url` accepts sealed values only",
                        "from = \"CALL.FIELD\", a field of type sealed",
                    );
                }
                continue;
            }
            let Source::Field { call: origin, field } = &arg.from else {
                r.allowed(Rule::L8, &path, "a sealed value names its source", "from = \"CALL.FIELD\"");
                continue;
            };
            if !arg.format.is_plain() || arg.write_as != WriteAs::String {
                r.error(Rule::L8, &path, "a sealed value is sent as it came");
            }
            if call.effect == EffectKind::Session {
                continue;
            }
            check_source(m, call, arg, origin, field, &path, r);
        }
    }
}

fn check_source(m: &Manifest, call: &Call, arg: &Arg, origin: &str, field: &str, path: &str, r: &mut Report) {
    let Some(origin) = m.calls.get(origin) else { return };
    if let Some(kind) = &arg.on {
        let aimed = origin
            .args
            .values()
            .any(|arg| arg.on.as_ref() == Some(kind) && !arg.optional && arg.at.iter().any(names_one));
        if let Some((name, _)) = origin.args.iter().find(|(_, arg)| is_free(arg)) {
            let message = format!(
                "`{}` sealed this value, and its free argument `{name}` may have chosen a neighbour's",
                origin.name
            );
            r.allowed(Rule::L8, path, message, "on = KIND or one-of on every argument that the guest gives");
        }
        if !aimed {
            let message = format!(
                "`{}` sealed this value without a mandatory `on = \"{kind}\"` of its own outside query and header: it may speak of a neighbour",
                origin.name
            );
            r.error(Rule::L8, path, message);
        }
    }
    if !arg.at.contains(&Place::Url) || !call.effect.mutates() {
        return;
    }
    let steps: Vec<String> = field.split('/').map(str::to_owned).collect();
    if origin.field_at(&steps).is_some_and(|field| field.within.is_none()) {
        let message =
            format!("a call that changes something at `url` needs `within` on `{}.{field}`", origin.name);
        r.error(Rule::L8, path, message);
    }
    if arg.on.is_none() {
        r.error(Rule::L8, path, "a call that changes something at `url` needs `on`: whose target it is");
    }
}

/// Does the guest choose its value, with nothing that the host compares it with?
fn is_free(arg: &Arg) -> bool {
    matches!(arg.from, Source::Guest | Source::Field { .. }) && arg.on.is_none() && arg.one_of.is_empty()
}
