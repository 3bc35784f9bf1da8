//! The order of operations on one machine (R2.18): who has started goes first, then the oldest, then by uid, which the
//! embedded API makes so that it ascends within a second too.
//!
//! It can't be overtaken: upstream orders by creation time and name, so that an operation `a` of the same second
//! passes `z`, which already runs (2(b).3, the hole of step 9; X.3).

use std::sync::Arc;

use holdfast_api::{MachineOperation, Phase};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::index::phase;

/// Sorts before another when it goes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    not_started: bool,
    started: Timestamp,
    created: Timestamp,
    uid: String,
}

/// Whether an operation has begun to touch its machine.
pub(crate) fn started(operation: &MachineOperation) -> bool {
    matches!(phase(operation), Phase::InProgress | Phase::OutcomeUnknown)
}

pub(crate) fn place(operation: &MachineOperation) -> Place {
    let started_at = operation.status.as_ref().and_then(|s| s.started_at.as_ref());
    Place {
        not_started: !started(operation),
        started: started_at.filter(|_| started(operation)).map_or(Timestamp::MAX, |at| at.0),
        created: operation.creation_timestamp().map_or(Timestamp::MIN, |at| at.0),
        uid: operation.uid().unwrap_or_default(),
    }
}

/// The open operation that must end before this one may go on, if there is one. `ours` tells which are this
/// controller's at all.
pub(crate) fn before<'a>(
    me: &MachineOperation,
    open: &'a [Arc<MachineOperation>],
    ours: impl Fn(&MachineOperation) -> bool,
) -> Option<&'a MachineOperation> {
    let mine = place(me);
    open.iter()
        .map(|other| &**other)
        .filter(|other| other.metadata.uid != me.metadata.uid && ours(other) && place(other) < mine)
        .min_by_key(|other| place(other))
}
