//! Ownership: what `creates`, `completes` and `adopts` of the manifest record, before a guest sees the reply.

use crate::failure::unavailable;
use crate::journal::{Effect, EffectState};
use crate::message::{CallError, Owned};
use crate::session::Room;
use holdfast_manifest::{Adopt, Arg, Call, Completes, CreatedAt, Source};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Every value at a path of declared fields. `*` walks a list, and so does a name that meets one.
pub(crate) fn select<'v>(value: &'v Value, path: &[String]) -> Vec<&'v Value> {
    let Some((step, rest)) = path.split_first() else {
        return match value {
            Value::Array(items) => items.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
    };
    match value {
        Value::Array(items) if step == "*" => items.iter().flat_map(|item| select(item, rest)).collect(),
        Value::Array(items) => items.iter().flat_map(|item| select(item, path)).collect(),
        Value::Object(map) => map.get(step).map(|inner| select(inner, rest)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The scalars at a path, as text.
pub(crate) fn texts(fields: &Map<String, Value>, path: &[String]) -> Vec<String> {
    let Some((first, rest)) = path.split_first() else { return Vec::new() };
    fields
        .get(first)
        .map(|value| select(value, rest))
        .unwrap_or_default()
        .into_iter()
        .filter_map(text_of)
        .collect()
}

pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// `a/*/b` as steps.
pub(crate) fn steps(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

/// The text that an argument's value becomes on the wire: what a service knows a thing by.
pub(crate) fn on_the_wire(arg: &Arg, value: &str) -> Option<String> {
    holdfast_custody::written(arg, &Value::from(value)).ok()
}

impl Room {
    /// What a call made, by its `creates`; `made_at`: binding and place that it was made through.
    pub(crate) fn creations(
        &self,
        call: &Call,
        args: &BTreeMap<String, Value>,
        fields: &Map<String, Value>,
        made_at: (&str, Option<&str>),
    ) -> Vec<Owned> {
        let mut made = Vec::new();
        let root = Value::Object(fields.clone());
        for (kind, at) in &call.creates {
            let incarnation = call.incarnation.get(kind);
            let ids: Vec<(String, Option<String>)> = match at {
                CreatedAt::Field(path) => beside(&root, path, incarnation.map(Vec::as_slice)),
                CreatedAt::Arg(name) => call
                    .args
                    .get(name)
                    .zip(args.get(name).and_then(text_of))
                    .and_then(|(arg, value)| on_the_wire(arg, &value))
                    .into_iter()
                    .map(|id| (id, incarnation.and_then(|path| only(texts(fields, path)))))
                    .collect(),
            };
            made.extend(ids.into_iter().map(|id| owned_at(made_at, kind, id)));
        }
        made.sort();
        made.dedup_by(|later, first| first.is(later));
        made
    }

    /// Recorded before this callback, or by an effect of this operation.
    pub(crate) fn owned(&self) -> Vec<Owned> {
        let mut all = self.context.owned.clone();
        all.extend(self.created());
        all.sort();
        // Of two records of one thing, the one that says more.
        all.dedup_by(|later, first| {
            let same = first.is(later);
            if same && first.place.is_none() {
                first.place = later.place.take();
            }
            if same && first.incarnation.is_none() {
                first.incarnation = later.incarnation.take();
            }
            same
        });
        all
    }

    /// Recorded by effects of this operation.
    pub(crate) fn created(&self) -> Vec<Owned> {
        self.effects().into_iter().flat_map(|effect| effect.created).collect()
    }

    /// Records what the reply of a read completes or proves to be ours. The journal holds it when this returns.
    pub(crate) async fn learn(
        &self,
        call: &Call,
        args: &BTreeMap<String, Value>,
        fields: &Map<String, Value>,
        at: (&str, Option<&str>),
    ) -> Result<(), CallError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        if call.completes.is_empty() && call.adopts.is_empty() {
            return Ok(());
        }
        for mut effect in journal.effects().into_iter().filter(|effect| effect.state == EffectState::Done) {
            let mut found = Vec::new();
            if let Some(completes) = call.completes.get(&effect.call)
                && completed(call, completes, args, fields, &effect)
            {
                found.extend(self.creations(call, args, fields, at));
            }
            for (kind, adopt) in &call.adopts {
                let proofs = self.proofs(&effect);
                let ids = adopted(adopt, call.incarnation.get(kind), fields, &proofs).into_iter();
                found.extend(ids.map(|id| owned_at(at, kind, id)));
            }
            found.retain(|owned| !effect.created.iter().any(|have| have.is(owned)));
            if found.is_empty() {
                continue;
            }
            effect.created.extend(found);
            effect.created.sort();
            effect.created.dedup_by(|later, first| first.is(later));
            journal.settle(effect).await.map_err(|error| {
                unavailable(
                    "JournalUnavailable",
                    format!("the reply was withheld, since ownership could not be recorded: {error}"),
                )
            })?;
        }
        Ok(())
    }

    /// The token of an effect, plain and as its call wrote it.
    pub(crate) fn proofs(&self, effect: &Effect) -> Vec<String> {
        let written = self.manifest.calls.get(&effect.call).into_iter().flat_map(|call| call.args.values());
        let mut proofs: Vec<String> = written
            .filter(|arg| arg.from == Source::Token)
            .filter_map(|arg| on_the_wire(arg, &effect.token))
            .collect();
        proofs.push(effect.token.clone());
        proofs
    }
}

fn owned_at(
    (binding, place): (&str, Option<&str>),
    kind: &str,
    (id, incarnation): (String, Option<String>),
) -> Owned {
    Owned { place: place.map(str::to_owned), incarnation, ..Owned::new(binding, kind, id) }
}

/// Ids at a path, each with the incarnation of its item.
fn beside(root: &Value, id: &[String], incarnation: Option<&[String]>) -> Vec<(String, Option<String>)> {
    let Some(incarnation) = incarnation else {
        let ids = select(root, id).into_iter().filter_map(text_of);
        return ids.map(|id| (id, None)).collect();
    };
    let item = item_of(id, incarnation);
    let of = |one: &Value| {
        let mark = only(select(one, &incarnation[item..]).into_iter().filter_map(text_of).collect());
        let ids = select(one, &id[item..]).into_iter().filter_map(text_of);
        ids.map(|id| (id, mark.clone())).collect::<Vec<_>>()
    };
    items(root, &id[..item]).into_iter().flat_map(of).collect()
}

/// Where two paths part, after the innermost list that both go through.
fn item_of(one: &[String], other: &[String]) -> usize {
    let shared = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    one[..shared].iter().rposition(|step| step == "*").map_or(0, |star| star + 1)
}

/// The value, if there is exactly one.
pub(crate) fn only(mut values: Vec<String>) -> Option<String> {
    if values.len() == 1 { values.pop() } else { None }
}

/// Is this the read that says what became of the effect?
fn completed(
    call: &Call,
    completes: &Completes,
    args: &BTreeMap<String, Value>,
    fields: &Map<String, Value>,
    effect: &Effect,
) -> bool {
    let source = call.args.get(&completes.arg).map(|arg| &arg.from);
    let Some(Source::Field { call: of, field }) = source else { return false };
    let Some(reply) = effect.reply.as_ref().filter(|_| *of == effect.call) else { return false };
    let Some(asked) = args.get(&completes.arg).and_then(text_of) else { return false };
    let same = texts(&reply.fields, &steps(field)).contains(&asked);
    let ripe =
        completes.when.as_ref().is_none_or(|when| texts(fields, &steps(&when.field)) == [when.is.as_str()]);
    same && ripe
}

/// Ids of the items that bear one of the proofs. Proof and id stand in the same item (H3).
fn adopted(
    adopt: &Adopt,
    incarnation: Option<&Vec<String>>,
    fields: &Map<String, Value>,
    proofs: &[String],
) -> Vec<(String, Option<String>)> {
    let item = item_of(&adopt.field, &adopt.proof);
    let root = Value::Object(fields.clone());
    items(&root, &adopt.field[..item])
        .into_iter()
        .filter(|one| {
            let found = select(one, &adopt.proof[item..]);
            matches!(found.as_slice(), [proof] if text_of(proof).is_some_and(|text| proofs.contains(&text)))
        })
        .flat_map(|one| beside(one, &adopt.field[item..], incarnation.and_then(|path| path.get(item..))))
        .collect()
}

/// The items under a path that is empty or ends with `*`.
fn items<'v>(root: &'v Value, path: &[String]) -> Vec<&'v Value> {
    if path.is_empty() { vec![root] } else { select(root, path) }
}
