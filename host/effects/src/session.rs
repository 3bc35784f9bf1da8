//! One open callback: what the engine that runs guests may ask of the house.

use crate::accept;
use crate::args::{Args, Tokens, key_grammar};
use crate::callback::Returned;
use crate::exchanger::{Clock, Exchanger, Ready, WallClock};
use crate::failure::{failure, from_refusal, unavailable, violation};
use crate::journal::{Effect, EffectState, Journal};
use crate::log::Log;
use crate::message::{
    CallError, CallOutcome, CallReply, CallRequest, Context, LogLine, Owned, OwnerKind, Port, Violation,
};
use crate::observed::Observed;
use crate::phases::{self, Import, phase_word};
use crate::resolve::{self, Resolution, ResolveError};
use crate::shared::{Shared, lock};
use data_encoding::BASE32_NOPAD;
use holdfast_custody::{Place, Verdict};
use holdfast_manifest::{Call, Manifest};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Calls of one callback, refused ones included; a paged call counts once. A callback needs a handful. One that asks
/// in a loop would use up the account's rate limit, which every other operation shares (attack 79).
const MAX_CALLS: u32 = 256;

/// Opens sessions; shared by the whole process.
#[derive(Clone)]
pub struct Effects {
    shared: Arc<Shared>,
}

impl Effects {
    /// Exchanges will run on the runtime that this is called in, which must be the daemon's and not the guests'.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(custody: Arc<dyn Exchanger>) -> Effects {
        Effects::with_clock(custody, Arc::new(WallClock))
    }

    /// The same, with a clock of the caller's.
    pub fn with_clock(custody: Arc<dyn Exchanger>, clock: Arc<dyn Clock>) -> Effects {
        Effects { shared: Arc::new(Shared::new(custody, clock)) }
    }

    /// One session per callback. Without a journal nothing can be performed.
    pub fn open(
        &self,
        context: Context,
        manifest: Arc<Manifest>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Arc<Session> {
        let room = Room {
            shared: self.shared.clone(),
            context,
            manifest,
            journal,
            observed: Mutex::default(),
            there: Mutex::default(),
            gone: Mutex::default(),
            log: Mutex::default(),
            calls: AtomicU32::new(0),
        };
        Arc::new(Session { room: Arc::new(room) })
    }

    /// An operator's or controller's wish: settle an effect by hand (`spec.resolve`).
    ///
    /// # Errors
    /// If the effect is not in doubt, or `TookEffect` would lose an identity.
    pub fn resolve(effect: &Effect, resolution: Resolution) -> Result<Effect, ResolveError> {
        resolve::resolve(effect, resolution)
    }

    /// Waits until every exchange under way is settled. For shutdown.
    pub async fn drain(&self) {
        self.shared.drain().await;
    }
}

/// One open callback of a guest.
pub struct Session {
    room: Arc<Room>,
}

/// What a read was made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAt {
    pub binding: String,
    /// Where the binding points; see [`Owned::place`].
    pub place: Option<String>,
}

/// What a session works with; outlives it while an exchange is under way.
pub(crate) struct Room {
    pub shared: Arc<Shared>,
    pub context: Context,
    pub manifest: Arc<Manifest>,
    pub journal: Option<Arc<dyn Journal>>,
    observed: Mutex<Observed>,
    /// What reads of this callback showed to be there, or to be gone.
    there: Mutex<BTreeSet<Owned>>,
    gone: Mutex<BTreeSet<Owned>>,
    pub log: Mutex<Log>,
    calls: AtomicU32,
}

impl Session {
    /// Checks, scans, sanitises and bounds what the guest returned; refuses what may not be believed.
    ///
    /// # Errors
    /// A violation ends the callback without a result.
    pub fn accept(&self, returned: Returned) -> Result<Returned, Violation> {
        accept::accept(&self.room, returned)
    }

    pub fn context(&self) -> &Context {
        &self.room.context
    }

    /// Effects intended and not settled.
    pub fn in_doubt(&self) -> Vec<Effect> {
        self.room.in_doubt()
    }

    /// Everything owned: recorded before this callback, or by effects of this operation.
    pub fn owned(&self) -> Vec<Owned> {
        self.room.owned()
    }

    /// What of it is released: aimed at by a destroy that is done, or seen to be gone in this callback.
    pub fn released(&self) -> Vec<Owned> {
        self.room.released()
    }

    /// A read of the host's own, with the binding that it was made by and where that points: what it lists is known
    /// there alone.
    ///
    /// # Errors
    /// As [`Port::read`].
    pub async fn read_at(&self, request: CallRequest) -> Result<(CallReply, ReadAt), CallError> {
        self.room.one_more_call()?;
        self.room.clone().read(request).await
    }

    /// Lines that the guest wrote: at most 256 of at most 4 KiB, then one that says how many were dropped.
    pub fn logs(&self) -> Vec<LogLine> {
        lock(&self.room.log).lines()
    }
}

#[async_trait::async_trait]
impl Port for Session {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError> {
        self.read_at(request).await.map(|(reply, _)| reply)
    }

    async fn perform(&self, key: String, request: CallRequest) -> Result<CallOutcome, CallError> {
        self.room.one_more_call()?;
        self.room.clone().perform(key, request).await
    }

    fn recorded(&self, key: &str) -> Result<Option<CallOutcome>, Violation> {
        phases::impure(self.room.context.phase, "recorded")?;
        key_grammar(key)?;
        let Some(effect) = self.room.effects().into_iter().find(|effect| effect.key == key) else {
            return Ok(None);
        };
        Ok(match (effect.state, effect.reply) {
            (EffectState::Done, Some(reply)) => {
                Some(CallOutcome::Done(to_guest(reply.status, &reply.fields)))
            }
            // Settled by a person, who cannot know the reply.
            (EffectState::Done, None) => Some(CallOutcome::Done(to_guest(0, &Default::default()))),
            (EffectState::Intended, _) => Some(CallOutcome::InDoubt(None)),
            (EffectState::Rejected | EffectState::Abandoned, _) => None,
        })
    }

    fn token(&self, key: &str) -> Result<String, Violation> {
        phases::impure(self.room.context.phase, "token")?;
        key_grammar(key)?;
        Ok(self.room.token_of(key))
    }

    fn now(&self) -> Result<String, Violation> {
        phases::impure(self.room.context.phase, "now")?;
        let now = self.room.context.now;
        Ok(Timestamp::from_second(now.as_second()).unwrap_or(now).to_string())
    }

    fn log(&self, line: LogLine) -> Result<(), Violation> {
        phases::impure(self.room.context.phase, "log")?;
        self.room.write_log(line)
    }

    fn seed(&self) -> [u8; 32] {
        let context = &self.room.context;
        let parts = [&context.provider, &context.owner.uid, &context.operation_uid].map(String::as_str);
        self.room.shared.custody.keyed("seed", &[parts[0], parts[1], parts[2], phase_word(context.phase)])
    }
}

impl Room {
    async fn read(self: Arc<Self>, request: CallRequest) -> Result<(CallReply, ReadAt), CallError> {
        phases::impure(self.context.phase, "read")?;
        self.scan(Place::GuestArgument, &request.call)?;
        let call = phases::granted(&self.manifest, self.context.phase, Import::Read, &request.call)?.clone();
        let args = self.arguments(&call, &request, Tokens::Named)?;
        self.check_targets(&call, &args, None)?;
        let exchange = self.exchange(&call, args.clone(), &request, self.remaining_ms()?)?;
        let ready = self.shared.custody.prepare(exchange).map_err(from_refusal)?;
        self.check_targets(&call, &args, Some(&ready))?;
        let room = self.clone();
        self.on_the_daemon(async move { room.observe_by(call, args, ready).await }).await
    }

    fn one_more_call(&self) -> Result<(), Violation> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < MAX_CALLS {
            return Ok(());
        }
        let message = format!(
            "the callback was stopped: it made more than {MAX_CALLS} calls; return, and go on in the next callback"
        );
        Err(violation("TooManyCalls", message))
    }

    /// Sends a read, records what it shows to be ours, and remembers what later arguments may carry.
    async fn observe_by(
        &self,
        call: Call,
        args: Args,
        ready: Ready,
    ) -> Result<(CallReply, ReadAt), CallError> {
        let place = ready.places.first().cloned();
        let answer = self.shared.custody.send(ready).await;
        match answer.verdict {
            Verdict::Fits(reply) => {
                let aimed = self.aimed_at(&call, &args, &answer.binding);
                if self.shows_another(&call, &aimed, &reply.fields) {
                    self.see_gone(&call, &args, &answer.binding);
                    let message = format!(
                        "call `{}`: it is not there: the service has given its id to another (field case A29)",
                        call.name
                    );
                    return Err(failure(true, "not-found", "GivenOutAgain", message).into());
                }
                let at = (answer.binding.as_str(), place.as_deref());
                self.learn(&call, &args, &reply.fields, at).await?;
                self.see_there(&call, &args, &answer.binding);
                self.observe(&call.name, &args, &reply.fields);
                let at = ReadAt { binding: answer.binding, place };
                Ok((to_guest(reply.status, &reply.fields), at))
            }
            Verdict::Gone { status } => {
                self.see_gone(&call, &args, &answer.binding);
                Err(failure(
                    true,
                    "not-found",
                    "NotFound",
                    format!("call `{}`: the service says that it is not there (status {status})", call.name),
                )
                .into())
            }
            Verdict::Rejected(refusal) | Verdict::Unclear(refusal) => Err(from_refusal(refusal).into()),
        }
    }

    /// Runs on the daemon's runtime to its end, whatever becomes of the guest: sockets and journal must not depend on
    /// threads on which guests spin, nor be dropped between two steps. Every exchange has its own time limit.
    pub async fn on_the_daemon<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<T, CallError> {
        let ended = |_| Err(unavailable("HostTaskFailed", "the host's task for this call ended early"));
        self.shared.spawn(work).await.unwrap_or_else(ended)
    }

    /// What is left of the callback's time.
    pub fn remaining_ms(&self) -> Result<u64, CallError> {
        let left = self.context.deadline.as_millisecond() - self.shared.clock.now().as_millisecond();
        u64::try_from(left).ok().filter(|ms| *ms > 0).ok_or_else(|| {
            unavailable("DeadlinePassed", "nothing was sent: the time of this callback is over")
        })
    }

    /// A read of one thing that the service does not have. Of several, nobody can tell which one it means.
    fn see_gone(&self, call: &Call, args: &Args, binding: &str) {
        if let [one] = self.aimed_at(call, args, binding).as_slice() {
            lock(&self.gone).insert(one.clone());
        }
    }

    /// Something else bears its id.
    pub fn is_gone(&self, one: &Owned) {
        lock(&self.gone).insert(one.bare());
    }

    /// A read of one thing that would have said so if there were none.
    fn see_there(&self, call: &Call, args: &Args, binding: &str) {
        let endpoint = self.manifest.endpoints.get(&call.endpoint);
        let says = endpoint.is_some_and(|endpoint| !endpoint.answers.gone.is_empty());
        if (says || !call.answers.gone.is_empty())
            && let [one] = self.aimed_at(call, args, binding).as_slice()
        {
            lock(&self.there).insert(one.clone());
        }
    }

    pub fn was_there(&self, one: &Owned) -> bool {
        lock(&self.there).contains(one)
    }

    /// What was owned and is no more, as far as the host has seen it.
    pub fn released(&self) -> Vec<Owned> {
        let effects = self.effects();
        let destroyed = effects
            .iter()
            .filter(|effect| effect.state == EffectState::Done && effect.effect == "destroy")
            .flat_map(|effect| &effect.targets);
        let mut released: BTreeSet<Owned> = destroyed.map(Owned::bare).collect();
        released.extend(lock(&self.gone).iter().cloned());
        self.owned().into_iter().filter(|owned| released.contains(&owned.bare())).collect()
    }

    /// `hf` and 26 lower-case base32 digits: 130 bits, the same for every repeat.
    ///
    /// A token belongs to provider, owner and key; each further offering that an allocation tries makes other things
    /// (R2.4).
    pub fn token_of(&self, key: &str) -> String {
        let Context { provider, owner, attempt, .. } = &self.context;
        let attempt = attempt.to_string();
        let hash = match owner.kind {
            OwnerKind::Allocation if self.context.attempt > 0 => {
                self.shared.custody.keyed("token", &[provider, &owner.uid, &attempt, key])
            }
            _ => self.shared.custody.keyed("token", &[provider, &owner.uid, key]),
        };
        let mut digits = BASE32_NOPAD.encode(&hash[..17]);
        digits.truncate(26);
        format!("hf{}", digits.to_ascii_lowercase())
    }

    pub fn effects(&self) -> Vec<Effect> {
        self.journal.as_ref().map(|journal| journal.effects()).unwrap_or_default()
    }

    pub fn in_doubt(&self) -> Vec<Effect> {
        self.effects().into_iter().filter(|effect| effect.state == EffectState::Intended).collect()
    }

    /// Remembers what later arguments of this callback may carry.
    pub fn observe(&self, call: &str, args: &Args, fields: &serde_json::Map<String, serde_json::Value>) {
        lock(&self.observed).add(&self.manifest, call, args, fields);
    }

    pub fn has_observed(&self, call: &str, field: &str, text: &str) -> bool {
        lock(&self.observed).has(call, field, text)
    }

    /// What the call that sealed this value, in this callback, was aimed at.
    pub fn sealed_aims(&self, sealed: &str) -> Option<Vec<crate::targets::Target>> {
        lock(&self.observed).aims(sealed)
    }
}

pub(crate) fn to_guest(status: u16, fields: &serde_json::Map<String, serde_json::Value>) -> CallReply {
    CallReply { status, fields: serde_json::Value::Object(fields.clone()).to_string() }
}
