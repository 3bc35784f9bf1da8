//! Login and logout: the declared session calls as requests, and what their answers mean.

use super::{LOGIN, Plan, Session};
use crate::budget::{BudgetKey, Lane, Turn, signal};
use crate::custody::Inner;
use crate::errors::{broken, refusal};
use crate::message::Refusal;
use crate::prepare::counts_of;
use crate::reply::capture::{CAPTURE_MAX, capture};
use crate::reply::document::parse_as;
use crate::reply::project::{Source as ReplySource, text_at};
use crate::reply::verdict::{error_word, retry_after};
use crate::request::args::{Filled, fill};
use crate::request::build::{Built, Draft, build};
use crate::request::slots;
use crate::scan::{FLOOR, Kind};
use crate::seal::resolve;
use crate::secret::SecretBytes;
use crate::transport::wire::{Left, Outgoing, Raw};
use crate::vault::Watch;
use holdfast_manifest::{Call, Class, Life, Place, SlotKind, Source};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Slow BMCs take their time, and a session that is left behind takes one of few slots.
const LOGOUT: Duration = Duration::from_secs(10);

impl Inner {
    pub(super) async fn log_in(self: &Arc<Self>, plan: &Plan) -> Result<Session, Failed> {
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
        let (key, name) = (BudgetKey::new(&plan.login_at, Some(&plan.credentials)), &plan.credentials.name);
        let turn = self.budgets.enter(key, name, Lane::Change, Instant::now() + LOGIN).await;
        let turn = turn.map_err(|held| Failed::unclear(held.refusal(&call.name)))?;
        let raw = self.session_exchange(plan, call, built, Vec::new(), turn).await;
        let raw = raw.map_err(Failed::unclear)?;
        let endpoint = plan.provider.endpoint(&plan.login_at).map_err(Failed::unclear)?;
        let doc = parse_as(call.reply, raw.body.as_slice(), &endpoint.xmlns);
        let source = ReplySource { headers: &raw.headers, body: doc.as_ref() };
        let captured = capture(&call.captures, &source);
        let mut watch = Watch::new(&self.live(plan.provider.name()), self.grace);
        // All machines of a provider share its live set: one service's one-letter token would make every text with
        // that letter a leak, and a huge one would swamp the set (attack 47).
        let bounded = captured.within_bounds();
        for (name, values) in captured.values.iter().filter(|_| bounded) {
            let counts = self.vault().counts(format!("{}/session {name}", plan.credentials.name));
            values.iter().for_each(|value| watch.over(&counts, Kind::Value, value));
        }
        let word = error_word(endpoint, &source);
        let class = if raw.unusable.is_some() {
            Class::Unclear("unavailable".into())
        } else {
            call.classify(raw.status, word.as_deref())
        };
        if class != Class::Plain {
            let retry = retry_after(endpoint, &raw.headers);
            return Err(Failed::of_class(&plan.login, raw.status, class, retry));
        }
        if !bounded {
            let message = format!(
                "login `{}`: a capture in the reply is not {FLOOR} to {CAPTURE_MAX} bytes long (attack 47); see \
                 calls.{}.captures of the manifest",
                plan.login, plan.login
            );
            return Err(Failed::unclear(refusal("unavailable", "LoginReplyDoesNotFit", message)));
        }
        let mut session = Session {
            generation: self.sessions.next.fetch_add(1, Ordering::Relaxed),
            captures: BTreeMap::new(),
            expires: None,
            used: Mutex::new(Instant::now()),
            _watch: watch,
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
    pub(super) async fn log_out(self: &Arc<Self>, session: &Arc<Session>) {
        let Some(logout) = &session.plan.logout else { return };
        let Ok(call) = session.plan.call(logout) else { return };
        let Ok(built) = self.session_request(&session.plan, call, Some(session)) else { return };
        let mut auth = Vec::new();
        for (place, format) in &session.plan.put {
            let Some(secret) = slots::format(format, &|name| session.value(name)) else { return };
            auth.push((place.clone(), secret));
        }
        let Plan { login_at, credentials, .. } = &session.plan;
        let key = BudgetKey::new(login_at, Some(credentials));
        let turn = self.budgets.pass(key, &credentials.name, Instant::now() + LOGOUT);
        let _ = timeout(LOGOUT, self.session_exchange(&session.plan, call, built, auth, turn)).await;
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
        turn: Turn,
    ) -> Result<Raw, Refusal> {
        let outgoing: Outgoing = self.outgoing(&call.name, &built, auth)?;
        let identity = Some(plan.credentials.identity.clone());
        // A logout may go twice, so that it may take any connection.
        let line =
            self.line(&plan.provider, &plan.login_at, identity, call.name == plan.login, call.max_reply);
        let raw = line.exchange(&outgoing, &Left::default()).await.map_err(|lost| {
            refusal("unavailable", "Unreachable", format!("login call `{}`: {}", call.name, lost.0))
        })?;
        let endpoint = plan.provider.endpoint(&plan.login_at)?;
        turn.heard(signal::heard(endpoint, raw.status, &raw.headers, None));
        Ok(raw)
    }
}

/// Why a login failed, and whether the service said so for good.
pub(super) struct Failed {
    pub refusal: Refusal,
    pub definite: bool,
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
