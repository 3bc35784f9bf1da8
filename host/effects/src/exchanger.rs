//! What effects needs from the room below it: prepare, send, scan, keyed hashes.
//!
//! [`Exchanger`] is implemented by custody. It is a trait so that the rules of the journal can be tested against a
//! service that loses answers on command, without a socket.

use holdfast_custody::{Answer, Custody, Exchange, Leak, Place, Prepared, Refusal, Verdict};
use jiff::Timestamp;
use std::any::Any;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A checked request that was not sent yet.
pub struct Ready {
    /// Keyed fingerprint of the exact request, spliced data included.
    pub fingerprint: String,
    /// Name of the binding that would serve it.
    pub binding: String,
    /// Where that binding points now: `https://host/base?variable=value`, then the same under each alias that the
    /// operator declares. Empty: unknown.
    pub places: Vec<String>,
    /// The request itself, known to the exchanger alone.
    pub request: Box<dyn Any + Send + Sync>,
}

/// Makes declared calls and guards the secrets.
#[async_trait::async_trait]
pub trait Exchanger: Send + Sync + 'static {
    /// Builds and checks the request; sends nothing.
    fn prepare(&self, exchange: Exchange) -> Result<Ready, Refusal>;

    /// Sends it once. `Answer::sent` says whether a byte of it left.
    async fn send(&self, ready: Ready) -> Answer;

    /// Looks for every live secret of the provider in every derived form.
    fn scan(&self, provider: &str, place: Place, text: &str) -> Result<(), Leak>;

    /// A keyed hash of the parts, under a key of this installation; different for every purpose and list of parts.
    fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32];
}

/// Where the time of day comes from.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Time since some moment of this process. Setting the time of day does not move it. A clock that has but one time
    /// counts by that.
    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now().as_millisecond()).unwrap_or(0))
    }
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed()
    }
}

#[async_trait::async_trait]
impl Exchanger for Custody {
    fn prepare(&self, exchange: Exchange) -> Result<Ready, Refusal> {
        let prepared = Custody::prepare(self, exchange)?;
        Ok(Ready {
            fingerprint: prepared.fingerprint().to_owned(),
            binding: prepared.binding().to_owned(),
            places: prepared.places().to_vec(),
            request: Box::new(prepared),
        })
    }

    async fn send(&self, ready: Ready) -> Answer {
        match ready.request.downcast::<Prepared>() {
            Ok(prepared) => Custody::send(self, *prepared).await,
            Err(_) => Answer {
                verdict: Verdict::Rejected(Refusal {
                    code: "internal".to_owned(),
                    reason: "NotPreparedHere".to_owned(),
                    message: "nothing was sent: the request was prepared by another exchanger".to_owned(),
                    native: None,
                    retry_after_ms: None,
                }),
                sent: false,
                binding: ready.binding,
                fingerprint: ready.fingerprint,
            },
        }
    }

    fn scan(&self, provider: &str, place: Place, text: &str) -> Result<(), Leak> {
        Custody::scan(self, provider, place, text)
    }

    fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        Custody::keyed(self, purpose, parts)
    }
}
