//! Sending a prepared request: authenticate, send, judge, page; one new login where a cached session went stale.

use crate::custody::Inner;
use crate::errors::broken;
use crate::message::{Answer, CredentialsId, Refusal, Reply, Verdict};
use crate::prepare::{Prepared, counts_of, texts_of};
use crate::registry::{Bound, Provider};
use crate::reply::capture::capture;
use crate::reply::document::parse;
use crate::reply::pages::{Collector, Next};
use crate::reply::project::{Misfit, Source, body_is_optional, project, text_class};
use crate::reply::verdict;
use crate::request::build::{Built, Draft, build};
use crate::request::headers::{auth_name, secret_value};
use crate::request::path::percent;
use crate::request::slots;
use crate::scan::Kind;
use crate::seal::{SealScope, resolve};
use crate::secret::{SecretBytes, write_exactly};
use crate::session::held_back;
use crate::transport::pool::PoolKey;
use crate::transport::wire::{Left, Line, Outgoing, Raw};
use holdfast_manifest::{Auth, Call, Endpoint, Place, ReplyKind};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// What one answer came to.
enum Judged {
    Verdict(Verdict),
    Fits(Map<String, Value>),
    Page(String),
}

/// What authentication adds: places and formatted secrets.
type Put = Vec<(Place, SecretBytes)>;

impl Inner {
    pub(crate) async fn send(self: &Arc<Self>, prepared: Prepared) -> Answer {
        let left = Left::default();
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
            Auth::Put { .. } => self.with_credentials(prepared, left).await,
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
        let key = (prepared.bound.name.clone(), credentials.account.clone());
        let permit = self.breakers.enter(key, credentials.digest).await;
        let permit = permit.map_err(|wait| held_back(&prepared.call, wait))?;
        let Auth::Put { put } = prepared.provider.auth(&prepared.bound)? else {
            return Err(broken(&prepared.call, "the endpoint's authentication changed"));
        };
        let put = fill_put(&prepared.call, put, &|name| credentials.value(name))?;
        let (mut verdict, status) = self.attempt(prepared, &put, left).await?;
        match status {
            Some(401) => set_wait(&mut verdict, permit.refused()),
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
        let key = (format!("{} with a session", prepared.bound.name), credentials.account.clone());
        let permit = self.breakers.enter(key, credentials.digest).await;
        let permit = permit.map_err(|wait| held_back(&prepared.call, wait))?;
        let mut again = true;
        loop {
            let (session, cached) = self.session(prepared).await?;
            let Auth::Session { put, .. } = prepared.provider.auth(&prepared.bound)? else {
                return Err(broken(&prepared.call, "the endpoint's authentication changed"));
            };
            let put = fill_put(&prepared.call, put, &|name| session.value(name))?;
            let (mut verdict, status) = self.attempt(prepared, &put, left).await?;
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
        let id = prepared.credentials.as_ref().map(|credentials| credentials.id);
        let line = self.line(&prepared.provider, &prepared.bound, id, call.effect.mutates(), call.max_reply);
        let mut collector = call.pages.as_ref().map(Collector::new);
        let mut page: Option<Built> = None;
        loop {
            let built = page.as_ref().unwrap_or(&prepared.built);
            let outgoing = self.outgoing(&call.name, built, copies(put))?;
            let raw = match line.exchange(&outgoing, left).await {
                Ok(raw) => raw,
                Err(lost) => return Ok((verdict::lost(call, left.open(), &lost.0), None)),
            };
            let status = raw.status;
            match self.judge(prepared, call, endpoint, &raw, &built.path, collector.as_mut()) {
                Judged::Verdict(verdict) => return Ok((verdict, Some(status))),
                Judged::Fits(fields) => {
                    let fields = collector.map_or(fields, Collector::finish);
                    return Ok((Verdict::Fits(Reply { status, fields }), Some(status)));
                }
                Judged::Page(token) => page = Some(self.next_page(prepared, call, endpoint, built, &token)?),
            }
        }
    }

    /// Captures, classifies, projects, scans.
    fn judge(
        &self,
        prepared: &Prepared,
        call: &Call,
        endpoint: &Endpoint,
        raw: &Raw,
        base: &str,
        collector: Option<&mut Collector<'_>>,
    ) -> Judged {
        if let Some(what) = raw.unusable {
            return Judged::Verdict(verdict::unfit_whole(call, what));
        }
        let json = is_json(&raw.headers);
        // A capture is looked for whatever the type says: a type that lies must not hide a secret (attack 47).
        let doc = if json || !call.captures.is_empty() { parse(raw.body.as_slice()) } else { None };
        let source = Source { headers: &raw.headers, body: doc.as_ref() };
        let live = self.live(prepared.provider.name());
        let captured = capture(&call.captures, &source);
        for (name, values) in &captured.values {
            let counts = self.vault().counts(format!("captured {}.{name}", call.name));
            for value in values {
                live.retire(live.watch(&counts, Kind::Value, value, ""), self.grace);
            }
        }
        let doc = doc.filter(|_| json);
        let source = Source { headers: &raw.headers, body: doc.as_ref() };
        let word = verdict::error_word(endpoint, &source);
        if let Some(verdict) = verdict::of_status(call, endpoint, raw.status, word.as_deref(), &raw.headers) {
            return Judged::Verdict(verdict);
        }
        if let Some(name) = captured.missing.first() {
            let misfit = Misfit { field: format!("captures.{name}"), found: "nothing".into() };
            return Judged::Verdict(verdict::unfit(call, &misfit));
        }
        let empty = raw.body.as_slice().is_empty();
        if call.reply == ReplyKind::Json && doc.is_none() && !(empty && body_is_optional(&call.fields)) {
            let what =
                if json { "not one JSON document without duplicate keys" } else { "not declared as JSON" };
            return Judged::Verdict(verdict::unfit_whole(call, if empty { "empty" } else { what }));
        }
        let body = if call.reply == ReplyKind::Json { doc.as_ref() } else { None };
        let source = Source { headers: &raw.headers, body };
        let seal =
            |field: &str, within: Option<&str>, text: &str| self.seal(prepared, field, within, base, text);
        let fields = match project(&call.fields, &source, &seal, self.defences.grammar) {
            Ok(fields) => fields,
            Err(misfit) => return Judged::Verdict(verdict::unfit(call, &misfit)),
        };
        if let Some(misfit) = self.leak(prepared.provider.name(), &fields) {
            return Judged::Verdict(verdict::unfit(call, &misfit));
        }
        let Some(collector) = collector else { return Judged::Fits(fields) };
        match collector.add(fields, &source) {
            Ok(Next::Done) => Judged::Fits(Map::new()),
            Ok(Next::Ask(token)) => Judged::Page(token),
            Err(what) => {
                let misfit = Misfit { field: "pages".into(), found: what.into() };
                Judged::Verdict(verdict::unfit(call, &misfit))
            }
        }
    }

    /// The first text that holds a live secret, told like a misfit (attack 15); also all texts of a field and of the
    /// reply together, so that slices in a row are found (attack 12).
    fn leak(&self, provider: &str, fields: &Map<String, Value>) -> Option<Misfit> {
        if !self.defences.scan {
            return None;
        }
        let live = self.live(provider);
        let mut joined = String::new();
        for (name, value) in fields {
            let text = texts_of(value);
            if live.holds_secret(&text) {
                return Some(leaf(name, value));
            }
            joined.push_str(&text);
        }
        if fields.len() > 1 && live.holds_secret(&joined) {
            return fields.iter().next().map(|(name, value)| leaf(name, value));
        }
        None
    }

    /// Seals a field's text; a URL is checked when sealed and again when used.
    fn seal(
        &self,
        prepared: &Prepared,
        field: &str,
        within: Option<&str>,
        base: &str,
        text: &str,
    ) -> Option<String> {
        let bound = &prepared.bound;
        if within.is_some() {
            resolve(&bound.origin, base, text, &bound.aliases, within)?;
        }
        let field = format!("{}.{field}", prepared.call);
        let scope = SealScope {
            provider: &prepared.scope.provider,
            owner: &prepared.scope.owner,
            binding: &bound.name,
            field: &field,
        };
        self.sealer.seal(&scope, base, text)
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
        credentials: Option<CredentialsId>,
        mutates: bool,
        max_reply: u64,
    ) -> Line<'l> {
        let key = PoolKey {
            revision: provider.revision.0.clone(),
            binding: format!("{} {}", bound.name, bound.authority()),
            credentials: credentials.map_or(0, |id| id.0),
        };
        Line { connector: &self.connector, pool: &self.pool, key, bound, mutates, max_reply }
    }
}

/// A leaking value as the misfit that it could also be: its first text's length class.
fn leaf(path: &str, value: &Value) -> Misfit {
    match value {
        Value::String(text) => Misfit { field: path.to_owned(), found: text_class(text.len()) },
        Value::Array(list) => {
            list.first().map_or_else(|| leaf(path, &Value::Null), |first| leaf(path, first))
        }
        Value::Object(map) => match map.iter().next() {
            Some((name, first)) => leaf(&format!("{path}/{name}"), first),
            None => leaf(path, &Value::Null),
        },
        _ => Misfit { field: path.to_owned(), found: "a number".to_owned() },
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

/// `application/json` or `…+json`, once.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(text) = value.to_str() else { return false };
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}
