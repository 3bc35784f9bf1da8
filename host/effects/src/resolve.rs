//! An operator settles by hand what nothing else can (`spec.resolve`).

use crate::journal::{Effect, EffectState, RecordedRefusal, RecordedReply, SettledBy};
use jiff::Timestamp;

/// What the operator found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It happened; a repeat of its key gets an empty reply.
    TookEffect,
    /// Nothing happened; it may be sent again.
    DidNotHappen,
    /// Nobody knows or cares; never sent again.
    Abandon,
}

/// Why an effect cannot be settled so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error(
        "effect `{key}` is not in doubt (it is {state:?}); only effects without an outcome can be resolved"
    )]
    NotInDoubt { key: String, state: EffectState },
    /// Ownership is recorded from replies, never claimed by hand.
    #[error(
        "effect `{key}` creates something whose identity would be lost: remove it at the service and resolve \
         `DidNotHappen`, or resolve `Abandon`"
    )]
    IdentityUnknown { key: String },
}

/// The effect as settled. Resolving twice alike is the same as once.
pub(crate) fn resolve(effect: &Effect, resolution: Resolution) -> Result<Effect, ResolveError> {
    let state = match resolution {
        Resolution::TookEffect => EffectState::Done,
        Resolution::DidNotHappen => EffectState::Rejected,
        Resolution::Abandon => EffectState::Abandoned,
    };
    let key = || effect.key.clone();
    if effect.settled_by == Some(SettledBy::Operator) && effect.state == state {
        return Ok(effect.clone());
    }
    if effect.state != EffectState::Intended {
        return Err(ResolveError::NotInDoubt { key: key(), state: effect.state });
    }
    if resolution == Resolution::TookEffect && effect.effect == "create" {
        return Err(ResolveError::IdentityUnknown { key: key() });
    }
    let mut settled = effect.clone();
    settled.state = state;
    settled.settled_at = Some(Timestamp::now());
    settled.settled_by = Some(SettledBy::Operator);
    settled.absent_since = None;
    settled.refusal = None;
    match resolution {
        Resolution::TookEffect => {
            settled.reply = Some(RecordedReply { status: 200, fields: serde_json::Map::new() });
        }
        Resolution::DidNotHappen => {
            settled.refusal = Some(by_operator("ResolvedDidNotHappen", "it did not happen"))
        }
        Resolution::Abandon => settled.refusal = Some(by_operator("ResolvedAbandoned", "it was given up")),
    }
    Ok(settled)
}

fn by_operator(reason: &str, what: &str) -> RecordedRefusal {
    RecordedRefusal {
        code: "canceled".to_owned(),
        reason: reason.to_owned(),
        message: format!("an operator stated that {what}"),
        native: None,
    }
}
