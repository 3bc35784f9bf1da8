//! Sessions: logins run by the host, one per (binding, account), logged out before they are replaced.
//!
//! A login runs in a task of its own, so that a caller who gives up does not leak a session that the service has
//! already made (BMCs have few slots for them).

use crate::custody::Inner;
use crate::errors::{broken, refusal};
use crate::message::Refusal;
use crate::prepare::{Prepared, counts_of};
use crate::registry::{Bound, Provider};
use crate::reply::capture::capture;
use crate::reply::document::parse;
use crate::reply::project::{Source as ReplySource, text_at};
use crate::reply::verdict::{error_word, retry_after};
use crate::request::args::{Filled, fill};
use crate::request::build::{Built, Draft, build};
use crate::request::slots;
use crate::scan::Kind;
use crate::scan::live::Watched;
use crate::seal::resolve;
use crate::secret::SecretBytes;
use crate::transport::wire::{Left, Outgoing, Raw};
use crate::vault::Credentials;
use holdfast_manifest::{Auth, Call, Class, Format, Life, Place, SlotKind, Source};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until, timeout};

const LOGIN: Duration = Duration::from_secs(60);
const LOGOUT: Duration = Duration::from_secs(5);

/// Revision, binding, account.
type SessionKey = (String, String, String);
/// Where the one session of a key stands; locked while it is being replaced.
type Seat = Arc<AsyncMutex<Option<Arc<Session>>>>;

#[derive(Default)]
pub(crate) struct Sessions {
    places: Mutex<HashMap<SessionKey, Seat>>,
    next: AtomicU64,
    closed: AtomicBool,
}

/// A session that the service made.
pub(crate) struct Session {
    generation: u64,
    captures: BTreeMap<String, SecretBytes>,
    expires: Option<Instant>,
    digest: [u8; 32],
    watched: Vec<Watched>,
    plan: Plan,
    /// Path of the login request: what its `Location` is resolved against.
    base: String,
}

/// How to log in, and out.
#[derive(Clone)]
struct Plan {
    provider: Arc<Provider>,
    /// Where the login is served, and where the calls that it authenticates are.
    login_at: Arc<Bound>,
    credentials: Arc<Credentials>,
    login: String,
    logout: Option<String>,
    life: Life,
    put: Vec<(Place, Format)>,
}

impl Session {
    pub fn capture(&self, name: &str) -> Option<&SecretBytes> {
        self.captures.get(name)
    }

    fn usable(&self, digest: &[u8; 32]) -> bool {
        self.digest == *digest && self.expires.is_none_or(|at| at > Instant::now())
    }
}

impl Sessions {
    fn place(&self, key: SessionKey) -> Seat {
        self.lock().entry(key).or_default().clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Seat>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// A session for a prepared call, and whether it was there before.
    pub(crate) async fn session(
        self: &Arc<Self>,
        prepared: &Prepared,
    ) -> Result<(Arc<Session>, bool), Refusal> {
        let plan = self.plan(prepared)?;
        let place = self.sessions.place(session_key(&plan));
        let place = place.lock_owned().await;
        if self.sessions.closed.load(Ordering::SeqCst) {
            return Err(refusal(
                "unavailable",
                "ShuttingDown",
                "the daemon is shutting down; nothing was sent",
            ));
        }
        if let Some(session) = place.as_ref().filter(|session| session.usable(&plan.credentials.digest)) {
            return Ok((session.clone(), true));
        }
        let inner = self.clone();
        let task = tokio::spawn(async move { inner.replace(place, plan).await });
        match task.await {
            Ok(result) => result.map(|session| (session, false)),
            Err(_) => Err(broken(&prepared.call, "the login task ended")),
        }
    }

    /// Drops a cached session that the service no longer takes.
    pub(crate) async fn drop_session(self: &Arc<Self>, session: &Arc<Session>) {
        let place = self.sessions.place(session_key(&session.plan));
        let mut place = place.lock().await;
        if place.as_ref().is_some_and(|cached| cached.generation == session.generation)
            && let Some(session) = place.take()
        {
            self.log_out(&session).await;
        }
    }

    /// Logs out of everything that matches, in tasks of their own; does nothing outside a runtime. With a digest, only
    /// of sessions made with those credential bytes.
    pub(crate) fn end_sessions(
        self: &Arc<Self>,
        matching: impl Fn(&SessionKey) -> bool,
        digest: Option<[u8; 32]>,
    ) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let seats: Vec<Seat> = {
            let mut places = self.sessions.lock();
            let seats =
                places.iter().filter(|(key, _)| matching(key)).map(|(_, seat)| seat.clone()).collect();
            if digest.is_none() {
                places.retain(|key, _| !matching(key));
            }
            seats
        };
        for seat in seats {
            let inner = self.clone();
            runtime.spawn(async move {
                let mut seat = seat.lock().await;
                if digest.is_none_or(|digest| seat.as_ref().is_some_and(|session| session.digest == digest))
                    && let Some(session) = seat.take()
                {
                    inner.log_out(&session).await;
                }
            });
        }
    }

    /// Refuses new sessions and logs out of all, within a bound.
    pub(crate) async fn close_sessions(self: &Arc<Self>) {
        self.sessions.closed.store(true, Ordering::SeqCst);
        let places: Vec<Seat> = self.sessions.lock().drain().map(|(_, place)| place).collect();
        let tasks: Vec<_> = places
            .into_iter()
            .map(|place| {
                let inner = self.clone();
                tokio::spawn(async move {
                    if let Some(session) = place.lock().await.take() {
                        inner.log_out(&session).await;
                    }
                })
            })
            .collect();
        let all = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        let _ = timeout(LOGOUT * 2, all).await;
    }

    fn plan(&self, prepared: &Prepared) -> Result<Plan, Refusal> {
        let provider = prepared.provider.clone();
        let credentials = prepared.credentials.clone();
        let credentials = credentials.ok_or_else(|| broken(&prepared.call, "no credentials for a login"))?;
        let Auth::Session { login, put, life, logout } = provider.auth(&prepared.bound)? else {
            return Err(broken(&prepared.call, "the endpoint has no login"));
        };
        let call = provider.manifest.calls.get(login);
        let call = call.ok_or_else(|| broken(&prepared.call, "the login is not declared"))?;
        let login_at = provider.bind(&call.endpoint, &prepared.selector)?;
        Ok(Plan {
            login_at: Arc::new(login_at),
            credentials,
            login: login.clone(),
            logout: logout.clone(),
            life: life.clone(),
            put: put.clone(),
            provider: provider.clone(),
        })
    }

    /// Logs out of what stands in the place and logs in again.
    async fn replace(
        self: Arc<Self>,
        mut place: OwnedMutexGuard<Option<Arc<Session>>>,
        plan: Plan,
    ) -> Result<Arc<Session>, Refusal> {
        if let Some(old) = place.take() {
            self.log_out(&old).await;
        }
        let key = (plan.login_at.name.clone(), plan.credentials.account.clone());
        let permit = self.breakers.enter(key, plan.credentials.digest).await;
        let permit = permit.map_err(|wait| held_back(&plan.login, wait))?;
        let result = timeout(LOGIN, self.log_in(&plan)).await;
        match result {
            Ok(Ok(session)) => {
                permit.proven();
                let session = Arc::new(session);
                *place = Some(session.clone());
                self.end_in_time(&session);
                Ok(session)
            }
            Ok(Err(Failed { mut refusal, definite: true })) => {
                refusal.retry_after_ms = Some(permit.refused().as_millis() as u64);
                Err(refusal)
            }
            Ok(Err(failed)) => Err(failed.refusal),
            Err(_) => {
                Err(refusal("unavailable", "LoginTimedOut", format!("login `{}` took too long", plan.login)))
            }
        }
    }

    /// Logs out when the session's life is over, if it still stands in its place.
    fn end_in_time(self: &Arc<Self>, session: &Arc<Session>) {
        let Some(expires) = session.expires else { return };
        let (inner, session) = (Arc::downgrade(self), Arc::downgrade(session));
        tokio::spawn(async move {
            sleep_until(expires).await;
            if let (Some(inner), Some(session)) = (inner.upgrade(), session.upgrade()) {
                inner.drop_session(&session).await;
            }
        });
    }

    async fn log_in(self: &Arc<Self>, plan: &Plan) -> Result<Session, Failed> {
        let call = plan.call(&plan.login).map_err(Failed::unclear)?;
        let built = self.session_request(plan, call, None).map_err(Failed::unclear)?;
        let base = built.path.clone();
        for slot in call.slots.values() {
            if let SlotKind::Credential(format) = &slot.kind {
                for counts in counts_of(&plan.credentials, &slots::holes(&format.0)) {
                    counts.spliced.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let raw = self.session_exchange(plan, call, built, Vec::new()).await.map_err(Failed::unclear)?;
        let endpoint = plan.provider.endpoint(&plan.login_at).map_err(Failed::unclear)?;
        let doc = parse(raw.body.as_slice());
        let source = ReplySource { headers: &raw.headers, body: doc.as_ref() };
        let captured = capture(&call.captures, &source);
        let live = self.live(plan.provider.name());
        let mut watched = Vec::new();
        for (name, values) in &captured.values {
            let counts = self.vault().counts(format!("{}/session {name}", plan.credentials.name));
            watched.extend(values.iter().map(|value| live.watch(&counts, Kind::Value, value, "")));
        }
        let word = error_word(endpoint, &source);
        let class = if raw.unusable.is_some() {
            Class::Unclear("unavailable".into())
        } else {
            call.classify(raw.status, word.as_deref())
        };
        if class != Class::Plain {
            watched.into_iter().for_each(|watched| live.retire(watched, self.grace));
            let retry = retry_after(endpoint, &raw.headers, jiff::Timestamp::now());
            return Err(Failed::of_class(&plan.login, raw.status, class, retry));
        }
        let mut session = Session {
            generation: self.sessions.next.fetch_add(1, Ordering::Relaxed),
            captures: BTreeMap::new(),
            expires: None,
            digest: plan.credentials.digest,
            watched,
            plan: plan.clone(),
            base,
        };
        let expires = expiry(&plan.life, &source);
        let complete =
            captured.missing.is_empty() && captured.values.keys().all(|name| captured.one(name).is_some());
        for (name, mut values) in captured.values {
            if let Some(value) = values.pop() {
                session.captures.insert(name, value);
            }
        }
        match expires {
            Some(expires) if complete => {
                session.expires = Some(expires);
                Ok(session)
            }
            _ => {
                // The service may have made a session; what is known of it is enough to try to end it.
                self.log_out(&Arc::new(session)).await;
                let message = format!(
                    "login `{}`: the reply lacks a capture or a life that the manifest declares (attack 47)",
                    plan.login
                );
                Err(Failed::unclear(refusal("unavailable", "LoginReplyDoesNotFit", message)))
            }
        }
    }

    /// Best effort, within a bound.
    async fn log_out(self: &Arc<Self>, session: &Arc<Session>) {
        let live = self.live(session.plan.provider.name());
        session.watched.iter().for_each(|watched| live.retire(*watched, self.grace));
        let Some(logout) = &session.plan.logout else { return };
        let Ok(call) = session.plan.call(logout) else { return };
        let Ok(built) = self.session_request(&session.plan, call, Some(session)) else { return };
        let mut auth = Vec::new();
        for (place, format) in &session.plan.put {
            let Some(secret) = slots::format(format, &|name| session.value(name)) else { return };
            auth.push((place.clone(), secret));
        }
        let _ = timeout(LOGOUT, self.session_exchange(&session.plan, call, built, auth)).await;
    }

    fn session_request(&self, plan: &Plan, call: &Call, session: Option<&Session>) -> Result<Built, Refusal> {
        let refuse = |why: &str| broken(&call.name, why);
        let bound = &plan.login_at;
        let mut args = BTreeMap::new();
        let mut url = None;
        for (name, arg) in &call.args {
            let captured = |field: &str| session.and_then(|s| s.capture(field)).and_then(SecretBytes::text);
            match &arg.from {
                Source::Binding(var) => {
                    let value =
                        bound.vars.get(var).ok_or_else(|| refuse("needs a variable of the binding"))?;
                    args.insert(name.clone(), fill(&call.name, name, arg, &value.clone().into())?);
                }
                Source::Field { field, .. } => {
                    let text = match captured(field) {
                        Some(text) => text,
                        None if arg.optional => continue,
                        None => return Err(refuse("needs a capture that the login did not make")),
                    };
                    if arg.at.contains(&Place::Url) {
                        let base = session.map_or("/", |session| session.base.as_str());
                        let target = resolve(&bound.origin, base, text, &[], None);
                        url = Some(target.ok_or_else(|| refuse("would leave its origin (attack 27)"))?);
                    } else {
                        args.insert(name.clone(), Filled::One(text.to_owned()));
                    }
                }
                _ => return Err(refuse("takes an argument that no session call may take (rule L7)")),
            }
        }
        let mut filled = BTreeMap::new();
        for (name, slot) in &call.slots {
            let SlotKind::Credential(format) = &slot.kind else {
                return Err(refuse("takes credentials only"));
            };
            let value =
                |key: &str| plan.credentials.value(key).or_else(|| session.and_then(|s| s.capture(key)));
            let plain = slots::format(format, &value)
                .ok_or_else(|| refuse("needs a credential key that is missing"))?;
            filled.insert(name.clone(), slots::encode(slot, &plain).map_err(|why| refuse(&why))?);
        }
        let draft = Draft {
            call,
            endpoint: plan.provider.endpoint(bound)?,
            bound,
            user_agent: &self.user_agent,
            args: &args,
            slots: &filled,
            url: url.as_ref(),
            page: None,
        };
        build(&draft).map_err(|why| refuse(&why))
    }

    async fn session_exchange(
        &self,
        plan: &Plan,
        call: &Call,
        built: Built,
        auth: Vec<(Place, SecretBytes)>,
    ) -> Result<Raw, Refusal> {
        let outgoing: Outgoing = self.outgoing(&call.name, &built, auth)?;
        let line = self.line(&plan.provider, &plan.login_at, Some(plan.credentials.id), true, call.max_reply);
        line.exchange(&outgoing, &Left::default()).await.map_err(|lost| {
            refusal("unavailable", "Unreachable", format!("login call `{}`: {}", call.name, lost.0))
        })
    }
}

impl Session {
    /// What a `put` of this session may use: its captures and the credentials.
    pub fn value(&self, name: &str) -> Option<&SecretBytes> {
        self.captures.get(name).or_else(|| self.plan.credentials.value(name))
    }
}

impl Plan {
    fn call(&self, name: &str) -> Result<&Call, Refusal> {
        self.provider.manifest.calls.get(name).ok_or_else(|| broken(name, "it is not declared"))
    }
}

fn session_key(plan: &Plan) -> SessionKey {
    let binding = format!("{} {}", plan.login_at.name, plan.login);
    (plan.provider.revision.0.clone(), binding, plan.credentials.account.clone())
}

/// Why a login failed, and whether the service said so for good.
struct Failed {
    refusal: Refusal,
    definite: bool,
}

impl Failed {
    fn unclear(refusal: Refusal) -> Failed {
        Failed { refusal, definite: false }
    }

    fn of_class(login: &str, status: u16, class: Class, retry: Option<u64>) -> Failed {
        let (code, definite) = match &class {
            Class::Rejected(code) => {
                let refused = matches!(code.as_str(), "unauthenticated" | "permission-denied");
                (
                    if refused { "unauthenticated" } else { code.as_str() },
                    refused || matches!(status, 401 | 403),
                )
            }
            Class::Unclear(code) => (code.as_str(), false),
            Class::Gone | Class::Plain => ("unavailable", false),
        };
        let message = format!("login `{login}`: the service answered {status}");
        let mut refusal = refusal(code, if definite { "LoginRefused" } else { "LoginFailed" }, message);
        refusal.retry_after_ms = retry;
        Failed { refusal, definite }
    }
}

/// Until when a session may be used; `None` if the reply doesn't say what the manifest says it says.
fn expiry(life: &Life, source: &ReplySource<'_>) -> Option<Instant> {
    let now = Instant::now();
    match life {
        Life::Seconds(seconds) => now.checked_add(Duration::from_secs(*seconds)),
        Life::At { at, less } => {
            let text = text_at(at, source)?;
            let seconds = match text.parse::<u64>() {
                Ok(seconds) => seconds,
                Err(_) => {
                    let at: jiff::Timestamp = text.parse().ok()?;
                    u64::try_from(at.as_second() - jiff::Timestamp::now().as_second()).ok()?
                }
            };
            now.checked_add(Duration::from_secs(seconds.min(86_400).saturating_sub(*less)))
        }
    }
}

/// The breaker's refusal: nothing was sent.
pub(crate) fn held_back(call: &str, wait: Duration) -> Refusal {
    let message = format!("call `{call}`: the service refused these credentials; the next attempt waits");
    let mut refusal = refusal("unauthenticated", "AuthenticationHeldBack", message);
    refusal.retry_after_ms = Some(wait.as_millis() as u64);
    refusal
}
