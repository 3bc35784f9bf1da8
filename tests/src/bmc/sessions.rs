//! The session table and the account: who may come in, and how often somebody tried.

use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use http::{HeaderMap, header::AUTHORIZATION};
use ring::rand::{SecureRandom, SystemRandom};

use super::personality::Access;

/// Counts about who came in. `login` is a POST to the session collection; `authentication` is that or a request with
/// basic authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    pub open_sessions: usize,
    pub most_open_sessions: usize,
    pub logins: u32,
    /// Logins with the right password that found no free slot.
    pub logins_without_slot: u32,
    pub logouts: u32,
    pub login_attempts: u32,
    /// Authentications with a wrong user or password.
    pub wrong_passwords: u32,
    /// Requests with a token that is not, or no longer, in the table.
    pub stale_tokens: u32,
    /// Times that the account went from open to locked.
    pub lockouts: u32,
    /// Authentications while it was locked.
    pub attempts_while_locked: u32,
}

pub(super) struct Session {
    pub id: String,
    token: String,
    used: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// Neither token nor basic authentication.
    Anonymous,
    Wrong,
    Locked,
    StaleToken,
    NoSlot,
}

pub(super) struct Doorkeeper {
    pub access: Access,
    user: String,
    password: String,
    sessions: Vec<Session>,
    counts: AccessCounts,
    wrong_in_a_row: u32,
    locked: bool,
    next: u64,
}

impl Doorkeeper {
    pub fn new(user: String, password: String, access: Access) -> Doorkeeper {
        let (sessions, counts) = (Vec::new(), AccessCounts::default());
        Doorkeeper { access, user, password, sessions, counts, wrong_in_a_row: 0, locked: false, next: 1 }
    }

    pub fn counts(&mut self, now: Instant) -> AccessCounts {
        self.end_idle(now);
        AccessCounts { open_sessions: self.sessions.len(), ..self.counts.clone() }
    }

    pub fn set_password(&mut self, password: String) {
        self.password = password;
    }

    pub fn unlock(&mut self) {
        (self.locked, self.wrong_in_a_row) = (false, 0);
    }

    pub fn end_all_sessions(&mut self) {
        self.sessions.clear();
    }

    pub fn session_ids(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(|session| session.id.as_str())
    }

    /// A request with these headers may come in.
    pub fn admit(&mut self, headers: &HeaderMap, now: Instant) -> Result<(), Denied> {
        self.end_idle(now);
        if let Some(token) = headers.get("x-auth-token") {
            let session =
                self.sessions.iter_mut().find(|session| session.token.as_bytes() == token.as_bytes());
            let Some(session) = session else {
                self.counts.stale_tokens += 1;
                return Err(Denied::StaleToken);
            };
            session.used = now;
            return Ok(());
        }
        let (user, password) = basic(headers).ok_or(Denied::Anonymous)?;
        if !self.access.basic {
            return Err(Denied::Anonymous);
        }
        self.authenticate(&user, &password)
    }

    /// The id and the token of a new session.
    pub fn login(&mut self, user: &str, password: &str, now: Instant) -> Result<(String, String), Denied> {
        self.end_idle(now);
        self.counts.login_attempts += 1;
        self.authenticate(user, password)?;
        let slots = self.access.sessions.as_ref().map_or(0, |sessions| sessions.slots);
        if self.sessions.len() >= slots {
            self.counts.logins_without_slot += 1;
            return Err(Denied::NoSlot);
        }
        let (id, token) = (self.next.to_string(), random_token());
        self.next += 1;
        self.sessions.push(Session { id: id.clone(), token: token.clone(), used: now });
        self.counts.logins += 1;
        self.counts.most_open_sessions = self.counts.most_open_sessions.max(self.sessions.len());
        Ok((id, token))
    }

    /// Whether there was such a session.
    pub fn logout(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|session| session.id != id);
        let ended = self.sessions.len() < before;
        self.counts.logouts += u32::from(ended);
        ended
    }

    fn authenticate(&mut self, user: &str, password: &str) -> Result<(), Denied> {
        if self.locked {
            self.counts.attempts_while_locked += 1;
            return Err(Denied::Locked);
        }
        if user == self.user && password == self.password {
            self.wrong_in_a_row = 0;
            return Ok(());
        }
        self.counts.wrong_passwords += 1;
        self.wrong_in_a_row += 1;
        if self.access.lockout_after.is_some_and(|limit| self.wrong_in_a_row >= limit) {
            self.locked = true;
            self.counts.lockouts += 1;
        }
        Err(Denied::Wrong)
    }

    fn end_idle(&mut self, now: Instant) {
        let idle = self.access.sessions.as_ref().map_or(Duration::MAX, |sessions| sessions.idle);
        self.sessions.retain(|session| now.saturating_duration_since(session.used) < idle);
    }
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn random_token() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    HEXLOWER.encode(&bytes)
}
