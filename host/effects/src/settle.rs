//! What an answer settles: done, refused, or still in doubt; written before the guest hears of it.

use crate::doubt::Doubt;
use crate::failure::{from_refusal, unavailable};
use crate::journal::{
    Effect, EffectState, JournalError, MAX_RECORDED, RecordedRefusal, RecordedReply, SettledBy,
};
use crate::message::{CallError, CallOutcome, Owned};
use crate::perform::{Attempt, Basis, not_written};
use crate::session::{Room, to_guest};
use holdfast_custody::{Answer, Refusal, Verdict};
use holdfast_manifest::{Call, CreatedAt, EffectKind, Manifest, Replay, Source, Type};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Refusals that say nothing about an earlier send, whatever the replay: they come before the service recognises
/// the repeat, or because of the first send itself (hole H7).
const SAY_NOTHING: [&str; 6] =
    ["already-exists", "conflict", "throttled", "unauthenticated", "permission-denied", "unavailable"];

/// Marks a recorded reply that was cut to [`MAX_RECORDED`].
const TRUNCATED: &str = "_truncated";

/// How often an outcome is offered to the store at once, and the wait before the second offer.
const OFFERS: u32 = 3;
const OFFER_WAIT: Duration = Duration::from_millis(200);

impl Room {
    pub(crate) async fn settle(
        &self,
        attempt: Attempt,
        effect: Effect,
        basis: Basis,
        answer: Answer,
    ) -> Result<CallOutcome, CallError> {
        let by = if basis == Basis::Repeat { SettledBy::Repeat } else { SettledBy::Answer };
        match answer.verdict {
            Verdict::Fits(reply) => {
                let at = (effect.binding.as_str(), effect.place.as_deref());
                let made = self.creations(&attempt.call, &attempt.args, &reply.fields, at);
                if made.is_empty() && !attempt.call.creates.is_empty() {
                    return self.unclear(&attempt, effect, unfit(&attempt.call)).await;
                }
                let reply = RecordedReply { status: reply.status, fields: reply.fields };
                self.done(&attempt, effect, reply, made, by).await
            }
            Verdict::Gone { status } if attempt.call.effect == EffectKind::Destroy => {
                if let Some(wait) = self.may_appear_yet(&attempt, &effect) {
                    let mut effect = effect;
                    effect.refusal = Some(recorded(&gone()));
                    self.note(&attempt, effect).await;
                    return Ok(CallOutcome::InDoubt(Some(wait)));
                }
                let reply = RecordedReply { status, fields: Map::new() };
                self.done(&attempt, effect, reply, Vec::new(), by).await
            }
            Verdict::Gone { .. } => self.refused(attempt, effect, basis, gone(), answer.sent).await,
            Verdict::Rejected(refusal) => self.refused(attempt, effect, basis, refusal, answer.sent).await,
            Verdict::Unclear(refusal) if !answer.sent => {
                self.refused(attempt, effect, basis, refusal, false).await
            }
            Verdict::Unclear(refusal) => self.unclear(&attempt, effect, refusal).await,
        }
    }

    /// It took effect. The journal holds outcome and ownership before the guest sees the reply.
    pub(crate) async fn done(
        &self,
        attempt: &Attempt,
        mut effect: Effect,
        reply: RecordedReply,
        made: Vec<Owned>,
        by: SettledBy,
    ) -> Result<CallOutcome, CallError> {
        let fields = bounded(&self.manifest, &attempt.call, reply.fields);
        effect.state = EffectState::Done;
        effect.settled_at = Some(self.shared.clock.now());
        effect.settled_by = Some(by);
        effect.created = made;
        effect.absent_since = None;
        effect.refusal = None;
        effect.reply = Some(RecordedReply { status: reply.status, fields: fields.clone() });
        self.write(attempt, effect).await?;
        self.observe(&attempt.call.name, &attempt.args, &fields);
        Ok(CallOutcome::Done(to_guest(reply.status, &fields)))
    }

    /// A definite refusal of this send. Whether it settles the effect depends on what may have been sent before.
    async fn refused(
        &self,
        mut attempt: Attempt,
        mut effect: Effect,
        basis: Basis,
        refusal: Refusal,
        sent: bool,
    ) -> Result<CallOutcome, CallError> {
        let settles = match basis {
            Basis::First => true,
            // "It is there" contradicts "it is absent": look again.
            Basis::AfterAbsence => !sent || !matches!(refusal.code.as_str(), "already-exists" | "conflict"),
            Basis::Repeat => {
                // Requests are also refused before their token is looked at: where there is a lookup, it decides.
                let recognised = matches!(
                    attempt.call.replay,
                    Some(Replay::Token { lookup: None, .. } | Replay::Idempotent)
                );
                sent && recognised && !SAY_NOTHING.contains(&refusal.code.as_str())
            }
        };
        effect.refusal = Some(recorded(&refusal));
        if settles {
            effect.state = EffectState::Rejected;
            effect.settled_at = Some(self.shared.clock.now());
            effect.settled_by =
                Some(if basis == Basis::Repeat { SettledBy::Repeat } else { SettledBy::Answer });
            effect.absent_since = None;
            self.write(&attempt, effect).await?;
            return Err(from_refusal(refusal).into());
        }
        attempt.ready = Err(from_refusal(refusal.clone()).into());
        let wait = attempt.wait(refusal.retry_after_ms);
        match attempt.call.lookup().cloned() {
            Some(lookup) if sent => match self.decide_by_lookup(&mut attempt, effect, &lookup).await? {
                Doubt::Answer(outcome) => Ok(outcome),
                Doubt::Send(_) => Ok(wait),
            },
            _ => {
                self.note(&attempt, effect).await;
                Ok(wait)
            }
        }
    }

    /// Nobody knows. The journal goes on saying so.
    async fn unclear(
        &self,
        attempt: &Attempt,
        mut effect: Effect,
        refusal: Refusal,
    ) -> Result<CallOutcome, CallError> {
        effect.refusal = Some(recorded(&refusal));
        self.note(attempt, effect).await;
        Ok(attempt.wait(refusal.retry_after_ms))
    }

    /// Writes why an effect is in doubt, for the operator. Losing the note loses nothing else.
    async fn note(&self, attempt: &Attempt, effect: Effect) {
        if let Err(error) = attempt.journal.settle(effect).await {
            tracing::warn!(key = attempt.key(), %error, "why an effect is in doubt could not be noted");
        }
    }

    /// Writes an outcome, some times if need be. What the store will not take is kept in memory and offered again
    /// before the effect's next turn.
    async fn write(&self, attempt: &Attempt, effect: Effect) -> Result<(), CallError> {
        let mut wait = OFFER_WAIT;
        for offer in 1..=OFFERS {
            match attempt.journal.settle(effect.clone()).await {
                Ok(()) => {
                    self.shared.forget(&attempt.name);
                    return Ok(());
                }
                Err(JournalError::Unavailable(_)) if offer < OFFERS => {
                    tokio::time::sleep(wait).await;
                    wait *= 4;
                }
                Err(error) => {
                    self.shared.keep(attempt.name.clone(), effect);
                    return Err(not_written(error));
                }
            }
        }
        Err(unavailable("JournalUnavailable", "the outcome could not be recorded"))
    }
}

fn gone() -> Refusal {
    Refusal {
        code: "not-found".to_owned(),
        reason: "NotFound".to_owned(),
        message: "the service says that the target is not there".to_owned(),
        native: None,
        retry_after_ms: None,
    }
}

/// A success without the identity that it made is no success that can be believed (H5).
fn unfit(call: &Call) -> Refusal {
    Refusal {
        code: "unavailable".to_owned(),
        reason: "UnfitReply".to_owned(),
        message: format!(
            "the reply of `{}` names nothing that `creates` declares; whether it took effect is in doubt (hole H5)",
            call.name
        ),
        native: None,
        retry_after_ms: None,
    }
}

fn recorded(refusal: &Refusal) -> RecordedRefusal {
    RecordedRefusal {
        code: refusal.code.clone(),
        reason: refusal.reason.clone(),
        message: refusal.message.clone(),
        native: refusal.native.clone(),
    }
}

/// The part of a reply that the journal holds, at most [`MAX_RECORDED`] bytes. What ownership and later arguments
/// need goes last; the guest gets the same part now as on every repeat.
fn bounded(manifest: &Manifest, call: &Call, mut fields: Map<String, Value>) -> Map<String, Value> {
    let size =
        |fields: &Map<String, Value>| serde_json::to_string(fields).map_or(usize::MAX, |text| text.len());
    if size(&fields) <= MAX_RECORDED {
        return fields;
    }
    let needed = needed(manifest, call);
    let mut order: Vec<(bool, bool, usize, String)> = fields
        .iter()
        .map(|(name, value)| {
            let mandatory = call.fields.get(name).is_some_and(|field| !field.optional);
            (needed.contains(name), mandatory, usize::MAX - value.to_string().len(), name.clone())
        })
        .collect();
    order.sort();
    fields.insert(TRUNCATED.to_owned(), Value::Bool(true));
    for (.., name) in order {
        if size(&fields) <= MAX_RECORDED {
            break;
        }
        fields.remove(&name);
    }
    fields
}

/// Top-level fields that `creates`, carried arguments and sealed values need.
fn needed(manifest: &Manifest, call: &Call) -> BTreeSet<String> {
    let top = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let created = call.creates.values().filter_map(|at| match at {
        CreatedAt::Field(path) => path.first().cloned(),
        CreatedAt::Arg(_) => None,
    });
    let carried =
        manifest.calls.values().flat_map(|other| other.args.values()).filter_map(|arg| match &arg.from {
            Source::Field { call: of, field } if *of == call.name => Some(top(field)),
            _ => None,
        });
    let sealed = call.fields.iter().filter(|(_, field)| field.ty == Type::Sealed && field.each.is_none());
    created.chain(carried).chain(sealed.map(|(name, _)| name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest() -> Manifest {
        Manifest::parse(include_str!("../tests/kit/provider.toml")).expect("it parses")
    }

    #[test]
    fn a_recorded_reply_keeps_what_ownership_needs_and_says_that_it_was_cut() {
        let manifest = manifest();
        let fields = json!({"id": "srv-1", "long": "x".repeat(5000), "short": "y"});
        let kept = bounded(&manifest, &manifest.calls["make-bare"], fields.as_object().cloned().unwrap());
        assert_eq!(Value::Object(kept), json!({"id": "srv-1", "short": "y", TRUNCATED: true}));
    }

    #[test]
    fn a_recorded_reply_is_bounded_even_if_all_of_it_is_needed() {
        let manifest = manifest();
        let fields = json!({"id": "x".repeat(5000)});
        let kept = bounded(&manifest, &manifest.calls["make-bare"], fields.as_object().cloned().unwrap());
        assert_eq!(Value::Object(kept), json!({TRUNCATED: true}));
    }

    #[test]
    fn a_reply_that_fits_is_recorded_as_it_is() {
        let manifest = manifest();
        let fields = json!({"id": "srv-1"}).as_object().cloned().unwrap();
        assert_eq!(bounded(&manifest, &manifest.calls["make-bare"], fields.clone()), fields);
    }
}
