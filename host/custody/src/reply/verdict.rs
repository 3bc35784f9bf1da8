//! What an answer means (section 6 and the journal's rules): nothing happened, not there, unclear, or fits.

use super::project::{Misfit, Source, text_at};
use crate::errors::refusal;
use crate::message::Verdict;
use holdfast_manifest::{Call, Class, Endpoint, is_word};
use http::HeaderMap;
use jiff::Timestamp;

/// Longest wait that a service may ask for; one day.
const RETRY_MAX_MS: u64 = 86_400_000;

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
    refusal.retry_after_ms = retry_after(endpoint, headers, Timestamp::now());
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

/// `Retry-After` (RFC 9110 section 10.2.3, both forms), else the declared throttle headers when nothing remains.
pub(crate) fn retry_after(endpoint: &Endpoint, headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(value) = text("retry-after") {
        if let Ok(seconds) = value.parse::<u64>() {
            return Some(seconds.saturating_mul(1000).min(RETRY_MAX_MS));
        }
        let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        return Some(until(now, date.as_millisecond()));
    }
    let throttle = endpoint.throttle.as_ref()?;
    if text(&throttle.remaining)?.parse::<u64>().ok()? > 0 {
        return None;
    }
    let reset = text(&throttle.reset)?.parse::<i64>().ok()?;
    // A small number is a wait, a large one a moment since 1970.
    if reset < 1_000_000_000 {
        return Some(u64::try_from(reset).ok()?.saturating_mul(1000).min(RETRY_MAX_MS));
    }
    Some(until(now, reset.saturating_mul(1000)))
}

fn until(now: Timestamp, then_ms: i64) -> u64 {
    u64::try_from(then_ms.saturating_sub(now.as_millisecond())).unwrap_or(0).min(RETRY_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kit::endpoint;
    use holdfast_manifest::Throttle;

    #[test]
    fn waits_are_read_from_seconds_dates_and_throttle_headers() {
        let mut endpoint = endpoint();
        endpoint.throttle = Some(Throttle { remaining: "x-left".into(), reset: "x-reset".into() });
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        type Case<'c> = (&'c [(&'c str, &'c str)], Option<u64>);
        let cases: [Case<'_>; 7] = [
            (&[("retry-after", "7")], Some(7000)),
            (&[("retry-after", "Fri, 02 Jan 2026 03:04:35 GMT")], Some(30_000)),
            (&[("retry-after", "99999999999")], Some(RETRY_MAX_MS)),
            (&[("x-left", "0"), ("x-reset", "12")], Some(12_000)),
            (&[("x-left", "0"), ("x-reset", "1767323105")], Some(60_000)),
            (&[("x-left", "5"), ("x-reset", "12")], None),
            (&[], None),
        ];
        for (pairs, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers
                    .insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            assert_eq!(retry_after(&endpoint, &headers, now), expected, "{pairs:?}");
        }
    }
}
