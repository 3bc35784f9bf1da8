//! Backoff (architecture, Decisions): 5 s doubling to 5 min, with jitter that is a pure function of who waits, so
//! that many operations that failed together don't come back together and a test knows the answer.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// First wait.
pub const FIRST: Duration = Duration::from_secs(5);
/// Longest wait.
pub const LONGEST: Duration = Duration::from_secs(300);
/// A provider's wish for the next call is clamped to this range (X.2 rule 6).
pub const GUEST_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// The wait after the `failures`th failure in a row, counted from 1: between 80 % and 100 % of 5 s × 2ⁿ⁻¹, at most
/// 5 min.
pub fn after(failures: u32, who: &str) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let mut hasher = DefaultHasher::new();
    (who, failures).hash(&mut hasher);
    let fifth = full.as_millis() as u64 / 5;
    full - Duration::from_millis(hasher.finish() % (fifth + 1))
}

/// A provider's wish in milliseconds, clamped; none and 0 mean `default`.
pub fn wish(millis: Option<u64>, default: Duration) -> Duration {
    match millis {
        None | Some(0) => default,
        Some(millis) => Duration::from_millis(millis).clamp(GUEST_RANGE.0, GUEST_RANGE.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_five_seconds_to_five_minutes_less_a_fifth_at_most() {
        for (failures, seconds) in [(0, 5), (1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (1000, 300)] {
            for who in ["a", "b", "c", "d"] {
                let wait = after(failures, who);
                let full = Duration::from_secs(seconds);
                assert!(wait <= full && wait >= full.mul_f64(0.8), "{failures} {who}: {wait:?}");
            }
        }
    }

    #[test]
    fn those_who_fail_together_do_not_come_back_together() {
        let waits: std::collections::BTreeSet<_> = (0..20).map(|i| after(4, &format!("op-{i}"))).collect();
        assert!(waits.len() > 10);
        assert_eq!(after(4, "op-1"), after(4, "op-1"));
    }

    /// Edge case 3 of 2(e): 0 means the default, absurd values are clamped.
    #[test]
    fn a_providers_wish_is_clamped() {
        let default = Duration::from_secs(15);
        assert_eq!(wish(None, default), default);
        assert_eq!(wish(Some(0), default), default);
        assert_eq!(wish(Some(1), default), Duration::from_secs(1));
        assert_eq!(wish(Some(7_000), default), Duration::from_secs(7));
        assert_eq!(wish(Some(u64::MAX), default), Duration::from_secs(600));
    }
}
