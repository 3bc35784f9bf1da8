//! Section 7: what a call makes is recorded by the host from places that the reply must have (hole H3).

use crate::TOKEN_FIELD;
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

/// Most things of one kind that one create may make.
const MOST_MADE: u64 = 16;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        let completed = m.calls.values().any(|read| read.completes.contains_key(&call.name));
        if call.effect == EffectKind::Create && call.creates.is_empty() && !completed {
            let message = "a create says in `creates` what it makes, or a read `completes` it";
            r.error(Rule::L3, &path, message);
        }
        let completing = call.effect == EffectKind::Read && !call.completes.is_empty();
        if !call.creates.is_empty() && call.effect != EffectKind::Create && !completing {
            r.error(
                Rule::L3,
                &format!("{path}.creates"),
                "only a create, or a read that completes one, has `creates`",
            );
        }
        if completing && call.creates.is_empty() {
            r.error(
                Rule::L3,
                &format!("{path}.completes"),
                "a read that completes a create says in `creates` what that made",
            );
        }
        for (kind, at) in &call.creates {
            check_created(call, at, &format!("{path}.creates.{kind}"), r);
        }
        for (kind, adopt) in &call.adopts {
            check_adopt(call, adopt, &format!("{path}.adopts.{kind}"), r);
        }
    }
}

fn check_created(call: &Call, at: &CreatedAt, path: &str, r: &mut Report) {
    match at {
        CreatedAt::Arg(name) => match call.args.get(name) {
            Some(arg) if arg.from == Source::Token && !arg.optional => {}
            Some(_) => {
                let message =
                    format!("`args.{name}` is not the host's own name for the thing, so it proves nothing");
                r.allowed(Rule::L3, path, message, "a mandatory argument `from = \"token\"`, or a field");
            }
            None => {
                let known: Vec<&str> = call.args.keys().map(String::as_str).collect();
                r.unknown(Rule::L1, path, format!("no argument is named `{name}`"), name, &known);
            }
        },
        CreatedAt::Field(steps) => {
            let Some(field) = scalar(call, steps, path, r) else { return };
            if call.effect == EffectKind::Create && steps.iter().any(|step| step == "*") {
                check_many(call, steps, path, r);
            }
            if !matches!(field.ty, Type::Id | Type::Path | Type::Word) {
                r.allowed(
                    Rule::L1,
                    path,
                    format!("an identity is not of type {}", field.ty),
                    "id, path, word",
                );
            }
            if call.effect == EffectKind::Create && has_optional(call, steps) {
                let message = "what a create makes must be in its reply: an optional field would lose it";
                r.allowed(
                    Rule::L3,
                    path,
                    message,
                    "a mandatory field, `args.A`, or a read that `completes` the create",
                );
            }
        }
    }
}

/// What a create makes by the list: few of them, each of which shows that it is of this very effect (hole H3).
fn check_many(call: &Call, steps: &[String], path: &str, r: &mut Report) {
    if call.most_of(steps) > MOST_MADE {
        let message = format!(
            "a create makes at most {MOST_MADE} of a kind; this path may lead to {}",
            call.most_of(steps)
        );
        r.allowed(Rule::L3, path, message, "`max-items` on each list of the path");
    }
    if !call.wants_evidence(steps) {
        return;
    }
    let bears = call.lists_on(steps).next().and_then(|list| list.each.as_ref()?.get(TOKEN_FIELD));
    let fits = bears.is_some_and(|field| {
        !field.optional && !field.is_list() && matches!(field.ty, Type::Id | Type::Word)
    });
    if !fits || !call.args.values().any(|arg| arg.from == Source::Token) {
        let message = "a list may mention neighbours (hole H3): an item must show that this create made it";
        let allowed = "a mandatory field `token` (id or word) in `each` of the outermost list and an argument \
                       `from = \"token\"`, `max-items = 1` on the lists, a field outside a list, `args.A`, or a read that \
                       `completes` it";
        r.allowed(Rule::L3, path, message, allowed);
    }
}

/// The field of scalars at a path; lists need their `*` written.
pub(super) fn scalar<'a>(call: &'a Call, steps: &[String], path: &str, r: &mut Report) -> Option<&'a Field> {
    let field = call.field_at(steps).filter(|field| field.each.is_none());
    let starred = field.is_none_or(|field| !field.is_list() || steps.last().is_some_and(|step| step == "*"));
    if field.is_none() || !starred {
        let message =
            format!("`{}` is no scalar field of this call; lists are written with `*`", steps.join("/"));
        let known: Vec<&str> = call.fields.keys().map(String::as_str).collect();
        r.unknown(Rule::L1, path, message, &steps[0], &known);
        return None;
    }
    field
}

pub(super) fn has_optional(call: &Call, steps: &[String]) -> bool {
    (1..=steps.len()).any(|end| call.field_at(&steps[..end]).is_some_and(|field| field.optional))
}

fn check_adopt(call: &Call, adopt: &Adopt, path: &str, r: &mut Report) {
    if call.effect != EffectKind::Read {
        r.error(Rule::L3, path, "only a read adopts");
    }
    let (Some(field), Some(proof)) =
        (scalar(call, &adopt.field, path, r), scalar(call, &adopt.proof, path, r))
    else {
        return;
    };
    if !matches!(field.ty, Type::Id | Type::Path | Type::Word) {
        r.allowed(Rule::L1, path, format!("an identity is not of type {}", field.ty), "id, path, word");
    }
    if !matches!(proof.ty, Type::Id | Type::Word) {
        r.allowed(Rule::L1, path, format!("a proof is a name, not of type {}", proof.ty), "id, word");
    }
    // Of the same item: the proof's list is the field's list, or one around it.
    let item = adopt.proof.iter().rposition(|step| step == "*").map_or(0, |star| star + 1);
    if item == 0
        || adopt.field.len() < item
        || adopt.field[..item] != adopt.proof[..item]
        || item == adopt.proof.len()
    {
        r.error(
            Rule::L3,
            path,
            "the proof must stand in the same item as the field: `items/*/id` with `items/*/name`",
        );
    }
}
