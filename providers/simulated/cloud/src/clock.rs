//! The cloud's clock: the machine's own time, shifted or frozen on request.
//! Everything that takes time here (actions, lags, windows, lifetimes) is worked out from this clock when it is
//! looked at, so a frozen clock that is moved by hand makes every wait exact.

use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use serde::{Deserialize, Serialize};

/// Body of `POST /_sim/clock`; every member is optional and they are applied in this order.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockChange {
    /// Stop (`true`) or restart (`false`) the clock where it stands.
    pub freeze: Option<bool>,
    /// Move forward by so many milliseconds; works on a frozen and on a running clock.
    pub advance_ms: Option<u64>,
}

/// Milliseconds since the Unix epoch, as the cloud sees them.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    shift_ms: i64,
    frozen_at: Option<i64>,
}

impl Clock {
    pub fn now(&self) -> i64 {
        self.frozen_at.unwrap_or_else(|| wall() + self.shift_ms)
    }

    pub fn change(&mut self, change: ClockChange) {
        match (change.freeze, self.frozen_at) {
            (Some(true), None) => self.frozen_at = Some(self.now()),
            (Some(false), Some(at)) => {
                self.shift_ms = at - wall();
                self.frozen_at = None;
            }
            _ => {}
        }
        let by = i64::try_from(change.advance_ms.unwrap_or(0)).unwrap_or(i64::MAX / 4);
        match &mut self.frozen_at {
            Some(at) => *at += by,
            None => self.shift_ms += by,
        }
    }
}

fn wall() -> i64 {
    Timestamp::now().as_millisecond()
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

/// RFC 3339, as in `created_at`.
pub(crate) fn rfc3339(ms: i64) -> String {
    timestamp(ms).to_string()
}

/// RFC 9110 section 5.6.7, as in `Date` and in `Retry-After`.
pub(crate) fn http_date(ms: i64) -> String {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp(ms)).unwrap_or_default()
}
