//! The way from effects to custody, watched: nothing that changes the world leaves before its intent is durable (I2), and
//! a life may end at an exchange, before a byte of it leaves or when its answer was read and nobody was told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_custody::{Answer, Custody, Exchange, Leak, Place, Refusal, Verdict};
use holdfast_effects::{Exchanger, Ready};
use holdfast_manifest::{EffectKind, Manifest};

use crate::disk::{Death, Disk};
use crate::journal::Heard;

/// An exchange at which the life ends.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeCrash {
    /// Exchanges that still come back.
    pub left: u32,
    /// The fatal exchange is made, and its answer dies with the life.
    pub after: bool,
}

/// What is broken on purpose, for the proof that the property can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    #[default]
    None,
    /// The cloud forgets every idempotency key, although the manifest says that it keeps them.
    TokensForgotten,
    /// A lost answer is taken for a refusal: unknown becomes retry.
    LostIsRefused,
}

/// What all lives of a plan count together.
#[derive(Default)]
pub struct Traffic {
    pub exchanges: AtomicU64,
    pub mutations: AtomicU64,
    pub violations: Mutex<Vec<String>>,
    /// The module is away: nothing may be sent in its name (I6).
    pub withdrawn: std::sync::atomic::AtomicBool,
}

pub struct Wire {
    pub custody: Custody,
    pub manifest: Arc<Manifest>,
    pub disk: Arc<Disk>,
    pub death: Arc<Death>,
    pub crash: Mutex<Option<ExchangeCrash>>,
    pub traffic: Arc<Traffic>,
    pub sabotage: Sabotage,
}

struct Marked {
    call: String,
    mutates: bool,
    ready: Ready,
}

#[async_trait::async_trait]
impl Exchanger for Wire {
    fn prepare(&self, exchange: Exchange) -> Result<Ready, Refusal> {
        let call = exchange.call.clone();
        let mutates = self.manifest.calls.get(&call).is_some_and(|call| call.effect != EffectKind::Read);
        let ready = Exchanger::prepare(&self.custody, exchange)?;
        Ok(Ready {
            fingerprint: ready.fingerprint.clone(),
            binding: ready.binding.clone(),
            places: ready.places.clone(),
            request: Box::new(Marked { call, mutates, ready }),
        })
    }

    async fn send(&self, ready: Ready) -> Answer {
        let Marked { call, mutates, ready } = *ready.request.downcast().expect("prepared here");
        let fingerprint = ready.fingerprint.clone();
        let dies = self.dies();
        if self.death.struck() || dies == Some(false) {
            self.death.strike();
            return std::future::pending().await;
        }
        self.traffic.exchanges.fetch_add(1, Ordering::SeqCst);
        if mutates {
            self.traffic.mutations.fetch_add(1, Ordering::SeqCst);
            self.check(&call, &fingerprint);
        }
        let mut answer = Exchanger::send(&self.custody, ready).await;
        if self.death.struck() || dies == Some(true) {
            self.death.strike();
            return std::future::pending().await;
        }
        if self.sabotage == Sabotage::LostIsRefused
            && let Verdict::Unclear(refusal) = &answer.verdict
        {
            answer.verdict = Verdict::Rejected(refusal.clone());
        } else if mutates {
            let heard = match (&answer.verdict, answer.sent) {
                (Verdict::Unclear(_), true) => Heard::Unknown,
                _ => Heard::Definite,
            };
            self.disk.lock().journal.heard(&fingerprint, heard);
        }
        answer
    }

    fn scan(&self, provider: &str, place: Place, text: &str) -> Result<(), Leak> {
        self.custody.scan(provider, place, text)
    }

    fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        self.custody.keyed(purpose, parts)
    }
}

impl Wire {
    /// Whether the life ends at this exchange: `Some(true)` after it, `Some(false)` before it.
    fn dies(&self) -> Option<bool> {
        let mut crash = self.crash.lock().unwrap();
        let at = crash.as_mut()?;
        if at.left == 0 {
            return crash.take().map(|crash| crash.after);
        }
        at.left -= 1;
        None
    }

    /// I2 and I6, at the last moment before anything leaves.
    fn check(&self, call: &str, fingerprint: &str) {
        let mut violations = self.traffic.violations.lock().unwrap();
        let disk = self.disk.lock();
        match disk.journal.intent(fingerprint) {
            None => violations.push(format!("I2: `{call}` is sent and no durable intent says so")),
            Some(known) => {
                let effect = &known.effect;
                if effect.call != call || effect.attempts < 1 || effect.epoch < 1 {
                    violations.push(format!("I2: `{call}` is sent under an intent that says {effect:?}"));
                }
            }
        }
        if self.traffic.withdrawn.load(Ordering::SeqCst) {
            violations.push(format!("I6: `{call}` is sent while the module is away"));
        }
    }
}
