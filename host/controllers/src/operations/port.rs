//! The port of a callback, watched: remembers which effect the guest was last told is in doubt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_effects::{CallError, CallOutcome, CallReply, CallRequest, LogLine, Port, Session, Violation};

/// An effect whose outcome is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Key of the effect.
    pub key: String,
    /// Milliseconds until the host can look again; `None`: only a person can settle it.
    pub retry_after_ms: Option<u64>,
}

/// Hands everything on.
pub(crate) struct WatchedPort {
    session: Arc<Session>,
    doubts: Mutex<Vec<Doubt>>,
}

impl WatchedPort {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self { session, doubts: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Doubt>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worst doubt that is left: one that only a person can settle, else the one that takes longest.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let doubts = self.lock();
        let person = doubts.iter().find(|doubt| doubt.retry_after_ms.is_none());
        person.or_else(|| doubts.iter().max_by_key(|doubt| doubt.retry_after_ms)).cloned()
    }
}

#[async_trait::async_trait]
impl Port for WatchedPort {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError> {
        self.session.read(request).await
    }

    async fn perform(&self, key: String, request: CallRequest) -> Result<CallOutcome, CallError> {
        let outcome = self.session.perform(key.clone(), request).await;
        let mut doubts = self.lock();
        doubts.retain(|doubt| doubt.key != key);
        if let Ok(CallOutcome::InDoubt(retry_after_ms)) = &outcome {
            doubts.push(Doubt { key, retry_after_ms: *retry_after_ms });
        }
        drop(doubts);
        outcome
    }

    fn recorded(&self, key: &str) -> Result<Option<CallOutcome>, Violation> {
        self.session.recorded(key)
    }

    fn token(&self, key: &str) -> Result<String, Violation> {
        self.session.token(key)
    }

    fn now(&self) -> Result<String, Violation> {
        self.session.now()
    }

    fn log(&self, line: LogLine) -> Result<(), Violation> {
        self.session.log(line)
    }

    fn seed(&self) -> [u8; 32] {
        self.session.seed()
    }
}
