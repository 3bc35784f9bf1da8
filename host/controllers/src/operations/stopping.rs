//! What is given up and does not stop. The provider was asked, and goes on; how long it is followed has an end (I9).
//!
//! A timeout is no proof that anything stopped (R2.38). A person who cancels or deletes has said that it is to end all
//! the same, and reads what is not known; a deadline, at which nobody looked, leaves the outcome to a person.

use std::time::Duration;

use holdfast_api::{ConditionStatus, MachineOperationStatus, NewCondition, conditions};
use jiff::Timestamp;

use super::call::Called;
use super::{Next, Run, StepError};
use crate::clock::{stamp, until};

/// Condition of an operation that is given up and still followed.
const GIVEN_UP: &str = "GivenUp";

/// How the wait for one that is given up ends.
pub(super) const WAY_OUT: &str = "none is needed: it ends when the provider's operation does, or by itself when that has \
     not ended for as long again as one may take before it counts as stalled";

impl Run<'_> {
    /// Ends the operation if it has been given up for too long. `None`: it is followed on.
    pub(super) async fn not_stopped(&self, called: Option<&Called>) -> Result<Option<Next>, StepError> {
        let operation = self.record.latest();
        let Some((reason, why)) = self.giving_up(&operation) else { return Ok(None) };
        let (now, longest) = (self.now(), self.settings().stall_after);
        let given_up = operation.status.as_ref().and_then(since);
        let Some(given_up) = given_up else {
            self.record.update(|_, status| put(status, reason, &why, now)).await?;
            return Ok(None);
        };
        if until(given_up, now) < longest {
            return Ok(None);
        }
        let message = format!(
            "{why}; the provider's operation has not ended {} s later and is no longer followed: what it still does is \
             not known",
            longest.as_secs()
        );
        if reason == "DeadlineExceeded" {
            return self.outcome_unknown(&message, called).await.map(Some);
        }
        self.end_failed(reason, &message, called).await.map(Some)
    }

    /// Until the next poll of what is given up: rarer, the longer it goes on. `None`: it is not given up.
    pub(super) fn stopping_every(&self, every: Duration) -> Option<Duration> {
        let given_up = self.record.latest().status.as_ref().and_then(since)?;
        let passed = until(given_up, self.now());
        let left = self.settings().stall_after.saturating_sub(passed);
        Some(every.max(passed / 8).min(left.max(every)))
    }
}

/// Since when an operation is given up.
fn since(status: &MachineOperationStatus) -> Option<Timestamp> {
    conditions::find(&status.conditions, GIVEN_UP).map(|condition| condition.last_transition_time.0)
}

fn put(status: &mut MachineOperationStatus, reason: &str, message: &str, now: Timestamp) {
    let observed_generation = status.observed_generation;
    let new =
        NewCondition { type_: GIVEN_UP, status: ConditionStatus::True, reason, message, observed_generation };
    conditions::set(&mut status.conditions, new, stamp(now));
}
