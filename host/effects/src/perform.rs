//! The journal's state machine: at most once per key, whatever is lost or killed.
//!
//! An effect's turn is taken first; then the journal says what may be done. From the intent on, the work runs in a
//! task of its own that owns exchange and settling, so that a guest that is dropped aborts nothing (attack 82).

use crate::args::{Args, Tokens, key_grammar};
use crate::doubt::{Doubt, LEAST_LIFE_MS};
use crate::exchanger::Ready;
use crate::failure::{failure, from_refusal, invalid, unavailable};
use crate::journal::{Effect, EffectState, Journal, JournalError, MAX_EFFECTS, RecordedRefusal};
use crate::message::{CallError, CallOutcome, CallRequest};
use crate::phases::{self, Import, effect_word};
use crate::session::{Room, to_guest};
use crate::shared::EffectName;
use holdfast_custody::{Answer, Place};
use holdfast_manifest::{Call, EffectKind, Replay};
use std::sync::{Arc, Weak};

/// When a guest should come back to an effect in doubt, in milliseconds.
pub(crate) const COME_BACK_MS: u64 = 2_000;
/// A mutating exchange may outlast the callback by this much: cutting it at the callback's end would make doubt.
const GRACE_MS: u64 = 30_000;

/// One `perform`, with everything that its task needs.
pub(crate) struct Attempt {
    pub name: EffectName,
    pub call: Call,
    pub previous: Option<Effect>,
    pub args: Args,
    pub request: CallRequest,
    /// The prepared request, or why there is none. An effect in doubt may be settled without.
    pub ready: Result<Ready, CallError>,
    pub journal: Arc<dyn Journal>,
}

impl Attempt {
    pub fn key(&self) -> &str {
        &self.name.2
    }

    pub fn replay(&self) -> &Replay {
        self.call.replay.as_ref().unwrap_or(&Replay::Never)
    }

    /// How long the guest should stay away; `None` where only a person can help.
    pub fn wait(&self, asked: Option<u64>) -> CallOutcome {
        match self.replay() {
            Replay::Never => CallOutcome::InDoubt(None),
            _ => CallOutcome::InDoubt(Some(asked.and_then(crate::text::clamp_wait).unwrap_or(COME_BACK_MS))),
        }
    }
}

/// What a send is, seen from the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Nothing that was sent before can have taken effect.
    First,
    /// An earlier send may have taken effect; the service recognises this one.
    Repeat,
    /// Earlier sends were looked up and are confirmed absent.
    AfterAbsence,
}

impl Room {
    pub(crate) async fn perform(
        self: Arc<Self>,
        key: String,
        request: CallRequest,
    ) -> Result<CallOutcome, CallError> {
        phases::impure(self.context.phase, "perform")?;
        // Names that end up in sentences and in the journal.
        self.scan(Place::GuestArgument, &request.call)?;
        self.scan(Place::GuestArgument, &key)?;
        let call = phases::granted(&self.manifest, self.context.phase, Import::Perform, &request.call)?;
        let call = call.clone();
        key_grammar(&key)?;
        let Some(journal) = self.journal.clone() else {
            return Err(unavailable("NoJournal", "nothing was sent: this callback has no journal"));
        };
        let name = (self.context.provider.clone(), self.context.operation_uid.clone(), key);
        let turn = self.shared.turn(&name).await;
        let previous = {
            let (room, journal, name) = (self.clone(), journal.clone(), name.clone());
            self.on_the_daemon(async move { room.current(&journal, &name).await }).await?
        };
        if let Some(answer) = known(previous.as_ref(), &call, &journal) {
            return answer;
        }
        let in_doubt = previous.as_ref().is_some_and(|effect| effect.state == EffectState::Intended);
        let (args, ready) = match self.made_ready(&call, &name.2, &request, previous.as_ref()) {
            Ok((args, ready)) => (args, Ok(ready)),
            Err(CallError::Failure(failure)) if in_doubt => (Args::new(), Err(failure.into())),
            Err(error) => return Err(error),
        };
        let attempt = Attempt { name, call, previous, args, request, ready, journal };
        let caller = Arc::new(());
        let alive = Arc::downgrade(&caller);
        let room = self.clone();
        let outcome = self
            .on_the_daemon(async move {
                let _turn = turn;
                room.carry_out(attempt, alive).await
            })
            .await;
        drop(caller);
        outcome
    }

    /// The journal's entry, after an outcome that the store would not take has been offered again.
    async fn current(
        &self,
        journal: &Arc<dyn Journal>,
        name: &EffectName,
    ) -> Result<Option<Effect>, CallError> {
        let found = journal.effects().into_iter().find(|effect| effect.key == name.2);
        let (Some(outcome), Some(effect)) = (self.shared.kept(name), found.as_ref()) else {
            return Ok(found);
        };
        let same = effect.state == EffectState::Intended
            && (effect.attempts, effect.epoch) == (outcome.attempts, outcome.epoch);
        if same {
            journal.settle(outcome.clone()).await.map_err(not_written)?;
        }
        self.shared.forget(name);
        Ok(if same { Some(outcome) } else { found })
    }

    /// Arguments checked, targets checked, request built. Nothing is sent.
    fn made_ready(
        &self,
        call: &Call,
        key: &str,
        request: &CallRequest,
        previous: Option<&Effect>,
    ) -> Result<(Args, Ready), CallError> {
        let args = self.arguments(call, request, Tokens::Of(key))?;
        self.check_targets(call, &args, None)?;
        let mut timeout = self.remaining_ms()?.saturating_add(GRACE_MS);
        if let (Some(Replay::Token { life, .. }), Some(effect)) = (&call.replay, previous)
            && effect.state == EffectState::Intended
            && self.life_left_ms(effect, *life) >= LEAST_LIFE_MS
        {
            // A repeat by token ends before the service forgets the token.
            timeout = timeout.min(self.life_left_ms(effect, *life));
        }
        let exchange = self.exchange(call, args.clone(), request, timeout)?;
        let ready = self.shared.custody.prepare(exchange).map_err(from_refusal)?;
        self.check_targets(call, &args, Some(&ready))?;
        Ok((args, ready))
    }

    async fn carry_out(
        self: Arc<Self>,
        mut attempt: Attempt,
        caller: Weak<()>,
    ) -> Result<CallOutcome, CallError> {
        let in_doubt = attempt.previous.as_ref().is_some_and(|effect| effect.state == EffectState::Intended);
        let basis = match in_doubt {
            false => Basis::First,
            true => match self.go_on(&mut attempt).await? {
                Doubt::Send(basis) => basis,
                Doubt::Answer(outcome) => return Ok(outcome),
            },
        };
        if let Ok(ready) = &attempt.ready
            && let Some(outcome) = self.confirm(&attempt, ready).await?
        {
            return Ok(outcome);
        }
        if caller.strong_count() == 0 {
            return Err(unavailable("CallerGone", "nothing was sent: the callback ended before"));
        }
        self.send(attempt, basis).await
    }

    /// Intent, exchange, outcome.
    async fn send(&self, mut attempt: Attempt, basis: Basis) -> Result<CallOutcome, CallError> {
        let placeholder = unavailable("AlreadySent", "the request was sent before");
        let ready = std::mem::replace(&mut attempt.ready, Err(placeholder))?;
        let effect = self.intent(&attempt, &ready);
        match attempt.journal.intend(effect.clone()).await {
            // About to be sent: what was kept of an attempt that was not is no longer true.
            Ok(()) => self.shared.forget(&attempt.name),
            Err(error) => {
                // The write may have landed although nobody said so; we know that nothing was sent after it.
                if matches!(error, JournalError::Unavailable(_)) && basis != Basis::Repeat {
                    self.shared.keep(attempt.name.clone(), self.unsent(effect));
                }
                return Err(not_written(error));
            }
        }
        let answer: Answer = self.shared.custody.send(ready).await;
        attempt.previous = Some(effect.clone());
        self.settle(attempt, effect, basis, answer).await
    }

    pub(crate) fn intent(&self, attempt: &Attempt, ready: &Ready) -> Effect {
        let now = self.shared.clock.now();
        let previous = attempt.previous.as_ref();
        Effect {
            key: attempt.key().to_owned(),
            call: attempt.call.name.clone(),
            effect: effect_word(attempt.call.effect).to_owned(),
            binding: ready.binding.clone(),
            place: ready.places.first().cloned(),
            fingerprint: ready.fingerprint.clone(),
            aim: self.aim(attempt, &ready.binding),
            token: self.token_of(attempt.key()),
            attempts: previous.map_or(0, |effect| effect.attempts).saturating_add(1),
            epoch: attempt.journal.epoch(),
            state: EffectState::Intended,
            intended_at: now,
            // Kept over refusals: a service may count a token's life from the first time it saw it, executed or not.
            first_intended_at: previous.map_or(now, |effect| effect.first_intended_at),
            settled_at: None,
            settled_by: None,
            reply: None,
            refusal: None,
            created: Vec::new(),
            targets: match attempt.call.effect {
                EffectKind::Update | EffectKind::Destroy => {
                    self.aimed_at(&attempt.call, &attempt.args, &ready.binding)
                }
                _ => Vec::new(),
            },
            absent_since: None,
        }
    }

    fn unsent(&self, mut effect: Effect) -> Effect {
        effect.state = EffectState::Rejected;
        effect.settled_at = Some(self.shared.clock.now());
        effect.settled_by = Some(crate::journal::SettledBy::Answer);
        effect.refusal = Some(RecordedRefusal {
            code: "unavailable".to_owned(),
            reason: "NotSent".to_owned(),
            message: "the intent could not be confirmed, so that nothing was sent".to_owned(),
            native: None,
        });
        effect
    }

    /// The arguments as far as they are known without the guest: those of the request, or the host's.
    pub(crate) fn arguments_of(&self, attempt: &Attempt) -> Args {
        let mut args = attempt.args.clone();
        for (name, arg) in &attempt.call.args {
            if arg.from == holdfast_manifest::Source::Token && !args.contains_key(name) {
                args.insert(name.clone(), self.token_of(attempt.key()).into());
            }
        }
        args
    }
}

/// What needs no work: settled effects, foreign keys, a full journal.
fn known(
    previous: Option<&Effect>,
    call: &Call,
    journal: &Arc<dyn Journal>,
) -> Option<Result<CallOutcome, CallError>> {
    let Some(effect) = previous else {
        let full = journal.effects().len() >= MAX_EFFECTS;
        return full.then(|| {
            Err(invalid(
                "TooManyEffects",
                format!("nothing was sent: an operation has at most {MAX_EFFECTS} effects"),
            ))
        });
    };
    if effect.call != call.name {
        return Some(Err(invalid(
            "KeyReused",
            format!(
                "nothing was sent: key `{}` already names an effect of call `{}`",
                effect.key, effect.call
            ),
        )));
    }
    match effect.state {
        EffectState::Intended | EffectState::Rejected => None,
        EffectState::Abandoned => Some(Err(failure(
            true,
            "canceled",
            "EffectAbandoned",
            format!("nothing was sent: an operator gave up effect `{}`", effect.key),
        )
        .into())),
        EffectState::Done => {
            let reply = effect.reply.as_ref();
            let status = reply.map_or(200, |reply| reply.status);
            let fields = reply.map(|reply| reply.fields.clone()).unwrap_or_default();
            Some(Ok(CallOutcome::Done(to_guest(status, &fields))))
        }
    }
}

pub(crate) fn not_written(error: JournalError) -> CallError {
    let (reason, what) = match &error {
        JournalError::Fenced(_) => ("Fenced", "this daemon may not go on with the operation"),
        JournalError::Unavailable(_) => ("JournalUnavailable", "the journal could not be written"),
    };
    unavailable(reason, format!("{what}: {error}"))
}
