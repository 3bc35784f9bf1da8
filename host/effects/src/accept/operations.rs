//! Results of operations on machines that exist.

use super::{message, reason, scanned, settled, state};
use crate::callback::{OperationResult, PollResult, PollState};
use crate::message::Violation;
use crate::session::Room;
use crate::text;
use holdfast_custody::Place;

pub(super) fn executed(room: &Room, result: OperationResult) -> Result<OperationResult, Violation> {
    settled(room)?;
    believed(room, result)
}

pub(super) fn polled(room: &Room, poll: PollResult) -> Result<PollResult, Violation> {
    let state = state(room, poll.state)?;
    // Only a success has a result.
    let result = match state {
        PollState::Succeeded => Some(executed(room, poll.result.unwrap_or_default())?),
        _ => None,
    };
    Ok(PollResult {
        state,
        result,
        reason: reason(room, &poll.reason)?,
        message: message(room, &poll.message)?,
        requeue_after_ms: poll.requeue_after_ms.and_then(text::clamp_wait),
    })
}

fn believed(room: &Room, result: OperationResult) -> Result<OperationResult, Violation> {
    for id in [&result.provider_id, &result.cleanup_provider_id].into_iter().flatten() {
        scanned(room, Place::Result, id)?;
    }
    let (provider_id, cleanup_provider_id) = room.judge(result.provider_id, result.cleanup_provider_id)?;
    Ok(OperationResult { provider_id, cleanup_provider_id })
}
