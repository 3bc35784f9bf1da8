//! Eventual consistency of one resource: from when reads by id and lists show what was made, and how long they go on
//! showing what is gone.

use crate::behaviour::Visibility;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    /// When it can be read by its id, and listed, at the earliest.
    seen_from: i64,
    listed_from: i64,
    /// Reads that must still fail before it is seen.
    hidden_reads: u64,
    hidden_lists: u64,
}

impl Sight {
    /// Of something made now.
    pub fn new(lag: &Visibility, now: i64) -> Sight {
        Sight {
            seen_from: now.saturating_add_unsigned(lag.get_ms),
            listed_from: now.saturating_add_unsigned(lag.list_ms),
            hidden_reads: lag.get_reads,
            hidden_lists: lag.list_reads,
        }
    }

    /// Whether it cannot be read yet; counts the attempt.
    pub fn is_hidden(&mut self, now: i64) -> bool {
        let hidden = now < self.seen_from || self.hidden_reads > 0;
        self.hidden_reads = self.hidden_reads.saturating_sub(1);
        hidden
    }

    /// Whether a list shows it; counts the attempt. A list never shows what a read would not.
    pub fn is_listed(&mut self, now: i64) -> bool {
        if self.is_hidden(now) {
            return false;
        }
        let listed = now >= self.listed_from && self.hidden_lists == 0;
        self.hidden_lists = self.hidden_lists.saturating_sub(1);
        listed
    }
}

/// Whether a read does not show any more what is gone since then.
pub(crate) fn is_over(gone_ms: Option<i64>, lag_ms: u64, now: i64) -> bool {
    gone_ms.is_some_and(|gone| now >= gone.saturating_add_unsigned(lag_ms))
}
