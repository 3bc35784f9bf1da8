//! The one account of the cloud: its tokens and sessions, its lockout and its rate limit.
//! Failures are counted for the account and not for the caller, as at a BMC: whoever keeps trying a bad secret
//! locks everybody out.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::{
    behaviour::{Behaviour, Rate, RetryAfter},
    clock::http_date,
    ledger::AuthCounters,
    reply::Refusal,
    secrets,
};

/// Body of `POST /_sim/auth`; what is absent stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthChange {
    /// A further token, valid at once.
    pub token: Option<String>,
    /// All tokens that were valid before end after so many milliseconds; zero ends them now.
    pub end_others_in_ms: Option<u64>,
    /// User and password of the sessions variant.
    pub user: Option<String>,
    pub password: Option<String>,
    /// All sessions end now and give back their slots.
    pub end_sessions: bool,
    /// The lock is lifted and the row of failures forgotten.
    pub unlock: bool,
}

#[derive(Debug)]
struct Session {
    token: String,
    ends: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Token → when it ends.
    tokens: HashMap<String, Option<i64>>,
    user: String,
    password: String,
    /// By id, with the token of each.
    sessions: BTreeMap<String, Session>,
    by_token: HashMap<String, String>,
    next_session: u64,
    locked_until: Option<i64>,
    pub counters: AuthCounters,
    window_ends: i64,
    used: u64,
}

impl Account {
    pub fn new(token: &str, user: &str, password: &str) -> Account {
        Account {
            tokens: HashMap::from([(token.to_owned(), None)]),
            user: user.to_owned(),
            password: password.to_owned(),
            ..Account::default()
        }
    }

    pub fn change(&mut self, change: AuthChange, now: i64) {
        if let Some(ms) = change.end_others_in_ms {
            let end = now.saturating_add_unsigned(ms);
            for ends in self.tokens.values_mut() {
                *ends = Some(ends.map_or(end, |earlier| earlier.min(end)));
            }
        }
        if let Some(token) = change.token {
            self.tokens.insert(token, None);
        }
        if let Some(user) = change.user {
            self.user = user;
        }
        if let Some(password) = change.password {
            self.password = password;
        }
        if change.end_sessions {
            for id in self.session_ids() {
                self.end_session(&id);
            }
        }
        if change.unlock {
            self.locked_until = None;
            self.counters.failed_in_a_row = 0;
        }
    }

    /// Checks a bearer token or a session token.
    pub fn check(
        &mut self,
        bearer: Option<&str>,
        session: Option<&str>,
        behaviour: &Behaviour,
        now: i64,
    ) -> Result<(), Refusal> {
        self.refuse_if_locked(now)?;
        self.sweep_sessions(now);
        let by_bearer = bearer
            .and_then(|token| self.tokens.get(token))
            .is_some_and(|ends| ends.is_none_or(|ends| now < ends));
        let by_session = session.is_some_and(|token| self.by_token.contains_key(token));
        self.count(by_bearer || by_session, behaviour, now)
    }

    /// Opens a session. Returns its id and its token.
    pub fn login(
        &mut self,
        user: &str,
        password: &str,
        behaviour: &Behaviour,
        now: i64,
    ) -> Result<(String, String), Refusal> {
        self.refuse_if_locked(now)?;
        self.sweep_sessions(now);
        self.count(user == self.user && password == self.password, behaviour, now)?;
        if self.sessions.len() >= behaviour.sessions.slots {
            return Err(Refusal::new(
                503,
                "session_limit_exceeded",
                "every slot of the table of sessions is taken",
            ));
        }
        self.next_session += 1;
        let (id, token) = (format!("ses-{}", self.next_session), secrets::random_word("session"));
        let ends = behaviour.sessions.life_ms.map(|ms| now.saturating_add_unsigned(ms));
        self.by_token.insert(token.clone(), id.clone());
        self.sessions.insert(id.clone(), Session { token: token.clone(), ends });
        self.counters.sessions_opened += 1;
        Ok((id, token))
    }

    /// Ends a session; false if there is none of that id.
    pub fn end_session(&mut self, id: &str) -> bool {
        let Some(session) = self.sessions.remove(id) else { return false };
        self.by_token.remove(&session.token);
        self.counters.sessions_closed += 1;
        true
    }

    pub fn session_ids(&self) -> Vec<String> {
        self.sessions.keys().cloned().collect()
    }

    pub fn sweep_sessions(&mut self, now: i64) {
        let ended = |session: &Session| session.ends.is_some_and(|ends| ends <= now);
        let ids: Vec<_> =
            self.sessions.iter().filter(|(_, session)| ended(session)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.end_session(&id);
        }
    }

    fn refuse_if_locked(&mut self, now: i64) -> Result<(), Refusal> {
        if self.locked_until.is_some_and(|until| now < until) {
            self.counters.refused_while_locked += 1;
            return Err(Refusal::new(403, "account_locked", "too many failed authentications"));
        }
        Ok(())
    }

    fn count(&mut self, accepted: bool, behaviour: &Behaviour, now: i64) -> Result<(), Refusal> {
        if accepted {
            self.counters.accepted += 1;
            self.counters.failed_in_a_row = 0;
            return Ok(());
        }
        self.counters.failed += 1;
        self.counters.failed_in_a_row += 1;
        if let Some(lockout) = &behaviour.lockout
            && self.counters.failed_in_a_row >= lockout.after
        {
            self.locked_until = Some(now.saturating_add_unsigned(lockout.for_ms));
            self.counters.failed_in_a_row = 0;
            self.counters.lockouts += 1;
        }
        Err(Refusal::new(401, "unauthorized", "unable to authenticate"))
    }

    /// Takes `requests` from the window. Returns the headers for every answer and, if the window is used up, the
    /// refusal.
    pub fn spend(
        &mut self,
        requests: u64,
        rate: &Rate,
        now: i64,
    ) -> (Vec<(String, String)>, Option<Refusal>) {
        if now >= self.window_ends {
            self.window_ends = now.saturating_add_unsigned(rate.window_ms);
            self.used = 0;
        }
        let within = self.used < rate.requests;
        self.used = (self.used + requests).min(rate.requests);
        let wait_s = (self.window_ends - now + 999) / 1000;
        let reset = if rate.reset_unix { (self.window_ends + 999) / 1000 } else { wait_s };
        let headers = vec![
            ("ratelimit-limit".to_owned(), rate.requests.to_string()),
            ("ratelimit-remaining".to_owned(), (rate.requests - self.used).to_string()),
            ("ratelimit-reset".to_owned(), reset.to_string()),
        ];
        if within {
            return (headers, None);
        }
        self.counters.throttled += 1;
        let mut refusal = Refusal::new(rate.status, "rate_limited", "too many requests");
        match rate.retry_after {
            RetryAfter::Seconds => refusal.headers.push(("retry-after".into(), wait_s.to_string())),
            RetryAfter::Date => {
                refusal.headers.push(("retry-after".into(), http_date(self.window_ends + 999)))
            }
            RetryAfter::Absent => {}
        }
        (headers, Some(refusal))
    }
}
