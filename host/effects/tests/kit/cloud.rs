//! A cloud that loses answers on command, keeps a ledger of what really happened, and can be killed between any two
//! steps together with the daemon that talks to it.

use holdfast_custody::{Answer, Exchange, Leak, Place, Refusal, Reply, Verdict};
use holdfast_effects::{Clock, Exchanger, Ready};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub const START: i64 = 1_800_000_000;
pub const SECRET: &str = "canary-secret-value";

/// A clock that moves when it is told to: the time of day, and seconds by which that was set rather than passed.
pub struct TestClock(pub AtomicI64, pub AtomicI64);

impl TestClock {
    pub fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Somebody sets the time of day.
    pub fn step(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
        self.1.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        let passed = self.0.load(Ordering::SeqCst) - self.1.load(Ordering::SeqCst) - START;
        Duration::from_secs(u64::try_from(passed).unwrap())
    }
}

/// What becomes of the next mutating exchange.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Lost on the way there: nothing happens, nobody knows.
    LostBefore,
    /// Lost on the way back: it happened, nobody knows.
    LostAfter,
    /// It happened; a 2xx that does not fit (H5).
    Unfit,
    /// The connection could not be made.
    NotSent,
    /// Refused with this code before a byte of the request left (a login that failed).
    RefusedUnsent(&'static str),
    /// A definite refusal with this code; nothing happens.
    Refused(&'static str),
    /// The service says that the target is not there; nothing happens.
    Gone,
    /// It happened; the reply fits and names nothing.
    Nameless,
    /// Waits until the test lets it go on.
    Held,
}

/// The life of one daemon: after so many steps it is dead and does nothing any more.
pub struct Life {
    left: AtomicI64,
    dead: Notify,
}

impl Life {
    pub fn of(steps: i64) -> Arc<Life> {
        Arc::new(Life { left: AtomicI64::new(steps), dead: Notify::new() })
    }

    pub fn long() -> Arc<Life> {
        Life::of(i64::MAX)
    }

    /// A boundary at which the daemon may be killed.
    pub async fn step(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.dead.notify_one();
            std::future::pending::<()>().await;
        }
    }

    pub async fn ended(&self) {
        self.dead.notified().await;
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub id: String,
    pub name: String,
    pub since: i64,
}

#[derive(Default)]
pub struct State {
    pub servers: Vec<Server>,
    /// Every effect that really happened: call and what it was about.
    pub ledger: Vec<(String, String)>,
    /// Every exchange whose bytes left, in order.
    pub sent: Vec<String>,
    pub tokens: BTreeMap<String, (String, i64)>,
    pub power: BTreeMap<String, String>,
    pub faults: VecDeque<Fault>,
    pub jobs: BTreeMap<String, &'static str>,
    pub disks: Value,
    /// Seconds for which the service says of a new server that it is not there.
    pub hidden: i64,
    /// Owners that exchanges were made for.
    pub owners: BTreeSet<String>,
    /// Servers that reads say are not there.
    pub missing: Vec<String>,
    /// Seconds until a new server shows in lists.
    pub lag: i64,
    /// Does the list ignore its filter?
    pub careless: bool,
    /// Answers of lookups instead of the truth.
    pub blind: u32,
    /// What the next lookups are told instead: `gone`, `odd`, or the code of a refusal.
    pub deaf: VecDeque<&'static str>,
    /// Do lists wait until the test lets them go on?
    pub hold_finds: bool,
    /// Where the binding points, and its aliases; empty: unknown.
    pub places: Vec<String>,
    /// The shortest time limit of any exchange.
    pub shortest_ms: u64,
}

pub struct Cloud {
    pub state: Mutex<State>,
    pub clock: Arc<TestClock>,
    pub go: Notify,
    pub held: Notify,
}

impl Cloud {
    pub fn new() -> Arc<Cloud> {
        let clock = Arc::new(TestClock(AtomicI64::new(START), AtomicI64::new(0)));
        let state = Mutex::new(State { shortest_ms: u64::MAX, ..State::default() });
        Arc::new(Cloud { state, clock, go: Notify::new(), held: Notify::new() })
    }

    pub fn fault(&self, fault: Fault) {
        self.state.lock().unwrap().faults.push_back(fault);
    }

    /// Somebody removes a server, and its id is given to a stranger's.
    pub fn given_again(&self, id: &str) {
        self.state.lock().unwrap().servers.retain(|server| server.id != id);
        self.has(id);
    }

    /// The operator points the binding somewhere.
    pub fn points_to(&self, places: &[&str]) {
        self.state.lock().unwrap().places = places.iter().map(|place| (*place).to_owned()).collect();
    }

    /// A server of this id, made by nobody.
    pub fn has(&self, id: &str) {
        let server = Server { id: id.to_owned(), name: String::new(), since: self.now() };
        self.state.lock().unwrap().servers.push(server);
    }

    pub fn servers(&self) -> usize {
        self.state.lock().unwrap().servers.len()
    }

    pub fn happened(&self, call: &str) -> usize {
        self.state.lock().unwrap().ledger.iter().filter(|(of, _)| of == call).count()
    }

    pub fn sent(&self, call: &str) -> usize {
        self.state.lock().unwrap().sent.iter().filter(|of| *of == call).count()
    }

    fn now(&self) -> i64 {
        self.clock.0.load(Ordering::SeqCst)
    }

    /// Is it a repeat that the service knows for one?
    fn recognises(&self, exchange: &Exchange) -> bool {
        let state = self.state.lock().unwrap();
        let name = exchange.args.get("name").and_then(Value::as_str).unwrap_or_default();
        let named = format!("hf-{name}");
        match exchange.call.as_str() {
            "make-token" | "make-bare" => {
                state.tokens.get(name).is_some_and(|(_, until)| self.now() < *until)
            }
            "make-put" | "make-put-data" => state.servers.iter().any(|server| server.name == named),
            "remove" => {
                let id = exchange.args.get("id").and_then(Value::as_str);
                !state.servers.iter().any(|server| Some(server.id.as_str()) == id)
            }
            _ => false,
        }
    }

    /// Makes it happen, and gives the answer that an undisturbed client would get.
    fn commit(&self, exchange: &Exchange) -> Verdict {
        let now = self.now();
        let mut state = self.state.lock().unwrap();
        let text =
            |name: &str| exchange.args.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let fits = |status, fields: Value| {
            Verdict::Fits(Reply { status, fields: fields.as_object().cloned().unwrap() })
        };
        match exchange.call.as_str() {
            "make-vm" => {
                let id = state.make("make-vm", &text("name"), now);
                fits(201, json!({"id": id, "born": now}))
            }
            "vm" => match (state.deaf.pop_front(), state.servers.iter().find(|one| one.id == text("id"))) {
                (Some("odd"), _) => fits(200, json!({})),
                (Some(code), _) => Verdict::Rejected(refusal(code)),
                (None, Some(one)) => fits(200, json!({"born": one.since})),
                (None, None) => Verdict::Gone { status: 404 },
            },
            "make-token" | "make-bare" | "make-job" => {
                let name = text("name");
                if let Some((id, until)) = state.tokens.get(&name).cloned()
                    && now < until
                {
                    return fits(201, json!({"id": id, "job": id}));
                }
                let id = state.make(&exchange.call, &name, now);
                state.tokens.insert(name, (id.clone(), now + 3600));
                fits(201, json!({"id": id, "job": id}))
            }
            "make-lookup" | "make-never" => {
                let id = state.make(&exchange.call, &text("name"), now);
                fits(201, json!({"id": id}))
            }
            "make-put" | "make-put-data" => {
                let name = format!("hf-{}", text("name"));
                if !state.servers.iter().any(|server| server.name == name) {
                    state.make("make-put", &name, now);
                }
                fits(200, json!({}))
            }
            "power" => {
                let (id, wanted) = (text("id"), text("state"));
                if state.power.insert(id.clone(), wanted.clone()) != Some(wanted) {
                    state.ledger.push(("power".into(), id.clone()));
                }
                fits(200, json!({"action": format!("action-{id}")}))
            }
            "kick" | "stop" => {
                state.ledger.push((exchange.call.clone(), text("id")));
                fits(200, json!({}))
            }
            "remove" | "purge" | "drop-vm" => {
                let id = text("id");
                let (before, hidden) = (state.servers.len(), state.hidden);
                state.servers.retain(|server| server.id != id || now < server.since + hidden);
                if state.servers.len() == before {
                    return Verdict::Gone { status: 404 };
                }
                state.ledger.push(("remove".into(), id));
                fits(204, json!({}))
            }
            "find" if !state.deaf.is_empty() => match state.deaf.pop_front() {
                Some("gone") => Verdict::Gone { status: 404 },
                Some("odd") => fits(200, json!({"servers": "none"})),
                code => Verdict::Rejected(refusal(code.unwrap_or_default())),
            },
            "find" => {
                if state.blind > 0 {
                    state.blind -= 1;
                    return fits(200, json!({"servers": []}));
                }
                let (name, lag, careless) = (text("name"), state.lag, state.careless);
                let seen = state
                    .servers
                    .iter()
                    .filter(|server| careless || (server.name == name && server.since + lag <= now));
                let seen: Vec<Value> = seen.map(|one| json!({"id": one.id, "token": one.name})).collect();
                fits(200, json!({"servers": seen}))
            }
            "server" if state.missing.contains(&text("id")) => Verdict::Gone { status: 404 },
            "server" => fits(
                200,
                json!({"state": "on", "etag": format!("sealed-etag-{}", text("id")),
                "stop": format!("sealed-stop-{}", text("id"))}),
            ),
            "job" => {
                let job = text("job");
                let done = state.jobs.get(&job).copied().unwrap_or("running");
                fits(200, json!({"state": done, "server": job}))
            }
            "disks" => fits(200, json!({"disks": state.disks.clone()})),
            "action" => fits(200, json!({"state": "done"})),
            other => panic!("the fake cloud has no {other}"),
        }
    }
}

impl State {
    fn make(&mut self, call: &str, name: &str, now: i64) -> String {
        let id = format!("srv-{}", self.servers.len() + 1);
        self.servers.push(Server { id: id.clone(), name: name.to_owned(), since: now });
        self.ledger.push((call.to_owned(), name.to_owned()));
        id
    }
}

/// One daemon's connection to the cloud.
pub struct Wire {
    pub cloud: Arc<Cloud>,
    pub life: Arc<Life>,
}

pub fn refusal(code: &str) -> Refusal {
    Refusal {
        code: code.to_owned(),
        reason: "FromTheFake".to_owned(),
        message: format!("the fake said {code}"),
        native: None,
        retry_after_ms: None,
    }
}

#[async_trait::async_trait]
impl Exchanger for Wire {
    fn prepare(&self, exchange: Exchange) -> Result<Ready, Refusal> {
        let user_data: Vec<u64> = exchange.user_data.values().map(|id| id.0).collect();
        let fingerprint = format!("{}{:?}{user_data:?}", exchange.call, exchange.args);
        let places = self.cloud.state.lock().unwrap().places.clone();
        Ok(Ready { fingerprint, binding: "api/here".to_owned(), places, request: Box::new(exchange) })
    }

    async fn send(&self, ready: Ready) -> Answer {
        self.life.step().await;
        let exchange = ready.request.downcast::<Exchange>().unwrap();
        let reads = ["find", "server", "vm", "job", "disks", "action"].contains(&exchange.call.as_str());
        let mut fault = if reads { None } else { self.cloud.state.lock().unwrap().faults.pop_front() };
        let answer = |verdict, sent| Answer {
            verdict,
            sent,
            binding: ready.binding.clone(),
            fingerprint: ready.fingerprint.clone(),
        };
        if fault == Some(Fault::NotSent) {
            return answer(Verdict::Unclear(refusal("unavailable")), false);
        }
        if let Some(Fault::RefusedUnsent(code)) = fault {
            return answer(Verdict::Rejected(refusal(code)), false);
        }
        {
            let mut state = self.cloud.state.lock().unwrap();
            state.sent.push(exchange.call.clone());
            state.owners.insert(exchange.scope.owner.clone());
            state.shortest_ms = state.shortest_ms.min(exchange.timeout_ms);
        }
        let held =
            matches!(exchange.call.as_str(), "find" | "vm") && self.cloud.state.lock().unwrap().hold_finds;
        if held || fault == Some(Fault::Held) {
            self.cloud.held.notify_one();
            self.cloud.go.notified().await;
            fault = None;
        }
        match fault {
            Some(Fault::LostBefore) => return answer(Verdict::Unclear(refusal("unavailable")), true),
            // Services recognise a repeat before they look at quotas, and after they look at limits and locks.
            Some(Fault::Refused("quota-exceeded")) if self.cloud.recognises(&exchange) => {}
            Some(Fault::Refused(code)) => return answer(Verdict::Rejected(refusal(code)), true),
            Some(Fault::Gone) => return answer(Verdict::Gone { status: 404 }, true),
            _ => {}
        }
        let verdict = self.cloud.commit(&exchange);
        self.life.step().await;
        match fault {
            Some(Fault::LostAfter | Fault::Unfit) => answer(Verdict::Unclear(refusal("unavailable")), true),
            Some(Fault::Nameless) => {
                answer(Verdict::Fits(Reply { status: 201, fields: Default::default() }), true)
            }
            _ => answer(verdict, true),
        }
    }

    fn scan(&self, _provider: &str, place: Place, text: &str) -> Result<(), Leak> {
        if text.contains(SECRET) { Err(Leak { place }) } else { Ok(()) }
    }

    fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        // Not a hash for anybody else's use; different for different parts.
        let text = format!("{purpose}|{}", parts.join("|"));
        let mut out = [0u8; 32];
        for (lane, chunk) in out.chunks_mut(8).enumerate() {
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ lane as u64, mix);
            chunk.copy_from_slice(&(hash ^ (hash >> 29)).to_be_bytes());
        }
        out
    }
}
