//! Targets (`on`, rule L3, hole H4): a call reaches this machine or what its owner made, never a neighbour.

use crate::exchanger::Ready;
use crate::failure::violation;
use crate::message::{Owned, OwnerKind, Phase, Violation};
use crate::ownership::{on_the_wire, select, text_of};
use crate::perform::Attempt;
use crate::phases::{effect_word, phase_word};
use crate::session::Room;
use data_encoding::HEXLOWER;
use holdfast_manifest::{Arg, Call, EffectKind, Pointer, Source, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A value that a call is aimed at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub kind: String,
    pub id: String,
}

impl Room {
    /// Refuses a call that is aimed at something else than its effect and phase allow. `ready` is the
    /// prepared request; without it an owned identity of any binding passes (the check comes again with it).
    pub(crate) fn check_targets(
        &self,
        call: &Call,
        args: &BTreeMap<String, Value>,
        ready: Option<&Ready>,
    ) -> Result<(), Violation> {
        let binding = ready.map(|ready| ready.binding.as_str());
        let mut aimed = Vec::new();
        for (name, arg) in &call.args {
            let (Some(kind), Some(value)) = (&arg.on, args.get(name)) else { continue };
            for text in select(value, &[]).into_iter().map(text_of) {
                let text = text.ok_or_else(|| foreign(call, name, kind, self.context.phase))?;
                let targets = self.aims(call, name, arg, kind, &text)?;
                if targets.iter().any(|target| !self.allowed(call.effect, target, binding)) {
                    return Err(foreign(call, name, kind, self.context.phase));
                }
                aimed.extend(targets);
            }
        }
        if call.effect.mutates()
            && call.effect != EffectKind::Create
            && aimed.is_empty()
            && !self.sealed_aim(call, args)
        {
            return Err(violation(
                "ForeignTarget",
                format!("call `{}` was refused: it names no target (rule L3, hole H4)", call.name),
            ));
        }
        self.spare_the_living(call, &aimed)?;
        ready.map_or(Ok(()), |ready| self.check_made_here(call, &aimed, ready))
    }

    /// What one `on` value points at. A sealed value points at what the call that sealed it was aimed at.
    fn aims(
        &self,
        call: &Call,
        name: &str,
        arg: &Arg,
        kind: &str,
        text: &str,
    ) -> Result<Vec<Target>, Violation> {
        let Some(source) = self.sealing_call(arg) else {
            let id = if arg.from == Source::Token { on_the_wire(arg, text) } else { Some(text.to_owned()) };
            let id = id.ok_or_else(|| foreign(call, name, kind, self.context.phase))?;
            return Ok(vec![Target { kind: kind.to_owned(), id }]);
        };
        if !source.args.values().any(|arg| arg.on.as_deref() == Some(kind)) {
            return Err(foreign(call, name, kind, self.context.phase));
        }
        match self.sealed_aims(text) {
            Some(targets) if !targets.is_empty() || call.effect != EffectKind::Destroy => Ok(targets),
            // Sealed in an earlier callback of this owner, from a call whose target was checked then. Enough to
            // read and update; not to destroy, where "this machine" is not enough.
            None if call.effect != EffectKind::Destroy => Ok(Vec::new()),
            _ => Err(foreign(call, name, kind, self.context.phase)),
        }
    }

    /// What a call is aimed at, as far as it can be told: resources that its `on` arguments name or point at.
    pub(crate) fn aimed_at(&self, call: &Call, args: &BTreeMap<String, Value>, binding: &str) -> Vec<Owned> {
        let mut aimed = Vec::new();
        for (name, arg) in &call.args {
            let (Some(kind), Some(value)) = (&arg.on, args.get(name)) else { continue };
            for text in select(value, &[]).into_iter().filter_map(text_of) {
                aimed.extend(self.aims(call, name, arg, kind, &text).unwrap_or_default());
            }
        }
        aimed.sort();
        aimed.dedup();
        let owned = |one: Target| Owned::new(binding, one.kind, one.id);
        aimed.into_iter().map(owned).collect()
    }

    /// Keyed fingerprint of what a call wants: its arguments, targets included, without sealed ones that aim at
    /// nothing. Those are versions of the target, and may be newer in the next send of the same wish.
    pub(crate) fn aim(&self, attempt: &Attempt, binding: &str) -> String {
        let call = &attempt.call;
        let lasting = |name: &str| {
            call.args.get(name).is_none_or(|arg| arg.on.is_some() || self.sealing_call(arg).is_none())
        };
        let mut args = self.arguments_of(attempt);
        args.retain(|name, _| lasting(name));
        let parts = [self.context.provider.as_str(), &call.name, binding, &json!(args).to_string()];
        HEXLOWER.encode(&self.shared.custody.keyed("aim", &parts)[..16])
    }

    fn sealed_aim(&self, call: &Call, args: &BTreeMap<String, Value>) -> bool {
        let sealed = |arg: &Arg| arg.on.is_some() && self.sealing_call(arg).is_some();
        call.args.iter().any(|(name, arg)| sealed(arg) && args.contains_key(name))
    }

    fn allowed(&self, effect: EffectKind, target: &Target, binding: Option<&str>) -> bool {
        let owned = || self.is_owned(target, binding);
        let is = |id: Option<&str>| self.part_is(id, target);
        let old = self.context.frozen_provider_id.as_deref();
        let leaving = self.context.cleanup_provider_id.as_deref();
        match (effect, self.context.phase) {
            (EffectKind::Read, Phase::Cleanup) => {
                self.is_this_machine(target) || is(leaving) || is(old) || owned()
            }
            // Polls go on with the new identity once it is applied, and must still be able to look at the old one.
            (EffectKind::Read, _) => self.is_this_machine(target) || owned() || (is(old) && !self.planned()),
            (EffectKind::Create | EffectKind::Update, Phase::Act | Phase::Track) => {
                self.is_this_machine(target) || owned()
            }
            (EffectKind::Update | EffectKind::Destroy, Phase::Release) => owned(),
            (EffectKind::Destroy, Phase::Cleanup) => is(leaving),
            _ => false,
        }
    }

    fn is_owned(&self, target: &Target, binding: Option<&str>) -> bool {
        self.owned().iter().any(|owned| {
            owned.kind == target.kind
                && owned.id == target.id
                && binding.is_none_or(|name| name == owned.binding)
        })
    }

    fn part_is(&self, identity: Option<&str>, target: &Target) -> bool {
        self.parts(identity).is_some_and(|parts| parts.get(&target.kind) == Some(&target.id))
    }

    /// A machine that comes of an allocation has a planned locator before it exists; nothing says that it is ours
    /// until it is owned (hole H8).
    fn planned(&self) -> bool {
        self.context.owner.kind == OwnerKind::Allocation
    }

    fn is_this_machine(&self, target: &Target) -> bool {
        if self.planned() {
            return false;
        }
        if self.part_is(self.context.provider_id.as_deref(), target) {
            return true;
        }
        // Places in the machine object count where the provider ID says nothing.
        let silent = self.context.provider_id.is_none() || self.manifest.provider.provider_id.is_none();
        let object = self.context.machine_object.as_ref().filter(|_| silent);
        let place = self.manifest.provider.targets.get(&target.kind);
        object.zip(place).and_then(|(object, place)| at(object, place)) == Some(target.id.clone())
    }

    /// A cleanup must not be aimed at the machine as it is now. Parts may be shared (a node, a zone), so that it is
    /// the targets together that must differ.
    fn spare_the_living(&self, call: &Call, aimed: &[Target]) -> Result<(), Violation> {
        if call.effect != EffectKind::Destroy || self.context.phase != Phase::Cleanup {
            return Ok(());
        }
        let current = self.context.provider_id.as_deref();
        if aimed.iter().all(|target| self.part_is(current, target)) {
            return Err(violation(
                "ForeignTarget",
                format!(
                    "call `{}` was refused: it would remove the machine as it is now (2(e) 13)",
                    call.name
                ),
            ));
        }
        Ok(())
    }
}

fn foreign(call: &Call, arg: &str, kind: &str, phase: Phase) -> Violation {
    violation(
        "ForeignTarget",
        format!(
            "call `{}` was refused in phase `{}`: argument `{arg}` does not name a `{kind}` that this operation may {} \
             (rule L3, hole H4)",
            call.name,
            phase_word(phase),
            effect_word(call.effect)
        ),
    )
}

/// The scalar at a place of the machine object.
pub(crate) fn at(object: &Value, pointer: &Pointer) -> Option<String> {
    let mut value = object;
    for step in &pointer.0 {
        value = match (step, value) {
            (Step::Key(key), Value::Object(map)) => map.get(key)?,
            (Step::Key(key), Value::Array(items)) => items.get(key.parse::<usize>().ok()?)?,
            (Step::Where { key, is }, Value::Array(items)) => {
                items.iter().find(|item| item.get(key).and_then(text_of).as_deref() == Some(is.as_str()))?
            }
            _ => return None,
        };
    }
    text_of(value).filter(|text| !text.is_empty())
}
