//! Places: what is recorded holds only where it was made (attack A9).
//!
//! Records name a binding, and an operator may point that name elsewhere: another region, another origin. There an id is
//! another thing or none, and "not there" says nothing about what was made. Nothing is sent over such a change, and
//! nothing is believed; it is told until the line is set back.

use crate::exchanger::Ready;
use crate::failure::violation;
use crate::journal::Effect;
use crate::message::Violation;
use crate::session::Room;
use crate::targets::Target;
use crate::text::shown;
use holdfast_manifest::{Call, EffectKind};

/// The reason of a refusal; what waits for it is no failure of the module.
pub const MADE_ELSEWHERE: &str = "MadeElsewhere";

/// Does a record of this place hold for what the binding is now? What is not known is not held against it.
pub(crate) fn holds(recorded: Option<&str>, now: &[String]) -> bool {
    let Some(recorded) = recorded else { return true };
    now.is_empty() || now.iter().any(|now| same(recorded, now))
}

/// The same origin and base path, and no variable with another value. A variable that only one of them knows came or
/// went with a version of the manifest.
fn same(one: &str, other: &str) -> bool {
    let split = |place: &str| -> (String, Vec<(String, String)>) {
        let (base, query) = place.split_once('?').unwrap_or((place, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        (base.trim_end_matches('/').to_owned(), pairs.collect())
    };
    let ((base, vars), (other_base, others)) = (split(one), split(other));
    let differs = |name: &String, value: &String| others.iter().any(|(of, is)| of == name && is != value);
    base == other_base && !vars.iter().any(|(name, value)| differs(name, value))
}

impl Room {
    /// An effect that may have happened is repeated, and looked for, only where it was sent: a lookup goes to the endpoint of
    /// its call (rule L10).
    pub(crate) fn check_sent_here(
        &self,
        call: &Call,
        effect: &Effect,
        ready: &Ready,
    ) -> Result<(), Violation> {
        let recorded = effect.place.as_deref();
        if holds(recorded, &ready.places) {
            return Ok(());
        }
        let what = format!("effect `{}` may have happened", shown(&effect.key));
        let why = "a look or a repeat there would make a twin";
        let mut refused = elsewhere(call, &what, recorded, ready, why);
        refused
            .message
            .push_str("; or look at the old place yourself and settle the effect with spec.resolve");
        Err(refused)
    }

    /// What is owned is asked for, changed and destroyed only where it was made.
    pub(crate) fn check_made_here(
        &self,
        call: &Call,
        aimed: &[Target],
        ready: &Ready,
    ) -> Result<(), Violation> {
        if aimed.is_empty() {
            return Ok(());
        }
        let owned = self.owned();
        for target in aimed {
            let mut records = owned
                .iter()
                .filter(|one| one.kind == target.kind && one.id == target.id && one.binding == ready.binding);
            let Some(first) = records.next() else { continue };
            if holds(first.place.as_deref(), &ready.places)
                || records.any(|one| holds(one.place.as_deref(), &ready.places))
            {
                continue;
            }
            let what = format!("{} `{}` was made", shown(&target.kind), shown(&target.id));
            let believed = match call.effect {
                EffectKind::Read => "what it answers would say nothing about it",
                _ => "it would meet nothing, or a stranger",
            };
            return Err(elsewhere(call, &what, first.place.as_deref(), ready, believed));
        }
        Ok(())
    }
}

fn elsewhere(call: &Call, what: &str, recorded: Option<&str>, ready: &Ready, why: &str) -> Violation {
    let endpoint = ready.binding.split('/').next().unwrap_or_default();
    violation(
        MADE_ELSEWHERE,
        format!(
            "nothing was sent: {what} at {}, and the binding `{}` of call `{}` points to {} now: {why} (attack A9). Set \
             `origin` and `vars` of the [[provider.endpoint]] `{endpoint}` back; where the service has only another name, \
             write the old origin into its `aliases`",
            shown_place(recorded.unwrap_or_default()),
            shown(&ready.binding),
            call.name,
            shown_place(ready.places.first().map_or("", String::as_str)),
        ),
    )
}

/// Operators' words, and bounded where they were recorded.
fn shown_place(place: &str) -> &str {
    &place[..place.floor_char_boundary(512)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_under_an_alias_and_with_a_variable_that_came_with_a_version_attack_a9() {
        let now = |places: &[&str]| places.iter().map(|place| (*place).to_owned()).collect::<Vec<_>>();
        let eu = "https://api.example/?region=eu";
        for same in [
            now(&[eu]),
            now(&["https://api.example?region=eu"]),
            now(&["https://new.example/?region=eu", eu]),
            now(&["https://api.example/?project=p&region=eu"]),
            now(&["https://api.example/"]),
            now(&[]),
        ] {
            assert!(holds(Some(eu), &same), "{same:?}");
        }
        for other in [
            now(&["https://api.example/?region=us"]),
            now(&["https://api.example/v2?region=eu"]),
            now(&["https://api.example:8443/?region=eu"]),
            now(&["https://new.example/?region=eu", "https://api.example/?region=us"]),
        ] {
            assert!(!holds(Some(eu), &other), "{other:?}");
            assert!(holds(None, &other), "older records hold");
        }
    }
}
