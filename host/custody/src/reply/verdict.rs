//! What an answer means (section 6 and the journal's rules): nothing happened, not there, unclear, or fits.

use super::project::{Misfit, Source, text_at};
use crate::budget::signal;
use crate::errors::refusal;
use crate::message::Verdict;
use holdfast_manifest::{Call, Class, Endpoint, ReplyKind, is_word};
use http::HeaderMap;
use jiff::Timestamp;

/// The service's error word: the first place that holds a word.
pub(crate) fn error_word(endpoint: &Endpoint, source: &Source<'_>) -> Option<String> {
    endpoint.error_code.iter().find_map(|place| text_at(place, source).filter(|word| is_word(word)))
}

/// The verdict of an answer that is not plain success; `None` goes on to projection.
pub(crate) fn of_status(
    call: &Call,
    endpoint: &Endpoint,
    status: u16,
    word: Option<&str>,
    headers: &HeaderMap,
) -> Option<Verdict> {
    let (code, unclear) = match call.classify(status, word) {
        Class::Plain => return None,
        Class::Gone => return Some(Verdict::Gone { status }),
        Class::Rejected(code) => (code, false),
        Class::Unclear(code) => (code, true),
    };
    let native = word.filter(|word| call.answers.lists(word)).map(str::to_owned);
    let message = match &native {
        Some(word) => format!("call `{}`: the service answered {status} {word}", call.name),
        None => format!("call `{}`: the service answered {status}", call.name),
    };
    let mut refusal = refusal(&code, reason(&code), message);
    refusal.native = native;
    refusal.retry_after_ms = retry_after(endpoint, headers);
    Some(if unclear { Verdict::Unclear(refusal) } else { Verdict::Rejected(refusal) })
}

/// A reply that does not fit its declaration: in doubt on a mutation (hole H5), refused on a read.
pub(crate) fn unfit(call: &Call, misfit: &Misfit) -> Verdict {
    let message = format!(
        "call `{}`: the reply does not fit its declaration: `{}` is {}; see fields.{} of the manifest",
        call.name, misfit.field, misfit.found, misfit.field
    );
    let refusal = refusal("internal", "ReplyDoesNotFit", message);
    if call.effect.mutates() { Verdict::Unclear(refusal) } else { Verdict::Rejected(refusal) }
}

/// Unfit as a whole: too long, compressed, not JSON.
pub(crate) fn unfit_whole(call: &Call, what: &str) -> Verdict {
    let message = format!("call `{}`: the reply does not fit its declaration: it is {what}", call.name);
    let refusal = refusal("internal", "ReplyDoesNotFit", message);
    if call.effect.mutates() { Verdict::Unclear(refusal) } else { Verdict::Rejected(refusal) }
}

/// No whole answer came.
pub(crate) fn lost(call: &Call, sent: bool, what: &str) -> Verdict {
    let refusal = refusal("unavailable", "Unreachable", format!("call `{}`: {what}", call.name));
    if sent { Verdict::Unclear(refusal) } else { Verdict::Rejected(refusal) }
}

/// The contract's code as a CamelCase reason.
pub(crate) fn reason(code: &str) -> &'static str {
    match code {
        "not-found" => "NotFound",
        "already-exists" => "AlreadyExists",
        "invalid-input" => "InvalidInput",
        "unsupported" => "Unsupported",
        "capacity-exhausted" => "CapacityExhausted",
        "quota-exceeded" => "QuotaExceeded",
        "throttled" => "Throttled",
        "unauthenticated" => "Unauthenticated",
        "permission-denied" => "PermissionDenied",
        "conflict" => "Conflict",
        "unavailable" => "Unavailable",
        "multiple-matches" => "MultipleMatches",
        "dependency" => "Dependency",
        "canceled" => "Canceled",
        "internal" => "Internal",
        _ => "Refused",
    }
}

const CLOCK_SKEW: &str = "ClockSkew";
/// Words by which services say that a signature's time is not theirs.
const TIME_WORDS: &[&str] = &["RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"];
/// Words that also a wrong key has; no word at all is one of them.
const SIGNATURE_WORDS: &[&str] = &["SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"];
/// Seconds of difference that services take; the strictest takes five minutes.
const SKEW: i64 = 300;

/// The refusal of a signed request that was refused for its time: nothing happened, and this host's clock is to be set.
/// The service's own `Date` is told to the operator and never signed with: who answers must not choose a time for which
/// a signature is good.
pub(crate) fn clock_skew(
    call: &Call,
    status: u16,
    word: Option<&str>,
    headers: &HeaderMap,
    now: Timestamp,
) -> Option<Verdict> {
    let date = headers.get("date").and_then(|value| value.to_str().ok());
    let theirs = date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let apart = theirs.map(|theirs| theirs.as_second().saturating_sub(now.as_second()));
    let told = word.is_some_and(|word| TIME_WORDS.contains(&word));
    let unsigned = matches!(status, 401 | 403) && word.is_none_or(|word| SIGNATURE_WORDS.contains(&word));
    let far = apart.is_some_and(|apart| apart.saturating_abs() > SKEW);
    if !(400..500).contains(&status) || !(told || (unsigned && far)) {
        return None;
    }
    let apart = match apart.filter(|_| far) {
        Some(apart) => format!("its clock is {apart} s from this host's"),
        None => "it found the signature's time too far from its own".to_owned(),
    };
    let message = format!(
        "call `{}`: the service refused the signature of the request, and {apart}; set this host's clock",
        call.name
    );
    Some(Verdict::Rejected(refusal("unavailable", CLOCK_SKEW, message)))
}

pub(crate) fn is_clock_skew(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Rejected(refusal) if refusal.reason == CLOCK_SKEW)
}

/// Why a body of the call's kind can't be read. `fits`: the content type does.
pub(crate) fn unfit_body(kind: ReplyKind, fits: bool) -> &'static str {
    match (kind, fits) {
        (ReplyKind::Xml, true) => "not one XML document of plain elements",
        (ReplyKind::Xml, false) => "not declared as XML",
        (_, true) => "not one JSON document without duplicate keys",
        (_, false) => "not declared as JSON",
    }
}

/// The wait that the service asks for, in milliseconds.
pub(crate) fn retry_after(endpoint: &Endpoint, headers: &HeaderMap) -> Option<u64> {
    signal::wait(endpoint, headers).and_then(|wait| u64::try_from(wait.as_millis()).ok())
}
