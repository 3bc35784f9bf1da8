//! What an answer says about the load of a service: waits in all their forms, and what is left of a declared rate.
//!
//! Moments are read against the answer's own `Date`, so that a clock that goes wrong here or there does no harm (G09).

use holdfast_manifest::Endpoint;
use http::HeaderMap;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;
use std::time::Duration;

/// Longest wait that a service may ask for. The budget asks it every hour whether the wait still holds.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How an exchange went, for the budget of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// An ordinary answer.
    Fine,
    /// No answer in time, or one that tells of too much load.
    Overloaded,
    /// The service asks for fewer requests, for this long if it says so.
    Throttled(Option<Duration>),
    /// Says nothing about load: a lost connection, a fault.
    Unknown,
}

/// What is left of a declared rate, and when it is whole again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remaining {
    pub requests: u64,
    pub reset: Duration,
}

/// Reads one answer. `code` is what the manifest makes of it: a 403 may mean `throttled`.
pub(crate) fn heard(
    endpoint: &Endpoint,
    status: u16,
    headers: &HeaderMap,
    code: Option<&str>,
) -> (Load, Option<Remaining>) {
    let now = reference(headers);
    let remaining = remaining(endpoint, headers, now);
    let asked = asked(headers, now);
    let load = match status {
        _ if status == 429 || code == Some("throttled") => {
            let reset = remaining.filter(|left| left.requests == 0).map(|left| left.reset);
            Load::Throttled(asked.or(reset))
        }
        503 if asked.is_some() => Load::Throttled(asked),
        408 | 502..=504 => Load::Overloaded,
        500.. => Load::Unknown,
        _ => Load::Fine,
    };
    (load, remaining)
}

/// The wait that an answer asks for: `Retry-After` (RFC 9110 section 10.2.3, both forms), else the declared reset when
/// nothing remains.
pub(crate) fn wait(endpoint: &Endpoint, headers: &HeaderMap) -> Option<Duration> {
    let now = reference(headers);
    let reset = || remaining(endpoint, headers, now).filter(|left| left.requests == 0).map(|left| left.reset);
    asked(headers, now).or_else(reset)
}

fn asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    match value.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds).min(LONGEST)),
        Err(_) => date(value).map(|then| until(now, then)),
    }
}

fn remaining(endpoint: &Endpoint, headers: &HeaderMap, now: Timestamp) -> Option<Remaining> {
    let throttle = endpoint.throttle.as_ref()?;
    let requests = text(headers, &throttle.remaining)?.parse().ok()?;
    let reset = moment(text(headers, &throttle.reset)?, now)?;
    Some(Remaining { requests, reset })
}

/// Seconds from now, seconds or milliseconds since 1970, or a date.
fn moment(value: &str, now: Timestamp) -> Option<Duration> {
    let Ok(number) = value.parse::<f64>() else {
        return date(value).or_else(|| value.parse().ok()).map(|then| until(now, then));
    };
    match number {
        0.0..1e9 => Some(Duration::from_secs_f64(number).min(LONGEST)),
        1e9..1e12 => Some(until(now, Timestamp::from_millisecond((number * 1e3) as i64).ok()?)),
        1e12..1e15 => Some(until(now, Timestamp::from_millisecond(number as i64).ok()?)),
        _ => None,
    }
}

/// The moment of the answer: its own `Date`, else this host's clock.
fn reference(headers: &HeaderMap) -> Timestamp {
    text(headers, "date").and_then(date).unwrap_or_else(Timestamp::now)
}

/// The three forms of RFC 9110 section 5.6.7.
fn date(value: &str) -> Option<Timestamp> {
    if let Ok(then) = rfc2822::DateTimeParser::new().parse_timestamp(value) {
        return Some(then);
    }
    let old = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let civil: DateTime = old.iter().find_map(|form| strtime::parse(form, value).ok()?.to_datetime().ok())?;
    civil.to_zoned(TimeZone::UTC).ok().map(|then| then.timestamp())
}

/// What is past is no wait.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    let wait = then.as_millisecond().saturating_sub(now.as_millisecond());
    Duration::from_millis(u64::try_from(wait).unwrap_or(0)).min(LONGEST)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kit::endpoint;
    use holdfast_manifest::Throttle;

    const DATE: (&str, &str) = ("date", "Fri, 02 Jan 2026 03:04:05 GMT");

    fn throttled() -> Endpoint {
        let throttle = Throttle { remaining: "x-left".into(), reset: "x-reset".into() };
        Endpoint { throttle: Some(throttle), ..endpoint() }
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_all_date_forms_against_the_answers_own_clock_g09() {
        let cases = [
            ("7", Some(7)),
            ("0", Some(0)),
            ("Fri, 02 Jan 2026 03:04:35 GMT", Some(30)),
            ("Friday, 02-Jan-26 03:04:35 GMT", Some(30)),
            ("Fri Jan  2 03:04:35 2026", Some(30)),
            // The past is no wait, and an hour is longer than any backoff of ours and honoured all the same.
            ("Thu, 01 Jan 2026 03:04:35 GMT", Some(0)),
            ("3600", Some(3600)),
            ("99999999999", Some(86_400)),
            ("soon", None),
            ("-1", None),
        ];
        for (value, seconds) in cases {
            let heard = wait(&endpoint(), &headers(&[DATE, ("retry-after", value)]));
            assert_eq!(heard, seconds.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn a_reset_is_read_in_seconds_epoch_seconds_and_dates_g01() {
        let cases = [
            ("12", Some(12_000)),
            ("0.5", Some(500)),
            ("1767323105", Some(60_000)),
            ("1767323105000", Some(60_000)),
            ("Fri, 02 Jan 2026 03:05:05 GMT", Some(60_000)),
            ("2026-01-02T03:05:05Z", Some(60_000)),
            ("1767323000", Some(0)),
            ("NaN", None),
            ("-4", None),
            ("later", None),
        ];
        for (value, millis) in cases {
            let left = [DATE, ("x-left", "0"), ("x-reset", value)];
            assert_eq!(wait(&throttled(), &headers(&left)), millis.map(Duration::from_millis), "{value}");
        }
        assert_eq!(wait(&throttled(), &headers(&[DATE, ("x-left", "5"), ("x-reset", "12")])), None);
        let both = [DATE, ("x-left", "0"), ("x-reset", "12"), ("retry-after", "3")];
        assert_eq!(
            wait(&throttled(), &headers(&both)),
            Some(Duration::from_secs(3)),
            "the express word first"
        );
    }

    #[test]
    fn an_answer_without_a_date_is_read_by_this_hosts_clock() {
        let then = Timestamp::now() + jiff::SignedDuration::from_hours(2);
        let value = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&then).unwrap();
        let heard = wait(&endpoint(), &headers(&[("retry-after", &value)])).unwrap();
        assert!(heard > Duration::from_secs(3600) && heard <= Duration::from_secs(7200), "{heard:?}");
    }

    #[test]
    fn what_an_answer_says_about_load_is_its_status_the_manifests_word_and_its_headers_g08() {
        let load =
            |status, pairs: &[(&str, &str)], code| heard(&throttled(), status, &headers(pairs), code).0;
        let five = Some(Duration::from_secs(5));
        assert_eq!(load(200, &[("retry-after", "5")], None), Load::Fine, "a hint when to poll");
        assert_eq!(load(404, &[], Some("not-found")), Load::Fine);
        assert_eq!(load(429, &[("retry-after", "5")], None), Load::Throttled(five));
        assert_eq!(load(429, &[], None), Load::Throttled(None));
        assert_eq!(load(429, &[("x-left", "0"), ("x-reset", "5")], None), Load::Throttled(five));
        assert_eq!(load(403, &[("retry-after", "5")], Some("throttled")), Load::Throttled(five));
        assert_eq!(load(403, &[("retry-after", "5")], Some("permission-denied")), Load::Fine);
        assert_eq!(load(503, &[("retry-after", "5")], None), Load::Throttled(five));
        assert_eq!(load(503, &[], None), Load::Overloaded);
        assert_eq!(load(504, &[], None), Load::Overloaded);
        assert_eq!(load(500, &[], None), Load::Unknown);
    }
}
