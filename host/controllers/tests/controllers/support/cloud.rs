//! A service that remembers what reached it, loses answers on command, and knows repeats by their token.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use holdfast_controllers::clock::{Clock as _, ManualClock};
use holdfast_custody::{Answer, Exchange, Leak, Place, Refusal, Reply, Verdict};
use holdfast_effects::{Exchanger, Ready};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::modules::Vaulted;

/// What becomes of the next answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    /// Done, and said so.
    Done,
    /// Done, and the answer is lost.
    Lost,
    /// Refused with this code: nothing happened.
    Refused(&'static str),
    /// The service says that the thing is not there.
    Gone,
}

/// The service.
pub struct Cloud {
    /// Every request that reached it: call and arguments.
    pub sends: Mutex<Vec<String>>,
    /// Distinct effects: what the world looks like.
    pub effects: Mutex<BTreeSet<String>>,
    pub fates: Mutex<VecDeque<Fate>>,
    /// While false, answers are held back: the request is on the wire.
    pub gate: watch::Sender<bool>,
    /// Fields of the answer to `list-owned`.
    pub listing: Mutex<Value>,
    /// Where the operator's binding points; empty: unknown.
    pub places: Mutex<Vec<String>>,
    /// Text that the scanner takes for a secret.
    pub canary: Mutex<Option<String>>,
    /// Where lent first-boot data is found, for services that are sent some.
    pub vault: Mutex<Option<Arc<Vaulted>>>,
}

impl Cloud {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            sends: Mutex::default(),
            effects: Mutex::default(),
            fates: Mutex::default(),
            gate: watch::Sender::new(true),
            listing: Mutex::default(),
            places: Mutex::default(),
            canary: Mutex::default(),
            vault: Mutex::default(),
        })
    }

    pub fn sends(&self) -> usize {
        self.sends.lock().unwrap().len()
    }

    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap().iter().cloned().collect()
    }

    /// The operator points the binding somewhere.
    pub fn points_to(&self, place: &str) {
        *self.places.lock().unwrap() = vec![place.to_owned()];
    }

    pub fn lose_next(&self) {
        self.fates.lock().unwrap().push_back(Fate::Lost);
    }
}

/// The way to the service.
pub struct Wire(pub Arc<Cloud>);

#[async_trait::async_trait]
impl Exchanger for Wire {
    fn prepare(&self, exchange: Exchange) -> Result<Ready, Refusal> {
        let mut text = format!("{} {}", exchange.call, json!(exchange.args));
        let mut fingerprint = text.clone();
        if let Some(vault) = &*self.0.vault.lock().unwrap() {
            let lent = vault.user_data.lock().unwrap();
            for id in exchange.user_data.values() {
                text.push_str(&format!(" {:?}", String::from_utf8_lossy(&lent[&id.0])));
                // The journal holds no first-boot data, nor may what it knows it by.
                fingerprint = format!("{:x?}", self.keyed("fingerprint", &[&text]));
            }
        }
        let places = self.0.places.lock().unwrap().clone();
        let request = Box::new((exchange.call, text));
        Ok(Ready { fingerprint, binding: "api/here".to_owned(), places, request })
    }

    async fn send(&self, ready: Ready) -> Answer {
        let (call, text) = *ready.request.downcast::<(String, String)>().unwrap();
        self.0.sends.lock().unwrap().push(text.clone());
        let fate = self.0.fates.lock().unwrap().pop_front().unwrap_or(Fate::Done);
        if matches!(fate, Fate::Done | Fate::Lost) {
            self.0.effects.lock().unwrap().insert(text.clone());
        }
        let _ = self.0.gate.subscribe().wait_for(|open| *open).await;
        let mut fields = Map::new();
        if call == "make" {
            fields.insert("id".to_owned(), Value::from("new"));
        }
        if call == "volume" {
            fields.insert("id".to_owned(), Value::from("vol-1"));
        }
        if call == "list-owned" {
            fields.extend(self.0.listing.lock().unwrap().as_object().cloned().unwrap_or_default());
        }
        let verdict = match fate {
            Fate::Done => Verdict::Fits(Reply { status: 200, fields }),
            Fate::Gone => Verdict::Gone { status: 404 },
            Fate::Refused(code) => Verdict::Rejected(Refusal {
                code: code.to_owned(),
                reason: "Refused".to_owned(),
                message: "the service refused".to_owned(),
                native: None,
                retry_after_ms: None,
            }),
            Fate::Lost => Verdict::Unclear(Refusal {
                code: "unavailable".to_owned(),
                reason: "AnswerLost".to_owned(),
                message: "the connection was lost".to_owned(),
                native: None,
                retry_after_ms: None,
            }),
        };
        Answer { verdict, sent: true, binding: ready.binding, fingerprint: ready.fingerprint }
    }

    fn scan(&self, _: &str, place: Place, text: &str) -> Result<(), Leak> {
        match &*self.0.canary.lock().unwrap() {
            Some(canary) if text.contains(canary) => Err(Leak { place }),
            _ => Ok(()),
        }
    }

    fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut out = [0; 32];
        for (i, chunk) in out.chunks_mut(8).enumerate() {
            let mut hasher = DefaultHasher::new();
            (purpose, parts, i).hash(&mut hasher);
            chunk.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        out
    }
}

/// The tests' clock, as the effects room sees it.
pub struct EffectsClock(pub Arc<ManualClock>);

impl holdfast_effects::Clock for EffectsClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}
