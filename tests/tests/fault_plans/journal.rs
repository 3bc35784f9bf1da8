//! What commits say about effects, in their order: the first copy of the truth, taken as it becomes durable.
//!
//! Two rules are checked here, while it happens and not at the end, when operations may be gone: an outcome that nobody
//! knows is never turned into a retry that its declaration does not allow, nor into a refusal (I3).

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::{Effect, EffectState, MachineOperation, SettledBy};
use holdfast_manifest::{Manifest, Replay};
use kube::ResourceExt as _;

/// What became of a send, as the wire knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// An answer that says what happened.
    Definite,
    /// Anything else; also no answer, because the life ended.
    Unknown,
}

/// One effect, as it was last committed.
#[derive(Debug, Clone)]
pub struct Known {
    pub operation: String,
    pub allocation: Option<String>,
    /// The machine that the operation is for.
    pub machine: Option<String>,
    pub effect: Effect,
    /// Some send of it has no known outcome.
    pub doubt: bool,
    /// A send that nothing definite was heard of yet.
    pub heard: Option<Heard>,
    /// The operation is gone.
    pub gone: bool,
}

/// All effects that were ever committed, by the operation's uid and the effect's key.
#[derive(Default)]
pub struct Journal {
    pub manifest: Option<Arc<Manifest>>,
    pub effects: BTreeMap<(String, String), Known>,
    /// Name of an operation → its uid.
    names: BTreeMap<String, String>,
    pub violations: Vec<String>,
}

impl Journal {
    /// An operation was committed, or removed.
    pub fn seen(&mut self, name: &str, operation: Option<&MachineOperation>) {
        let Some(operation) = operation else {
            let uid = self.names.remove(name).unwrap_or_default();
            self.effects
                .iter_mut()
                .filter(|((of, _), _)| *of == uid)
                .for_each(|(_, known)| known.gone = true);
            return;
        };
        let uid = operation.uid().unwrap_or_default();
        self.names.insert(name.to_owned(), uid.clone());
        let allocation = operation.spec.allocation_ref.as_ref().map(|of| of.name.clone());
        let machine = operation.spec.machine_ref.as_ref().map(|of| of.name.clone());
        for effect in operation.status.iter().flat_map(|status| status.effects.clone()) {
            let place = (uid.clone(), effect.key.clone());
            let before = self.effects.get(&place).cloned();
            let mut known = Known {
                operation: name.to_owned(),
                allocation: allocation.clone(),
                machine: machine.clone(),
                doubt: before.as_ref().is_some_and(|before| before.doubt),
                heard: before.as_ref().and_then(|before| before.heard),
                gone: false,
                effect,
            };
            if let Some(before) = before.filter(|before| before.effect != known.effect) {
                self.changed(&before, &mut known);
            }
            self.effects.insert(place, known);
        }
    }

    fn changed(&mut self, before: &Known, known: &mut Known) {
        let (old, new) = (&before.effect, &known.effect);
        let again = new.state == EffectState::Intended && new.attempts > old.attempts;
        if again && old.state == EffectState::Intended {
            // The earlier send may have had its effect.
            let unknown = before.heard != Some(Heard::Definite);
            match self.may_repeat(old, new) {
                Ok(confirmed) => known.doubt = unknown && !confirmed,
                Err(why) if unknown => self.violations.push(format!(
                    "I3: effect {} of {} was sent again although nobody knows what became of it: {why}",
                    new.key, known.operation
                )),
                Err(_) => {}
            }
        }
        if again {
            known.heard = None;
        }
        if new.state == EffectState::Rejected && old.state == EffectState::Intended {
            let unknown = known.doubt || before.heard != Some(Heard::Definite);
            if unknown && new.settled_by == Some(SettledBy::Answer) {
                self.violations.push(format!(
                    "I3: effect {} of {} was recorded as refused, and nobody knows what became of it",
                    new.key, known.operation
                ));
            }
        }
        if new.state != EffectState::Intended {
            known.doubt = false;
        }
    }

    /// Whether the declaration lets a send be repeated whose outcome is unknown; true: it is known not to have happened.
    fn may_repeat(&self, old: &Effect, new: &Effect) -> Result<bool, String> {
        let call = self.manifest.as_ref().and_then(|manifest| manifest.calls.get(&new.call));
        let replay = call.and_then(|call| call.replay.clone()).ok_or("its call is not declared")?;
        let absent = |after: u64| {
            let since = old.absent_since.as_ref().ok_or("it was not looked up")?;
            let seconds = new.intended_at.0.duration_since(since.0).as_secs();
            // Times are kept in whole seconds.
            match seconds + 1 >= i64::try_from(after).unwrap_or(i64::MAX) {
                true => Ok(true),
                false => Err(format!("it was absent for {seconds} s only")),
            }
        };
        match replay {
            Replay::Never => Err("it is declared never to be repeated".to_owned()),
            Replay::Idempotent => Ok(false),
            Replay::Lookup(lookup) => absent(lookup.absent_after),
            Replay::Token { life, lookup } => {
                let age = new.intended_at.0.duration_since(old.first_intended_at.0).as_secs();
                let same = old.fingerprint == new.fingerprint && old.token == new.token;
                if same && age <= i64::try_from(life).unwrap_or(i64::MAX) {
                    return Ok(false);
                }
                lookup.map_or(Err("its token is over".to_owned()), |lookup| absent(lookup.absent_after))
            }
        }
    }

    /// The committed intent of a request that is about to leave (I2).
    pub fn intent(&self, fingerprint: &str) -> Option<&Known> {
        let intended = |known: &&Known| {
            !known.gone
                && known.effect.state == EffectState::Intended
                && known.effect.fingerprint == fingerprint
        };
        self.effects.values().find(intended)
    }

    /// Something was heard of a request, or nothing will be.
    pub fn heard(&mut self, fingerprint: &str, heard: Heard) {
        for known in self.effects.values_mut() {
            if known.effect.fingerprint == fingerprint && known.effect.state == EffectState::Intended {
                known.heard = Some(heard);
            }
        }
    }

    /// The effect that a token belongs to.
    pub fn of_token(&self, token: &str) -> Option<&Known> {
        self.effects.values().find(|known| known.effect.token == token)
    }
}
