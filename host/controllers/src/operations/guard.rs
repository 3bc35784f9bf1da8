//! The journal of a callback that may not begin everything: the fence of an intent, made narrower.

use std::sync::Arc;

use holdfast_effects::{Effect, EffectState, Journal, JournalError};
use jiff::Timestamp;

use super::journal::Record;
use crate::clock::Clock;

/// What a callback may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Whatever its phase allows.
    Any,
    /// Nothing new: the operation is given up, and what is in doubt is settled first.
    SettleOnly,
    /// Nothing after this time, unless something was begun before it (R2.23). A callback may last longer than the
    /// offering.
    LaunchBefore(Timestamp),
}

/// A record under a rule.
pub(super) struct Guarded {
    pub record: Arc<Record>,
    pub rule: Rule,
    pub clock: Arc<dyn Clock>,
}

impl Guarded {
    fn refusal(&self, effect: &Effect) -> Option<&'static str> {
        let known = self.record.effects();
        match self.rule {
            Rule::Any => None,
            Rule::SettleOnly => {
                let doubtful = |have: &Effect| have.key == effect.key && have.state == EffectState::Intended;
                (!known.iter().any(doubtful)).then_some("the operation is given up: nothing new is begun")
            }
            Rule::LaunchBefore(end) => {
                let begun = known.iter().any(|have| have.state != EffectState::Rejected);
                (!begun && end <= self.clock.now())
                    .then_some("the offering is no longer valid: nothing is launched from it (R2.23)")
            }
        }
    }
}

#[async_trait::async_trait]
impl Journal for Guarded {
    fn effects(&self) -> Vec<Effect> {
        self.record.effects()
    }

    async fn intend(&self, effect: Effect) -> Result<(), JournalError> {
        if let Some(why) = self.refusal(&effect) {
            self.record.fence_off();
            return Err(JournalError::Fenced(why.to_owned()));
        }
        self.record.intend(effect).await
    }

    async fn settle(&self, effect: Effect) -> Result<(), JournalError> {
        self.record.settle(effect).await
    }

    fn epoch(&self) -> i64 {
        Journal::epoch(&*self.record)
    }
}
