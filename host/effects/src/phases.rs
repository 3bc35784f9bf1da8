//! Phases: which callback may do what (`Phases` of the architecture).

use crate::failure::violation;
use crate::message::{Phase, Violation};
use crate::text::shown;
use holdfast_manifest::{Call, EffectKind, Manifest};

/// Through which import a guest makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Import {
    Read,
    Perform,
}

/// The whole table.
fn may(phase: Phase, effect: EffectKind) -> bool {
    use EffectKind::{Create, Destroy, Read, Update};
    match phase {
        Phase::Pure => false,
        Phase::Observe => effect == Read,
        Phase::Act | Phase::Track => matches!(effect, Read | Create | Update),
        Phase::Cleanup => matches!(effect, Read | Destroy),
        Phase::Release => matches!(effect, Read | Update | Destroy),
    }
}

/// Refuses everything in a callback that must be pure (R2.24).
pub(crate) fn impure(phase: Phase, what: &str) -> Result<(), Violation> {
    match phase {
        Phase::Pure => Err(violation(
            "PureCallback",
            format!(
                "`{what}` was refused: this callback must be pure and reaches nothing, not even clock or log (R2.24)"
            ),
        )),
        _ => Ok(()),
    }
}

/// The declared call, if this phase and import may make it.
pub(crate) fn granted<'m>(
    manifest: &'m Manifest,
    phase: Phase,
    import: Import,
    name: &str,
) -> Result<&'m Call, Violation> {
    impure(phase, if import == Import::Read { "read" } else { "perform" })?;
    let call = manifest.calls.get(name).filter(|call| call.effect != EffectKind::Session);
    let Some(call) = call else {
        return Err(violation(
            "UndeclaredCall",
            format!(
                "call `{}` was refused: provider.toml declares no `[calls.{}]` that a guest may make",
                shown(name),
                shown(name)
            ),
        ));
    };
    if (import == Import::Read) != (call.effect == EffectKind::Read) {
        return Err(violation(
            "WrongImport",
            format!(
                "call `{name}` has effect `{}` and was made through `{}`: reads go through `read`, all else \
                 through `perform`",
                effect_word(call.effect),
                if import == Import::Read { "read" } else { "perform" }
            ),
        ));
    }
    if may(phase, call.effect) {
        return Ok(call);
    }
    Err(violation(
        "WrongPhase",
        format!(
            "call `{name}` with effect `{}` was refused in phase `{}`: the phase does not permit this effect",
            effect_word(call.effect),
            phase_word(phase)
        ),
    ))
}

pub(crate) fn effect_word(effect: EffectKind) -> &'static str {
    match effect {
        EffectKind::Read => "read",
        EffectKind::Create => "create",
        EffectKind::Update => "update",
        EffectKind::Destroy => "destroy",
        EffectKind::Session => "session",
    }
}

pub(crate) fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pure => "pure",
        Phase::Observe => "observe",
        Phase::Act => "act",
        Phase::Track => "track",
        Phase::Cleanup => "cleanup",
        Phase::Release => "release",
    }
}
