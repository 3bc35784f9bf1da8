//! AWS Signature Version 4 over a request that is complete: exactly what is sent is what is signed (attack 46).
//!
//! Scope and key names come from the manifest and the operator's binding, the payload's hash is always part of it, and
//! there is no signing of URLs. What holds the secret key or the session token lies in buffers that are wiped; the
//! derived keys lie inside `ring`.

use crate::errors::broken;
use crate::message::Refusal;
use crate::prepare::{Prepared, counts_of};
use crate::request::headers::{auth_name, secret_value, value};
use crate::request::path::percent;
use crate::secret::{SecretBytes, Sink, write_exactly};
use crate::transport::wire::Outgoing;
use data_encoding::HEXLOWER;
use holdfast_manifest::{Auth, Region};
use http::header::HeaderValue;
use jiff::Timestamp;
use ring::{digest, hmac};
use std::sync::atomic::Ordering;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";

/// Not signed: the library or a front end of the service may have its own view of them. The payload's hash already
/// speaks of the length.
const UNSIGNED: &[&str] = &["user-agent", "accept", "accept-encoding", "content-length"];

/// Whose signature, for which scope.
pub(crate) struct Signer<'s> {
    pub service: &'s str,
    pub region: &'s str,
    pub id: &'s SecretBytes,
    pub secret: &'s SecretBytes,
    pub session: Option<&'s SecretBytes>,
}

impl Prepared {
    /// Signs a complete request where the endpoint wants it; does nothing elsewhere.
    pub(crate) fn sign(&self, outgoing: &mut Outgoing) -> Result<(), Refusal> {
        let Auth::Sigv4(signed) = self.provider.auth(&self.bound)? else { return Ok(()) };
        let refuse = |why: &str| broken(&self.call, why);
        let credentials = self.credentials.as_deref().ok_or_else(|| refuse("no credentials were lent"))?;
        let key = |name: &str| {
            credentials
                .value(name)
                .ok_or_else(|| refuse("a credential key of the signature is not deposited"))
        };
        let region = match &signed.region {
            Region::Literal(region) => region,
            Region::Binding(var) => self
                .bound
                .vars
                .get(var)
                .ok_or_else(|| refuse("the binding does not give the signature's region"))?,
        };
        let signer = Signer {
            service: &signed.service,
            region,
            id: key(&signed.id)?,
            secret: key(&signed.secret)?,
            session: signed.session.as_deref().and_then(|name| credentials.value(name)),
        };
        sign(&signer, outgoing, Timestamp::now()).map_err(|why| refuse(&format!("the request {why}")))?;
        // The secret key itself goes nowhere.
        let sent: Vec<&str> =
            [Some(signed.id.as_str()), signed.session.as_deref()].into_iter().flatten().collect();
        for counts in counts_of(credentials, &sent) {
            counts.spliced.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Adds date, session token and signature. The error is half a sentence; nothing may be sent then.
pub(crate) fn sign(signer: &Signer<'_>, outgoing: &mut Outgoing, now: Timestamp) -> Result<(), String> {
    let id = signer.id.text().filter(|id| is_key_id(id)).ok_or("has an access key id that is none")?;
    if !is_region(signer.region) {
        return Err("has a region that is none".into());
    }
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = &date[..8];
    put(outgoing, DATE, value(&date))?;
    if let Some(session) = signer.session {
        put(outgoing, TOKEN, secret_value(SecretBytes::copy_of(session.expose())))?;
    }
    let headers = signed_headers(outgoing)?;
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let (path, query) = canonical_target(&outgoing.target)?;
    let payload = sha256_hex(&outgoing.body);
    let canonical = write_exactly(|out| {
        let line = |out: &mut dyn Sink, bytes: &[u8]| {
            out.put(bytes);
            out.put(b"\n");
        };
        line(out, outgoing.method.as_str().as_bytes());
        line(out, path.as_bytes());
        line(out, query.as_bytes());
        for (name, value) in &headers {
            out.put(name.as_bytes());
            out.put(b":");
            line(out, value.expose());
        }
        line(out, b"");
        line(out, names.as_bytes());
        out.put(payload.as_bytes());
    })
    .ok_or("could not be written for its signature")?;
    let scope = format!("{day}/{}/{}/aws4_request", signer.region, signer.service);
    let text = format!("{ALGORITHM}\n{date}\n{scope}\n{}", sha256_hex(canonical.expose()));
    let signature = HEXLOWER.encode(hmac::sign(&key(signer, day)?, text.as_bytes()).as_ref());
    let authorization = write_exactly(|out| {
        for part in [ALGORITHM, " Credential=", id, "/", &scope, ", SignedHeaders=", &names, ", Signature="] {
            out.put(part.as_bytes());
        }
        out.put(signature.as_bytes());
    });
    put(outgoing, "authorization", authorization.and_then(secret_value))
}

/// May this text be the region of a scope?
pub(crate) fn is_region(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Nothing in it may end its place in the header.
fn is_key_id(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

/// Adds a header; one that is there already is never replaced.
fn put(outgoing: &mut Outgoing, name: &str, value: Option<HeaderValue>) -> Result<(), String> {
    match (auth_name(name), value) {
        (Some(name), Some(value)) if !outgoing.headers.contains_key(&name) => {
            outgoing.headers.insert(name, value);
            Ok(())
        }
        _ => Err(format!("cannot carry `{name}` (attack 33)")),
    }
}

/// The key of the day, region and service.
fn key(signer: &Signer<'_>, day: &str) -> Result<hmac::Key, String> {
    let first = write_exactly(|out| {
        out.put(b"AWS4");
        out.put(signer.secret.expose());
    });
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.ok_or("could not be signed")?.expose());
    for part in [day, signer.region, signer.service, "aws4_request"] {
        key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
    }
    Ok(key)
}

/// Lower-case names in order; values without outer blanks and with single inner ones.
fn signed_headers(outgoing: &Outgoing) -> Result<Vec<(String, SecretBytes)>, String> {
    let mut headers = Vec::new();
    for name in outgoing.headers.keys().filter(|name| !UNSIGNED.contains(&name.as_str())) {
        let mut values = outgoing.headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(format!("has the header `{name}` twice"));
        };
        headers.push((name.as_str().to_owned(), squeezed(value.as_bytes())));
    }
    if !headers.iter().any(|(name, _)| name == "host") {
        return Err("has no host to sign".into());
    }
    headers.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(headers)
}

fn squeezed(value: &[u8]) -> SecretBytes {
    let words = || value.split(|b| *b == b' ').filter(|word| !word.is_empty());
    let written = write_exactly(|out| {
        for (index, word) in words().enumerate() {
            if index > 0 {
                out.put(b" ");
            }
            out.put(word);
        }
    });
    written.unwrap_or_else(|| SecretBytes::from(Vec::new()))
}

/// The path encoded once more, as services other than S3 want it, and the query in its one spelling and order.
fn canonical_target(target: &[u8]) -> Result<(String, String), String> {
    let target = std::str::from_utf8(target).map_err(|_| "has a target that is no text")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !path.starts_with('/') || path.split('/').any(|part| part == "." || part == "..") {
        return Err("has a path with relative parts".into());
    }
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(encoded).collect();
    let mut canonical = format!("/{}", parts.join("/"));
    if !parts.is_empty() && path.ends_with('/') {
        canonical.push('/');
    }
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((respelled(key)?, respelled(value)?));
    }
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok((canonical, pairs.join("&")))
}

fn encoded(text: &str) -> String {
    let bytes = write_exactly(|out| percent(out, text.as_bytes()));
    bytes.and_then(|bytes| bytes.text().map(str::to_owned)).unwrap_or_default()
}

/// A part of a query decoded and encoded again. `+` means a blank to some and itself to others, so it is refused.
fn respelled(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err("has a query with a broken escape".into());
                };
                bytes.push((high * 16 + low) as u8);
            }
            b'+' => return Err("has a `+` in its query, which has two meanings".into()),
            other => bytes.push(other),
        }
    }
    let out = write_exactly(|out| percent(out, &bytes));
    Ok(out.and_then(|out| out.text().map(str::to_owned)).unwrap_or_default())
}

fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
