//! Judging one answer: captured first, then classified, projected, scanned, and put to its pages.

use crate::custody::Inner;
use crate::message::Verdict;
use crate::prepare::{Prepared, texts_of};
use crate::reply::capture::{CAPTURE_MAX, capture};
use crate::reply::document::{announced, parse_as};
use crate::reply::evidence;
use crate::reply::pages::{Collector, Next};
use crate::reply::project::{Misfit, Source, body_is_optional, project, text_class};
use crate::reply::verdict;
use crate::scan::live::Counts;
use crate::scan::{FLOOR, Kind};
use crate::seal::{SealScope, resolve};
use crate::secret::SecretBytes;
use crate::transport::wire::Raw;
use holdfast_manifest::{Auth, Call, Endpoint, ReplyKind};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What one answer came to.
pub(crate) enum Judged {
    Verdict(Verdict),
    Fits(Map<String, Value>),
    Page(String),
}

/// A captured value under [`FLOOR`] bytes and where its catches are counted.
type Short<'c> = (Arc<Counts>, &'c SecretBytes);

impl Inner {
    /// Captures, classifies, projects, scans.
    pub(crate) fn judge(
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
        let body = |kind| parse_as(kind, raw.body.as_slice(), &endpoint.xmlns);
        let announced = announced(&raw.headers);
        let fits = announced == Some(call.reply);
        // A capture is looked for whatever the type says: a type that lies must not hide a secret (attack 47).
        let doc = if fits || !call.captures.is_empty() { body(call.reply) } else { None };
        let source = Source { headers: &raw.headers, body: doc.as_ref() };
        let live = self.live(prepared.provider.name());
        let captured = capture(&call.captures, &source);
        // Too short to tell from a word, or too long to be a secret: neither may enter the live set that all machines
        // of the provider share (attack 47).
        let (mut short, mut long) = (Vec::new(), None);
        for (name, values) in &captured.values {
            let counts = self.vault().counts(format!("captured {}.{name}", call.name));
            for value in values {
                match value.len() {
                    ..FLOOR => short.push((counts.clone(), value)),
                    FLOOR..=CAPTURE_MAX => {
                        live.retire(live.watch(&counts, Kind::Value, value, ""), self.grace);
                    }
                    length => long = Some((name, length)),
                }
            }
        }
        if let Some((name, length)) = long {
            let misfit = Misfit { field: format!("captures.{name}"), found: text_class(length) };
            return Judged::Verdict(verdict::unfit(call, &misfit));
        }
        let doc = doc.filter(|_| fits);
        // An error's document may be of another kind than the call's own reply.
        let other = announced.filter(|_| !fits).and_then(body);
        let source = Source { headers: &raw.headers, body: doc.as_ref().or(other.as_ref()) };
        let word = verdict::error_word(endpoint, &source);
        let signed = matches!(prepared.provider.auth(&prepared.bound), Ok(Auth::Sigv4(_)));
        let skew = || verdict::clock_skew(call, raw.status, word.as_deref(), &raw.headers, Timestamp::now());
        if let Some(verdict) = signed.then(skew).flatten() {
            return Judged::Verdict(verdict);
        }
        if let Some(verdict) = verdict::of_status(call, endpoint, raw.status, word.as_deref(), &raw.headers) {
            return Judged::Verdict(verdict);
        }
        if let Some(name) = captured.missing.first() {
            let misfit = Misfit { field: format!("captures.{name}"), found: "nothing".into() };
            return Judged::Verdict(verdict::unfit(call, &misfit));
        }
        let empty = raw.body.as_slice().is_empty();
        if call.reply != ReplyKind::None && doc.is_none() && !(empty && body_is_optional(&call.fields)) {
            let what = if empty { "empty" } else { verdict::unfit_body(call.reply, fits) };
            return Judged::Verdict(verdict::unfit_whole(call, what));
        }
        let source = Source { headers: &raw.headers, body: doc.as_ref() };
        let seal =
            |field: &str, within: Option<&str>, text: &str| self.seal(prepared, field, within, base, text);
        let fields = match project(&call.fields, &source, &seal, self.defences.grammar) {
            Ok(fields) => fields,
            Err(misfit) => return Judged::Verdict(verdict::unfit(call, &misfit)),
        };
        if let Some(misfit) = evidence::missing(call, &prepared.args, &fields) {
            return Judged::Verdict(verdict::unfit(call, &misfit));
        }
        if let Some(misfit) = self.leak(prepared.provider.name(), &fields, &short) {
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
    /// reply together, so that slices in a row are found (attack 12). The `short` captures of this very reply are
    /// compared with whole texts only.
    fn leak(&self, provider: &str, fields: &Map<String, Value>, short: &[Short<'_>]) -> Option<Misfit> {
        if !self.defences.scan {
            return None;
        }
        let live = self.live(provider);
        let mut joined = String::new();
        for (name, value) in fields {
            if let Some((counts, _)) = short.iter().find(|(_, secret)| repeats(value, secret)) {
                counts.caught.fetch_add(1, Ordering::Relaxed);
                return Some(leaf(name, value));
            }
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
}

/// Is some whole text or number of the value the secret?
fn repeats(value: &Value, secret: &SecretBytes) -> bool {
    match value {
        Value::String(text) => text.as_bytes() == secret.expose(),
        Value::Number(number) => number.to_string().as_bytes() == secret.expose(),
        Value::Array(list) => list.iter().any(|value| repeats(value, secret)),
        Value::Object(map) => map.values().any(|value| repeats(value, secret)),
        Value::Null | Value::Bool(_) => false,
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
