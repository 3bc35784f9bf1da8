//! Sending a prepared request: authenticate, send, judge, page; one new login where a cached session went stale.

use crate::breaker::breaker_key;
use crate::budget::{BudgetKey, Lane, signal};
use crate::custody::Inner;
use crate::errors::broken;
use crate::judge::Judged;
use crate::message::{Answer, Refusal, Reply, Verdict};
use crate::prepare::{Prepared, counts_of};
use crate::registry::{Bound, Provider};
use crate::reply::pages::Collector;
use crate::reply::verdict;
use crate::request::build::{Built, Draft, build};
use crate::request::headers::{auth_name, secret_value};
use crate::request::path::percent;
use crate::request::slots;
use crate::seal::resolve;
use crate::secret::{SecretBytes, write_exactly};
use crate::session::held_back;
use crate::transport::pool::PoolKey;
use crate::transport::wire::{Left, Line, Outgoing};
use crate::vault::Identity;
use holdfast_manifest::{Auth, Call, Endpoint, Place};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What authentication adds: places and formatted secrets.
type Put = Vec<(Place, SecretBytes)>;

impl Inner {
    pub(crate) async fn send(self: &Arc<Self>, mut prepared: Prepared) -> Answer {
        let left = Left::default();
        prepared.deadline = Instant::now() + prepared.timeout;
        for counts in &prepared.spliced {
            counts.spliced.fetch_add(1, Ordering::Relaxed);
        }
        let verdict = match timeout(prepared.timeout, self.run(&prepared, &left)).await {
            Ok(verdict) => verdict,
            Err(_) => match prepared.call() {
                Ok(call) => verdict::lost(call, left.open(), "no answer came in time"),
                Err(refusal) => Verdict::Rejected(refusal),
            },
        };
        Answer {
            verdict,
            sent: left.ever(),
            binding: prepared.bound.name.clone(),
            fingerprint: prepared.fingerprint.clone(),
        }
    }

    async fn run(self: &Arc<Self>, prepared: &Prepared, left: &Left) -> Verdict {
        match self.authenticated(prepared, left).await {
            Ok(verdict) => verdict,
            Err(refusal) => Verdict::Rejected(refusal),
        }
    }

    async fn authenticated(self: &Arc<Self>, prepared: &Prepared, left: &Left) -> Result<Verdict, Refusal> {
        match prepared.provider.auth(&prepared.bound)? {
            Auth::None => Ok(self.attempt(prepared, &Vec::new(), left).await?.0),
            Auth::Put { .. } | Auth::Sigv4(_) => self.with_credentials(prepared, left).await,
            Auth::Session { .. } => self.with_session(prepared, left).await,
        }
    }

    /// Credentials on each request, behind the breaker.
    async fn with_credentials(
        self: &Arc<Self>,
        prepared: &Prepared,
        left: &Left,
    ) -> Result<Verdict, Refusal> {
        let credentials = prepared.credentials.as_ref();
        let credentials = credentials.ok_or_else(|| broken(&prepared.call, "no credentials were lent"))?;
        let used = used(prepared.provider.auth(&prepared.bound)?);
        let key = breaker_key(&prepared.bound, &credentials.identity, used);
        let permit = self.breakers.enter(key, credentials.identity.digest).await;
        let permit = permit.map_err(|wait| held_back(&prepared.call, wait))?;
        let put = match prepared.provider.auth(&prepared.bound)? {
            Auth::Put { put } => fill_put(&prepared.call, put, &|name| credentials.value(name))?,
            // Each request is signed when it is complete.
            Auth::Sigv4(_) => Put::new(),
            _ => return Err(broken(&prepared.call, "the endpoint's authentication changed")),
        };
        let (mut verdict, status) = self.attempt(prepared, &put, left).await?;
        match status {
            // A wrong clock says nothing about the credentials, and its refusal is to be seen.
            Some(401) if !verdict::is_clock_skew(&verdict) => set_wait(&mut verdict, permit.refused()),
            Some(status) if proves(status) => permit.proven(),
            _ => {}
        }
        Ok(verdict)
    }

    /// A session; one new login on a 401 of a cached session, then the call once more if it was definitely refused.
    async fn with_session(self: &Arc<Self>, prepared: &Prepared, left: &Left) -> Result<Verdict, Refusal> {
        let credentials = prepared.credentials.as_ref();
        let credentials = credentials.ok_or_else(|| broken(&prepared.call, "no credentials were lent"))?;
        // Apart from the logins' own breaker: a service may take every login and refuse every session.
        let key = breaker_key(&prepared.bound, &credentials.identity, ["a session"]);
        let permit = self.breakers.enter(key, credentials.identity.digest).await;
        let permit = permit.map_err(|wait| held_back(&prepared.call, wait))?;
        let mut again = true;
        loop {
            let (session, cached) = self.session(prepared).await?;
            let Auth::Session { put, .. } = prepared.provider.auth(&prepared.bound)? else {
                return Err(broken(&prepared.call, "the endpoint's authentication changed"));
            };
            let put = fill_put(&prepared.call, put, &|name| session.value(name))?;
            let (mut verdict, status) = self.attempt(prepared, &put, left).await?;
            session.touch();
            match status {
                None => return Ok(verdict),
                Some(401) => self.drop_session(&session).await,
                Some(status) => {
                    if proves(status) {
                        permit.proven();
                    }
                    return Ok(verdict);
                }
            }
            if again && cached && matches!(verdict, Verdict::Rejected(_)) {
                again = false;
                left.settle();
                continue;
            }
            // A session that was just made is refused: logging in again and again would not help.
            set_wait(&mut verdict, permit.refused());
            return Ok(verdict);
        }
    }

    /// Sends once (or all pages). The status is that of the last answer, if one came whole.
    async fn attempt(
        &self,
        prepared: &Prepared,
        put: &Put,
        left: &Left,
    ) -> Result<(Verdict, Option<u16>), Refusal> {
        let call = prepared.call()?;
        let endpoint = prepared.endpoint()?;
        if let (Auth::Put { put }, Some(credentials)) =
            (prepared.provider.auth(&prepared.bound)?, &prepared.credentials)
        {
            let holes: Vec<&str> = put.iter().flat_map(|(_, format)| slots::holes(&format.0)).collect();
            for counts in counts_of(credentials, &holes) {
                counts.spliced.fetch_add(1, Ordering::Relaxed);
            }
        }
        let used = prepared.auth_credentials()?;
        let (budget, name) =
            (BudgetKey::new(&prepared.bound, used), used.map_or("", |used| used.name.as_str()));
        let lane = if call.effect.mutates() { Lane::Change } else { Lane::Read };
        let identity = prepared.credentials.as_ref().map(|credentials| credentials.identity.clone());
        let line =
            self.line(&prepared.provider, &prepared.bound, identity, call.effect.mutates(), call.max_reply);
        let mut collector = call.pages.as_ref().map(Collector::new);
        let mut page: Option<Built> = None;
        loop {
            let built = page.as_ref().unwrap_or(&prepared.built);
            let turn = self.budgets.enter(budget.clone(), name, lane, prepared.deadline).await;
            let turn = turn.map_err(|held| held.refusal(&call.name))?;
            let mut outgoing = self.outgoing(&call.name, built, copies(put))?;
            prepared.sign(&mut outgoing)?;
            let raw = match line.exchange(&outgoing, left).await {
                Ok(raw) => raw,
                Err(lost) => return Ok((verdict::lost(call, left.open(), &lost.0), None)),
            };
            let status = raw.status;
            let judged = self.judge(prepared, call, endpoint, &raw, &built.path, collector.as_mut());
            let code = match &judged {
                Judged::Verdict(Verdict::Rejected(refusal) | Verdict::Unclear(refusal)) => {
                    Some(&*refusal.code)
                }
                _ => None,
            };
            turn.heard(signal::heard(endpoint, status, &raw.headers, code));
            match judged {
                Judged::Verdict(verdict) => return Ok((verdict, Some(status))),
                Judged::Fits(fields) => {
                    let fields = collector.map_or(fields, Collector::finish);
                    return Ok((Verdict::Fits(Reply { status, fields }), Some(status)));
                }
                Judged::Page(token) => page = Some(self.next_page(prepared, call, endpoint, built, &token)?),
            }
        }
    }

    /// The same request with the next page's token in its place.
    fn next_page(
        &self,
        prepared: &Prepared,
        call: &Call,
        endpoint: &Endpoint,
        last: &Built,
        token: &str,
    ) -> Result<Built, Refusal> {
        let refuse = |why: &str| broken(&call.name, why);
        let pages = call.pages.as_ref().ok_or_else(|| refuse("has no pages"))?;
        let mut url = prepared.url.clone();
        let mut page = Some((&pages.into, token));
        if pages.into == Place::Url {
            let next = resolve(&prepared.bound.origin, &last.path, token, &[], None);
            let next = next.filter(|next| next.path() == last.path);
            url = Some(next.ok_or_else(|| refuse("has a next page that is not the same list (section 8)"))?);
            page = None;
        }
        let draft = Draft {
            call,
            endpoint,
            bound: &prepared.bound,
            user_agent: &self.user_agent,
            args: &prepared.args,
            slots: &prepared.slots,
            url: url.as_ref(),
            page,
        };
        build(&draft).map_err(|why| refuse(&why))
    }

    /// Adds the authentication to a built request; it never replaces a header that is there.
    pub(crate) fn outgoing(
        &self,
        call: &str,
        built: &Built,
        auth: impl IntoIterator<Item = (Place, SecretBytes)>,
    ) -> Result<Outgoing, Refusal> {
        let refuse = || broken(call, "the authentication does not fit its place (attack 33)");
        let mut headers = built.headers.clone();
        let mut target = SecretBytes::copy_of(built.target.expose());
        for (place, secret) in auth {
            match place {
                Place::Header(name) => {
                    let name = auth_name(&name).ok_or_else(refuse)?;
                    if headers.contains_key(&name) {
                        return Err(refuse());
                    }
                    headers.insert(name, secret_value(secret).ok_or_else(refuse)?);
                }
                Place::Query(name) => {
                    let separator: &[u8] = if target.expose().contains(&b'?') { b"&" } else { b"?" };
                    let longer = write_exactly(|out| {
                        out.put(target.expose());
                        out.put(separator);
                        percent(out, name.as_bytes());
                        out.put(b"=");
                        percent(out, secret.expose());
                    });
                    target = longer.ok_or_else(refuse)?;
                }
                _ => return Err(refuse()),
            }
        }
        Ok(Outgoing {
            method: built.method.clone(),
            target: target.into_bytes(),
            headers,
            body: built.body.clone(),
        })
    }

    pub(crate) fn line<'l>(
        &'l self,
        provider: &Provider,
        bound: &'l Bound,
        identity: Option<Identity>,
        mutates: bool,
        max_reply: u64,
    ) -> Line<'l> {
        let key = PoolKey {
            revision: provider.revision.0.clone(),
            binding: format!("{} {}", bound.name, bound.authority()),
            identity,
        };
        Line { connector: &self.connector, pool: &self.pool, key, bound, mutates, max_reply }
    }
}

/// Fresh copies for one request: each is wiped by its own last holder.
fn copies(put: &Put) -> Put {
    put.iter().map(|(place, secret)| (place.clone(), SecretBytes::copy_of(secret.expose()))).collect()
}

fn fill_put<'s>(
    call: &str,
    put: &[(Place, holdfast_manifest::Format)],
    value: &dyn Fn(&str) -> Option<&'s SecretBytes>,
) -> Result<Put, Refusal> {
    let filled = put.iter().map(|(place, format)| {
        let secret = slots::format(format, value);
        secret
            .map(|secret| (place.clone(), secret))
            .ok_or_else(|| broken(call, "a credential key is not deposited"))
    });
    filled.collect()
}

/// The credential values that authenticate each request.
fn used(auth: &Auth) -> Vec<&str> {
    match auth {
        Auth::Put { put } => put.iter().flat_map(|(_, format)| slots::holes(&format.0)).collect(),
        Auth::Sigv4(signed) => vec![&signed.id, &signed.secret],
        Auth::None | Auth::Session { .. } => Vec::new(),
    }
}

/// Does this status say that the credentials were looked at and taken? Overload and faults come before that.
fn proves(status: u16) -> bool {
    status < 500 && !matches!(status, 401 | 407 | 408 | 429)
}

fn set_wait(verdict: &mut Verdict, wait: Duration) {
    if let Verdict::Rejected(refusal) | Verdict::Unclear(refusal) = verdict {
        let wait = wait.as_millis() as u64;
        refusal.retry_after_ms = Some(refusal.retry_after_ms.map_or(wait, |asked| asked.max(wait)));
    }
}
