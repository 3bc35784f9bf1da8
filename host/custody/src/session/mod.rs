//! Sessions: logins run by the host, one per (binding, account), logged out before they are replaced.
//!
//! A login runs in a task of its own, so that a caller who gives up does not leak a session that the service has
//! already made (BMCs have few slots for them). A session outlives the deposit of its credentials: callbacks come and
//! go, and the next one is to find it. It ends when nobody uses it for a while, with its life, with its revision, or
//! when other bytes replace those that it was made with.

mod login;

use crate::breaker::breaker_key;
use crate::custody::Inner;
use crate::errors::{broken, refusal};
use crate::message::Refusal;
use crate::prepare::Prepared;
use crate::registry::{Bound, Provider};
use crate::request::slots;
use crate::secret::SecretBytes;
use crate::vault::{Credentials, Identity, Watch};
use holdfast_manifest::{Auth, Call, Format, Life, Place, SlotKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use login::Failed;

const LOGIN: Duration = Duration::from_secs(60);
const SHUTDOWN: Duration = Duration::from_secs(10);
/// How soon a session that was in use when its time was up is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Revision, binding, account.
type SessionKey = (String, String, String);
/// Where the one session of a key stands; locked while it is being replaced.
type Seat = Arc<AsyncMutex<Option<Arc<Session>>>>;

pub(crate) struct Sessions {
    /// Longest time without use.
    idle: Duration,
    places: Mutex<HashMap<SessionKey, Seat>>,
    next: AtomicU64,
    closed: AtomicBool,
    /// Logouts on their way that no place tells of any more; a shutdown waits for them.
    ending: Mutex<Vec<JoinHandle<()>>>,
}

/// A session that the service made.
pub(crate) struct Session {
    generation: u64,
    captures: BTreeMap<String, SecretBytes>,
    expires: Option<Instant>,
    used: Mutex<Instant>,
    /// Replies are scanned for the captures as long as the session lives.
    _watch: Watch,
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

    fn usable(&self, identity: &Identity) -> bool {
        self.plan.credentials.identity == *identity && self.expires.is_none_or(|at| at > Instant::now())
    }

    /// Until when it may stay without another use.
    fn over_at(&self, idle: Duration) -> Instant {
        let over = *self.used.lock().unwrap_or_else(PoisonError::into_inner) + idle;
        self.expires.map_or(over, |expires| expires.min(over))
    }

    /// It was used just now.
    pub fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Sessions {
    pub fn new(idle: Duration) -> Sessions {
        Sessions {
            idle,
            places: Mutex::default(),
            next: AtomicU64::default(),
            closed: AtomicBool::default(),
            ending: Mutex::default(),
        }
    }

    fn place(&self, key: SessionKey) -> Seat {
        self.lock().entry(key).or_default().clone()
    }

    /// Takes the place of a key, which may be given up by another while this one waits for it.
    async fn take(&self, key: &SessionKey) -> OwnedMutexGuard<Option<Arc<Session>>> {
        loop {
            let place = self.place(key.clone());
            let taken = place.clone().lock_owned().await;
            if self.closed.load(Ordering::SeqCst)
                || self.lock().get(key).is_some_and(|of| Arc::ptr_eq(of, &place))
            {
                return taken;
            }
        }
    }

    fn ending(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
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
        let place = self.sessions.take(&session_key(&plan)).await;
        if self.sessions.closed.load(Ordering::SeqCst) {
            return Err(refusal(
                "unavailable",
                "ShuttingDown",
                "the daemon is shutting down; nothing was sent",
            ));
        }
        if let Some(session) = place.as_ref().filter(|session| session.usable(&plan.credentials.identity)) {
            session.touch();
            return Ok((session.clone(), true));
        }
        // Nobody would end a session that is made after its revision was withdrawn.
        self.provider(&plan.provider.revision)?;
        // A late call with the former bytes must neither end the session that the new ones made nor try to log in with
        // what may be no good any more: failed attempts lock accounts.
        if self.vault().superseded(&plan.credentials.identity) {
            return Err(replaced(&plan.login));
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

    /// Logs out of everything that matches, in tasks of their own; does nothing outside a runtime. Sessions made with
    /// the credential bytes of the digest stay.
    pub(crate) fn end_sessions(
        self: &Arc<Self>,
        matching: impl Fn(&SessionKey) -> bool,
        except: Option<[u8; 32]>,
    ) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let seats: Vec<Seat> = {
            let mut places = self.sessions.lock();
            let seats =
                places.iter().filter(|(key, _)| matching(key)).map(|(_, seat)| seat.clone()).collect();
            if except.is_none() {
                places.retain(|key, _| !matching(key));
            }
            seats
        };
        let mut ending = self.sessions.ending();
        ending.retain(|task| !task.is_finished());
        for seat in seats {
            let inner = self.clone();
            ending.push(runtime.spawn(async move {
                let mut seat = seat.lock().await;
                let stays = |session: &Arc<Session>| Some(session.plan.credentials.identity.digest) == except;
                if !seat.as_ref().is_some_and(stays)
                    && let Some(session) = seat.take()
                {
                    inner.log_out(&session).await;
                }
            }));
        }
    }

    /// Refuses new sessions and logs out of all, within a bound.
    pub(crate) async fn close_sessions(self: &Arc<Self>) {
        self.sessions.closed.store(true, Ordering::SeqCst);
        let places: Vec<Seat> = self.sessions.lock().drain().map(|(_, place)| place).collect();
        let ending = std::mem::take(&mut *self.sessions.ending());
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
            .chain(ending)
            .collect();
        let all = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        let _ = timeout(SHUTDOWN, all).await;
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

    /// Logs out of what stands in the place and logs in again, if the breaker lets it.
    async fn replace(
        self: Arc<Self>,
        mut place: OwnedMutexGuard<Option<Arc<Session>>>,
        plan: Plan,
    ) -> Result<Arc<Session>, Refusal> {
        let identity = &plan.credentials.identity;
        let key = breaker_key(&plan.login_at, identity, plan.used()?);
        let permit = self.breakers.enter(key, identity.digest).await;
        let permit = permit.map_err(|wait| held_back(&plan.login, wait))?;
        if let Some(old) = place.take() {
            self.log_out(&old).await;
        }
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

    /// Logs out when the session's life is over, or when nobody has used it for a while.
    fn end_in_time(self: &Arc<Self>, session: &Arc<Session>) {
        let (inner, session) = (Arc::downgrade(self), Arc::downgrade(session));
        tokio::spawn(async move {
            loop {
                let over = {
                    let (Some(inner), Some(session)) = (inner.upgrade(), session.upgrade()) else { return };
                    let over = session.over_at(inner.sessions.idle);
                    if over <= Instant::now() && inner.end_if_over(session).await {
                        return;
                    }
                    over
                };
                sleep_until(over.max(Instant::now() + LOOK_AGAIN)).await;
            }
        });
    }

    /// Ends a session that is over, and leaves its place. Is it gone?
    async fn end_if_over(self: &Arc<Self>, session: Arc<Session>) -> bool {
        let key = session_key(&session.plan);
        let mut place = self.sessions.place(key.clone()).lock_owned().await;
        if place.as_ref().is_none_or(|cached| cached.generation != session.generation) {
            return true;
        }
        let now = Instant::now();
        let expired = session.expires.is_some_and(|at| at <= now);
        // The place's own and this one: no call is on its way with it.
        let unused = session.over_at(self.sessions.idle) <= now && Arc::strong_count(&session) <= 2;
        if !expired && !unused {
            return false;
        }
        *place = None;
        self.log_out(&session).await;
        drop(place);
        let mut places = self.sessions.lock();
        if places.get(&key).is_some_and(|seat| Arc::strong_count(seat) == 1) {
            places.remove(&key);
        }
        true
    }
}

impl Session {
    /// What a `put` may use of what the login gave: its captures and the credentials.
    pub fn value(&self, name: &str) -> Option<&SecretBytes> {
        self.captures.get(name).or_else(|| self.plan.credentials.value(name))
    }
}

impl Plan {
    /// The credential values that the login sends.
    fn used(&self) -> Result<Vec<&str>, Refusal> {
        let slots = self.call(&self.login)?.slots.values();
        let holes = slots.filter_map(|slot| match &slot.kind {
            SlotKind::Credential(format) => Some(slots::holes(&format.0)),
            _ => None,
        });
        Ok(holes.flatten().collect())
    }

    fn call(&self, name: &str) -> Result<&Call, Refusal> {
        self.provider.manifest.calls.get(name).ok_or_else(|| broken(name, "it is not declared"))
    }
}

fn session_key(plan: &Plan) -> SessionKey {
    let binding = format!("{} {}", plan.login_at.name, plan.login);
    (plan.provider.revision.0.clone(), binding, plan.credentials.identity.account.clone())
}

/// A late call was lent bytes that others have replaced since: nothing was sent, and its repeat is lent the new ones.
fn replaced(login: &str) -> Refusal {
    let message = format!(
        "login `{login}`: the credentials were replaced meanwhile; the next attempt is lent the new ones"
    );
    refusal("unavailable", "CredentialsReplaced", message)
}

/// The breaker's refusal: nothing was sent.
pub(crate) fn held_back(call: &str, wait: Duration) -> Refusal {
    let message = format!("call `{call}`: the service refused these credentials; the next attempt waits");
    let mut refusal = refusal("unauthenticated", "AuthenticationHeldBack", message);
    refusal.retry_after_ms = Some(wait.as_millis() as u64);
    refusal
}
