//! Ids that a service gives out again (field case A29): what is destroyed is the thing that was made, not another that
//! bears its number now.
//!
//! Where the manifest names what tells them apart, the host records it with what is made, compares it with every read of
//! the thing, and reads the thing itself before it destroys it. Another one there means that ours is gone. The read and the
//! destroy are two requests: what happens between them nobody can see.

use crate::args::{Args, Tokens};
use crate::exchanger::Ready;
use crate::failure::{failure, from_refusal, unavailable};
use crate::journal::{EffectState, RecordedReply, SettledBy};
use crate::message::{CallError, CallOutcome, Owned};
use crate::ownership::{only, texts};
use crate::perform::Attempt;
use crate::session::Room;
use crate::text::shown;
use holdfast_custody::Verdict;
use holdfast_manifest::{Call, EffectKind};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// What a look at one target found.
enum Look {
    /// The one that was made, or nothing at all: what destroys it does no harm.
    Ours,
    /// Another one bears the id.
    Strangers,
}

impl Room {
    /// The incarnations on record of a thing, if each record has one.
    fn incarnations(&self, target: &Owned) -> Option<Vec<String>> {
        let owned = self.owned();
        let mut records = owned.iter().filter(|one| one.is(target)).peekable();
        records.peek()?;
        records.map(|one| one.incarnation.clone()).collect()
    }

    /// Does the reply of a read show that another thing bears the id of what it is aimed at?
    pub(crate) fn shows_another(&self, call: &Call, aimed: &[Owned], fields: &Map<String, Value>) -> bool {
        let [target] = aimed else { return false };
        let (Some(path), Some(known)) = (call.incarnation.get(&target.kind), self.incarnations(target))
        else {
            return false;
        };
        only(texts(fields, path)).is_some_and(|shown| !known.iter().any(|known| same(known, &shown)))
    }

    /// Makes sure that a destroy meets what was made. `None`: it may be sent. Else nothing is sent, and this is the end
    /// of it: what was made is gone.
    ///
    /// # Errors
    /// If it can't be seen, or only some of several targets are ours.
    pub(crate) async fn confirm(
        &self,
        attempt: &Attempt,
        ready: &Ready,
    ) -> Result<Option<CallOutcome>, CallError> {
        let call = &attempt.call;
        let read = call.confirm.as_ref().and_then(|name| self.manifest.calls.get(name));
        let Some((read, (arg, kind))) = read.and_then(|read| Some((read, read.confirming()?))) else {
            return Ok(None);
        };
        let aimed = self.aimed_at(call, &attempt.args, &ready.binding);
        let mut strangers = Vec::new();
        for target in aimed.iter().filter(|target| target.kind == kind) {
            if self.incarnations(target).is_none() {
                // Recorded before there was anything to compare.
                continue;
            }
            if let Look::Strangers = self.look(attempt, read, arg, target).await? {
                strangers.push(target.clone());
            }
        }
        if strangers.is_empty() {
            return Ok(None);
        }
        strangers.iter().for_each(|one| self.is_gone(one));
        if strangers.len() < aimed.len() {
            let message = format!(
                "nothing was sent: call `{}` is aimed at {} `{}` too, whose id the service has given to another; leave it \
                 out (field case A29)",
                call.name,
                shown(&strangers[0].kind),
                shown(&strangers[0].id)
            );
            return Err(failure(false, "conflict", "GivenOutAgain", message).into());
        }
        self.gone_already(attempt, ready).await.map(Some)
    }

    async fn look(
        &self,
        attempt: &Attempt,
        read: &Call,
        arg: &str,
        target: &Owned,
    ) -> Result<Look, CallError> {
        let unseen = |why: &str| {
            let message = format!(
                "nothing was sent: before call `{}` destroys {} `{}`, call `{}` must show that it still is the one that was \
                 made (field case A29), and {why}",
                attempt.call.name,
                shown(&target.kind),
                shown(&target.id),
                read.name
            );
            unavailable("NotConfirmed", message)
        };
        let list = read.args.get(arg).is_some_and(holdfast_manifest::Arg::is_list);
        let id = Value::from(target.id.as_str());
        let given = Map::from_iter([(arg.to_owned(), if list { Value::from(vec![id]) } else { id })]);
        let args = self.fill(read, given, Tokens::Of(attempt.key()))?;
        let ready = self.read_ready(attempt, read, args)?;
        let verdict = self.shared.custody.send(ready).await.verdict;
        match verdict {
            Verdict::Fits(reply) => {
                let path = read.incarnation.get(&target.kind).map_or(&[][..], Vec::as_slice);
                if only(texts(&reply.fields, path)).is_none() {
                    return Err(unseen("its reply names not exactly one"));
                }
                let another = self.shows_another(read, std::slice::from_ref(target), &reply.fields);
                Ok(if another { Look::Strangers } else { Look::Ours })
            }
            Verdict::Gone { .. } => Ok(Look::Ours),
            Verdict::Rejected(refusal) | Verdict::Unclear(refusal) => {
                let mut error = from_refusal(refusal);
                let CallError::Failure(told) = unseen(&format!("it failed: {}", error.message)) else {
                    return Err(error.into());
                };
                (error.message, error.permanent) = (told.message, false);
                Err(error.into())
            }
        }
    }

    fn read_ready(&self, attempt: &Attempt, read: &Call, args: Args) -> Result<Ready, CallError> {
        self.check_targets(read, &args, None)?;
        let mut request = attempt.request.clone();
        request.user_data.clear();
        let exchange = self.exchange(read, args.clone(), &request, self.remaining_ms()?)?;
        let ready = self.shared.custody.prepare(exchange).map_err(from_refusal)?;
        self.check_targets(read, &args, Some(&ready))?;
        Ok(ready)
    }

    /// The destroy is done without being sent: the journal says so, as if the service had said that it is not there.
    async fn gone_already(&self, attempt: &Attempt, ready: &Ready) -> Result<CallOutcome, CallError> {
        let sent = attempt.previous.as_ref().map_or(0, |effect| effect.attempts);
        let mut effect = self.intent(attempt, ready);
        debug_assert!(attempt.call.effect == EffectKind::Destroy && effect.state == EffectState::Intended);
        effect.attempts = sent;
        let reply = RecordedReply { status: 404, fields: Map::new() };
        self.done(attempt, effect, reply, Vec::new(), SettledBy::Lookup).await
    }
}

/// The same incarnation? Times are compared as times: a service may write one with more digits here than there.
fn same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (Ok(a), Ok(b)) = (one.parse::<Timestamp>(), other.parse::<Timestamp>()) else { return false };
    let (few, many) = (digits(one).min(digits(other)), digits(one).max(digits(other)));
    // Cut or rounded to fewer digits, it is off by less than one of the last.
    let unit = if few == many { 0 } else { 10_i64.pow(9 - few) };
    b.duration_since(a).abs() < SignedDuration::from_nanos(unit.max(1))
}

/// Digits of a second's fraction, at most nine.
fn digits(time: &str) -> u32 {
    let fraction = time.split_once(['.', ',']).map_or("", |(_, rest)| rest);
    fraction.bytes().take_while(u8::is_ascii_digit).count().min(9) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_times_and_everything_else_as_text_a29() {
        let same_ones = [
            ("u-1", "u-1"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
            ("2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00"),
            ("2026-01-02T03:04:05.120Z", "2026-01-02T03:04:05.12Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.999Z"),
            ("2026-01-02T03:04:06Z", "2026-01-02T03:04:05.5Z"),
        ];
        for (one, other) in same_ones {
            assert!(same(one, other) && same(other, one), "{one} {other}");
        }
        let others = [
            ("u-1", "u-2"),
            ("17", "18"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"),
            ("2026-01-02T03:04:05.120Z", "2026-01-02T03:04:05.121Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.1Z"),
            ("2026-01-02T03:04:05Z", "u-1"),
        ];
        for (one, other) in others {
            assert!(!same(one, other) && !same(other, one), "{one} {other}");
        }
    }
}
