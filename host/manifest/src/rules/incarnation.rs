//! Field case A29: where a service gives ids out again, an id alone does not say that a thing is the one that was made.
//!
//! `incarnation` names the field that does (a uuid, a time of creation). All calls that make the kind record it, or none;
//! what destroys the kind names in `confirm` a read that shows it.

use super::ownership::{has_optional, scalar};
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;
use std::collections::BTreeSet;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    let recorded: BTreeSet<&str> = m
        .calls
        .values()
        .flat_map(|call| call.incarnation.keys().filter(|kind| call.makes(kind)))
        .map(String::as_str)
        .collect();
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        for (kind, steps) in &call.incarnation {
            check_field(call, kind, steps, &format!("{path}.incarnation.{kind}"), r);
        }
        for kind in recorded.iter().filter(|kind| call.makes(kind) && !call.incarnation.contains_key(**kind))
        {
            let message = format!(
                "other calls record the incarnation of {kind} and `{}` makes one without: it would be destroyed unseen",
                call.name
            );
            r.allowed(
                Rule::L3,
                &path,
                message,
                &format!("incarnation = {{ {kind} = \"a field of the same item\" }}"),
            );
        }
        check_destroy(m, call, &recorded, &path, r);
    }
}

/// One value of a kind that can be compared, in the same item as the id, and always there.
fn check_field(call: &Call, kind: &str, steps: &[String], path: &str, r: &mut Report) {
    let shows = call.effect == EffectKind::Read && call.confirming().is_some_and(|(_, on)| on == kind);
    if !call.makes(kind) && !shows {
        let message = format!("this call neither makes a {kind} nor shows one");
        let allowed =
            "a kind of `creates` or `adopts`; in a read, that of its only mandatory argument with `on`";
        r.allowed(Rule::L3, path, message, allowed);
    }
    let Some(field) = scalar(call, steps, path, r) else { return };
    if !matches!(field.ty, Type::Id | Type::Word | Type::Int | Type::Time) {
        let message = format!("an incarnation is not of type {}", field.ty);
        r.allowed(Rule::L1, path, message, "id, word, int, time");
    }
    if has_optional(call, steps) {
        let message = "an incarnation is always there: without it nobody could tell one from the next";
        r.allowed(Rule::L3, path, message, "a mandatory field");
    }
    let ids = [
        call.creates.get(kind).and_then(|at| match at {
            CreatedAt::Field(id) => Some(id),
            CreatedAt::Arg(_) => None,
        }),
        call.adopts.get(kind).map(|adopt| &adopt.field),
    ];
    if let Some(adopt) = call.adopts.get(kind) {
        let item = adopt.proof.iter().rposition(|step| step == "*").map_or(0, |star| star + 1);
        if steps.get(..item) != adopt.proof.get(..item) || steps.len() == item {
            r.error(Rule::L3, path, "an incarnation stands in the same item as the proof of `adopts`");
        }
    }
    let item = steps.iter().rposition(|step| step == "*").map_or(0, |star| star + 1);
    let beside = |id: &Vec<String>| id.len() >= item && id[..item] == steps[..item] && item < steps.len();
    if !ids.into_iter().flatten().all(beside) {
        let message = "an incarnation stands in the same item as the id: `items/*/id` with `items/*/created`";
        r.error(Rule::L3, path, message);
    }
}

fn check_destroy(m: &Manifest, call: &Call, recorded: &BTreeSet<&str>, path: &str, r: &mut Report) {
    let aims: BTreeSet<&str> = call.args.values().filter_map(|arg| arg.on.as_deref()).collect();
    let read = call.confirm.as_ref().and_then(|name| m.calls.get(name));
    let shown = read.and_then(|read| {
        read.confirming().map(|(_, kind)| kind).filter(|kind| read.incarnation.contains_key(*kind))
    });
    if call.confirm.is_some() {
        let path = format!("{path}.confirm");
        if call.effect != EffectKind::Destroy {
            r.error(Rule::L3, &path, "only a call that destroys is confirmed");
        } else if !shown.is_some_and(|kind| aims.contains(kind)) {
            let message = "this read does not show the incarnation of what the call destroys";
            let allowed =
                "a read with one mandatory argument `on` the same kind, and that kind in its `incarnation`";
            r.allowed(Rule::L3, &path, message, allowed);
        } else if let Some(kind) = shown.filter(|kind| !recorded.contains(kind)) {
            let message =
                format!("no call that makes a {kind} records its incarnation: there is nothing to compare");
            r.error(Rule::L3, &path, message);
        }
    }
    if call.effect != EffectKind::Destroy {
        return;
    }
    for kind in aims.iter().filter(|kind| recorded.contains(**kind) && shown != Some(**kind)) {
        let message = format!(
            "the id of a {kind} may have been given out again (its incarnation is recorded), and nothing looks before this call \
             destroys it"
        );
        r.allowed(Rule::L3, path, message, "confirm = \"the read that shows its incarnation\"");
    }
}
