//! The clock that objects are stamped by.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time for `creationTimestamp` and `deletionTimestamp`, by default that of the machine. Whoever lives by
/// another clock gives the same one here, or ages and deadlines of objects are counted by two.
#[derive(Clone)]
pub struct Stamps(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Stamps {
    /// Stamps by a clock of one's own.
    pub fn by(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    /// The present time as Kubernetes writes it: whole seconds, UTC.
    pub(crate) fn now(&self) -> String {
        let now = (self.0)();
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }
}

impl Default for Stamps {
    fn default() -> Self {
        Self::by(Timestamp::now)
    }
}

impl fmt::Debug for Stamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stamps")
    }
}
