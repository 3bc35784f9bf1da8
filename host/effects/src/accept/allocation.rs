//! Results of allocating and releasing a host: believed only as far as the journal bears them out (H3, H8, R2.26).

use super::{message, printable, reason, settled, state};
use crate::callback::{AllocatePollResult, AllocationResult, OwnedResource, PollState, ReleasePollResult};
use crate::failure::violation;
use crate::message::Violation;
use crate::session::Room;
use crate::text::{self, shown};

/// Most resources that a result may name.
const MAX_RESOURCES: usize = 128;
/// Longest identity, in bytes.
const MAX_ID: usize = 2048;
/// Longest kind, zone or instance type, in bytes.
const MAX_WORD: usize = 256;

pub(super) fn allocate_polled(
    room: &Room,
    poll: AllocatePollResult,
) -> Result<AllocatePollResult, Violation> {
    let state = state(room, poll.state)?;
    recorded(room, &poll.owned_resources)?;
    let result = match (&state, poll.result) {
        (PollState::Succeeded, None) => {
            return Err(violation(
                "NoResult",
                "success was refused: an allocation that succeeded says which host it made (H8)",
            ));
        }
        (PollState::Succeeded, Some(result)) => {
            settled(room)?;
            Some(confirmed(room, result)?)
        }
        // Only a success has a result.
        _ => None,
    };
    Ok(AllocatePollResult {
        state,
        result,
        owned_resources: poll.owned_resources,
        reason: reason(room, &poll.reason)?,
        message: message(room, &poll.message)?,
        requeue_after_ms: poll.requeue_after_ms.and_then(text::clamp_wait),
    })
}

/// The host that was made: one that an effect of this allocation created.
fn confirmed(room: &Room, result: AllocationResult) -> Result<AllocationResult, Violation> {
    let bounded = |what: &str, given: &str, max| printable(room, "BadResult", what, given, max);
    bounded("a provider resource id", &result.provider_resource_id, MAX_ID)?;
    bounded("an instance type", &result.instance_type, MAX_WORD)?;
    let zone = result.zone.filter(|zone| !zone.is_empty());
    let image = result.image.filter(|image| !image.is_empty());
    let provider_id = result.provider_id.filter(|id| !id.trim().is_empty());
    for (what, given, max) in [
        ("a zone", zone.as_deref(), MAX_WORD),
        ("an image", image.as_deref(), MAX_ID),
        ("a provider ID", provider_id.as_deref(), MAX_ID),
    ] {
        given.map_or(Ok(()), |given| bounded(what, given, max))?;
    }
    if !room.owned().iter().any(|owned| owned.id == result.provider_resource_id) {
        return Err(violation(
            "ForeignIdentity",
            format!(
                "the result was refused: no effect of this allocation made `{}` (hole H8)",
                shown(&result.provider_resource_id)
            ),
        ));
    }
    room.judge_host(provider_id.as_deref())?;
    Ok(AllocationResult { provider_id, zone, image, ..result })
}

pub(super) fn release_polled(room: &Room, poll: ReleasePollResult) -> Result<ReleasePollResult, Violation> {
    let state = state(room, poll.state)?;
    recorded(room, &poll.remaining)?;
    if state == PollState::Succeeded {
        settled(room)?;
        evident(room, &poll.remaining)?;
    }
    Ok(ReleasePollResult {
        state,
        remaining: poll.remaining,
        reason: reason(room, &poll.reason)?,
        message: message(room, &poll.message)?,
        requeue_after_ms: poll.requeue_after_ms.and_then(text::clamp_wait),
    })
}

/// A release is over when the host has seen, for every recorded resource, that it was destroyed or is gone.
fn evident(room: &Room, remaining: &[OwnedResource]) -> Result<(), Violation> {
    let released = room.released();
    let kept = room.owned().into_iter().find(|owned| !released.contains(owned));
    let left = kept.map(|owned| (owned.kind, owned.id));
    let left = left.or_else(|| remaining.first().map(|one| (one.kind.clone(), one.id.clone())));
    match left {
        None => Ok(()),
        Some((kind, id)) => Err(violation(
            "UnreleasedResources",
            format!(
                "success was refused: nothing shows that {} `{}` is gone; destroy it, or read it until the service \
                 says that it is not there (R2.26)",
                shown(&kind),
                shown(&id)
            ),
        )),
    }
}

/// A guest names what the host has recorded, and nothing else (H3).
fn recorded(room: &Room, named: &[OwnedResource]) -> Result<(), Violation> {
    if named.len() > MAX_RESOURCES {
        return Err(violation(
            "TooManyResources",
            format!("the result was refused: it names more than {MAX_RESOURCES} resources"),
        ));
    }
    let owned = room.owned();
    for one in named {
        printable(room, "BadResult", "a resource's kind", &one.kind, MAX_WORD)?;
        printable(room, "BadResult", "a resource's id", &one.id, MAX_ID)?;
        printable(room, "BadResult", "a resource's zone", one.zone.as_deref().unwrap_or_default(), MAX_WORD)?;
        if !owned.iter().any(|owned| owned.kind == one.kind && owned.id == one.id) {
            return Err(violation(
                "UnownedResource",
                format!(
                    "the result was refused: it claims {} `{}`, which no effect of this allocation made (hole H3)",
                    shown(&one.kind),
                    shown(&one.id)
                ),
            ));
        }
    }
    Ok(())
}
