//! Effects in doubt: how they go on, by the replay that the manifest declares.

use crate::failure::failure;
use crate::journal::{Effect, EffectState, RecordedRefusal, SettledBy};
use crate::lookup::Seen;
use crate::message::{CallError, CallOutcome, Phase};
use crate::perform::{Attempt, Basis, COME_BACK_MS, not_written};
use crate::session::Room;
use holdfast_manifest::{EffectKind, Lookup, Replay};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// A token with less life than this is taken as forgotten.
pub(crate) const LEAST_LIFE_MS: u64 = 1_000;

/// Longest time for which something that is to be destroyed is thought to be hidden, in seconds.
const MOST_HIDDEN: u64 = 10;

/// How an effect in doubt goes on.
pub(crate) enum Doubt {
    Send(Basis),
    Answer(CallOutcome),
}

impl Room {
    /// Milliseconds until the service may have forgotten the effect's token.
    pub(crate) fn life_left_ms(&self, effect: &Effect, life: u64) -> u64 {
        let age = self.shared.clock.now().as_millisecond() - effect.first_intended_at.as_millisecond();
        // A clock that went back says nothing about the token's age.
        u64::try_from(age).map_or(0, |age| life.saturating_mul(1000).saturating_sub(age))
    }

    /// Decides how an effect in doubt goes on, by its declared replay.
    pub(crate) async fn go_on(&self, attempt: &mut Attempt) -> Result<Doubt, CallError> {
        let Some(effect) = attempt.previous.clone() else { return Ok(Doubt::Send(Basis::First)) };
        let same = attempt.ready.as_ref().is_ok_and(|ready| ready.fingerprint == effect.fingerprint);
        if let (Ok(ready), true) = (&attempt.ready, *attempt.replay() != Replay::Never) {
            self.check_sent_here(&attempt.call, &effect, ready)?;
        }
        let lookup = match attempt.replay().clone() {
            // A person must say, wherever it was.
            Replay::Never => return Ok(Doubt::Answer(CallOutcome::InDoubt(None))),
            Replay::Idempotent => {
                // An update may bear a newer ETag and still be the same wish. Another wish, another thing to make or
                // destroy, or other first-boot data, is another effect: its answer would say nothing about the first.
                let alike = attempt.call.effect == EffectKind::Update
                    && !attempt.call.has_user_data()
                    && self.aim(attempt, &effect.binding) == effect.aim;
                return Ok(match &attempt.ready {
                    Ok(_) if same || alike => Doubt::Send(Basis::Repeat),
                    // Not a repeat, and there is nothing to look up.
                    Ok(_) => Doubt::Answer(CallOutcome::InDoubt(None)),
                    Err(_) => Doubt::Answer(attempt.wait(None)),
                });
            }
            Replay::Token { life, lookup } => {
                if same && self.life_left_ms(&effect, life) >= LEAST_LIFE_MS {
                    return Ok(Doubt::Send(Basis::Repeat));
                }
                match lookup {
                    Some(lookup) => lookup,
                    None => return Ok(Doubt::Answer(CallOutcome::InDoubt(None))),
                }
            }
            Replay::Lookup(lookup) => lookup,
        };
        self.decide_by_lookup(attempt, effect, &lookup).await
    }

    /// One match is done, none for long enough is absent, several are for a person.
    pub(crate) async fn decide_by_lookup(
        &self,
        attempt: &mut Attempt,
        mut effect: Effect,
        lookup: &Lookup,
    ) -> Result<Doubt, CallError> {
        let seen = self.look_up(attempt, &effect, lookup).await?;
        let now = self.shared.clock.now();
        match seen {
            Seen::One(reply) => {
                let args = self.arguments_of(attempt);
                let at = (effect.binding.as_str(), effect.place.as_deref());
                let made = self.creations(&attempt.call, &args, &reply.fields, at);
                self.done(attempt, effect, reply, made, SettledBy::Lookup).await.map(Doubt::Answer)
            }
            Seen::Several => Err(failure(
                true,
                "multiple-matches",
                "MultipleMatches",
                format!(
                    "effect `{}`: lookup `{}` found several things that bear its token; a person must remove all but one",
                    attempt.key(),
                    lookup.call
                ),
            )
            .into()),
            Seen::Unknown(wait) => Ok(Doubt::Answer(attempt.wait(wait))),
            Seen::Nothing => {
                let since = match effect.absent_since {
                    Some(since) if since <= now => since,
                    _ => {
                        effect.absent_since = Some(now);
                        attempt.journal.settle(effect.clone()).await.map_err(not_written)?;
                        attempt.previous = Some(effect.clone());
                        now
                    }
                };
                // By the journal's time, which survives a restart, and by a clock that nobody sets (attack A12).
                let found_nothing = self.shared.absent_for(&attempt.name, since);
                let here = Duration::from_secs(lookup.absent_after).saturating_sub(found_nothing);
                let here = u64::try_from(here.as_millis()).unwrap_or(u64::MAX);
                let left = left_ms(since, lookup.absent_after, now).max(here);
                // Empty once is not absent, even if nothing lags.
                if left > 0 || since == now {
                    return Ok(Doubt::Answer(CallOutcome::InDoubt(Some(left.clamp(1_000, COME_BACK_MS)))));
                }
                self.absent(attempt, effect).await
            }
        }
    }

    /// A release may meet what was made a moment ago and is not shown yet: "not there" is no proof of its end until
    /// then, and a release that took it for one would leak (A03). Milliseconds until it makes sense to send again.
    pub(crate) fn may_appear_yet(&self, attempt: &Attempt, effect: &Effect) -> Option<u64> {
        if self.context.phase != Phase::Release || *attempt.replay() == Replay::Never {
            return None;
        }
        let hidden = effect.targets.iter().filter(|target| !self.was_there(target));
        let lag = hidden.map(|target| self.lag_of(&target.kind)).max()?;
        // What is to be released was made before the first effect of the release.
        let others = self.effects();
        let intents = others.iter().chain([effect]).map(|effect| effect.first_intended_at);
        let left = left_ms(intents.min()?, lag, self.shared.clock.now());
        (left > 0).then(|| left.clamp(1_000, COME_BACK_MS))
    }

    /// Seconds for which a thing of this kind may be hidden after its create, as far as this matters here: a create
    /// that is sent again because nothing was seen makes a twin, and needs more certainty than this.
    fn lag_of(&self, kind: &str) -> u64 {
        let makers = self.manifest.calls.values().filter(|call| call.creates.contains_key(kind));
        let lags = makers.filter_map(|call| call.lookup()).map(|lookup| lookup.absent_after);
        lags.max().unwrap_or(0).min(MOST_HIDDEN)
    }

    /// Nothing happened, for certain: send again, or say why that cannot be done.
    async fn absent(&self, attempt: &mut Attempt, mut effect: Effect) -> Result<Doubt, CallError> {
        if attempt.ready.is_ok() {
            return Ok(Doubt::Send(Basis::AfterAbsence));
        }
        effect.state = EffectState::Rejected;
        effect.settled_at = Some(self.shared.clock.now());
        effect.settled_by = Some(SettledBy::Lookup);
        effect.refusal = Some(RecordedRefusal {
            code: "unavailable".to_owned(),
            reason: "NeverArrived".to_owned(),
            message: "the lookup confirms that nothing happened".to_owned(),
            native: None,
        });
        attempt.journal.settle(effect).await.map_err(not_written)?;
        self.shared.forget(&attempt.name);
        match &attempt.ready {
            Err(error) => Err(error.clone()),
            Ok(_) => Ok(Doubt::Send(Basis::AfterAbsence)),
        }
    }
}

/// Milliseconds until `after` seconds have passed since.
fn left_ms(since: Timestamp, after: u64, now: Timestamp) -> u64 {
    let after = SignedDuration::from_secs(i64::try_from(after).unwrap_or(i64::MAX / 1000));
    let passed = now.duration_since(since);
    u64::try_from(after.saturating_sub(passed).as_millis()).unwrap_or(0)
}
