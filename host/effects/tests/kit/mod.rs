//! What the tests share: a manifest, a fake cloud, a journal that fails on command, and a harness around a session.
#![allow(dead_code)]

pub mod cloud;

use cloud::{Cloud, Life, START, Wire};
use holdfast_custody::{CredentialsId, Revision, UserDataId};
use holdfast_effects::*;
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

pub fn manifest() -> Arc<Manifest> {
    static PARSED: OnceLock<Arc<Manifest>> = OnceLock::new();
    let parse = || Manifest::parse(include_str!("provider.toml")).unwrap_or_else(|errors| panic!("{errors}"));
    PARSED.get_or_init(|| Arc::new(parse())).clone()
}

/// What becomes of the next write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Write {
    Fine,
    /// Not written, and said so.
    Fails,
    /// Written, and said that it was not.
    LandsUnheard,
    Fenced,
}

/// The durable part of a journal: what a new daemon finds.
pub type Disk = Arc<Mutex<BTreeMap<String, Effect>>>;

pub struct MemoryJournal {
    pub disk: Disk,
    pub life: Arc<Life>,
    pub epoch: i64,
    pub intends: Mutex<VecDeque<Write>>,
    pub settles: Mutex<VecDeque<Write>>,
    /// Keys and states in the order of the writes.
    pub log: Mutex<Vec<(String, EffectState)>>,
}

impl MemoryJournal {
    pub fn on(disk: &Disk, life: &Arc<Life>, epoch: i64) -> Arc<MemoryJournal> {
        Arc::new(MemoryJournal {
            disk: disk.clone(),
            life: life.clone(),
            epoch,
            intends: Mutex::default(),
            settles: Mutex::default(),
            log: Mutex::default(),
        })
    }

    async fn write(&self, effect: Effect, plan: &Mutex<VecDeque<Write>>) -> Result<(), JournalError> {
        self.life.step().await;
        let plan = plan.lock().unwrap().pop_front().unwrap_or(Write::Fine);
        if matches!(plan, Write::Fine | Write::LandsUnheard) {
            self.log.lock().unwrap().push((effect.key.clone(), effect.state));
            self.disk.lock().unwrap().insert(effect.key.clone(), effect);
        }
        self.life.step().await;
        match plan {
            Write::Fine => Ok(()),
            Write::Fenced => Err(JournalError::Fenced("another daemon holds the lease".into())),
            Write::Fails | Write::LandsUnheard => Err(JournalError::Unavailable("the store is away".into())),
        }
    }
}

#[async_trait::async_trait]
impl Journal for MemoryJournal {
    fn effects(&self) -> Vec<Effect> {
        self.disk.lock().unwrap().values().cloned().collect()
    }
    async fn intend(&self, effect: Effect) -> Result<(), JournalError> {
        self.write(effect, &self.intends).await
    }
    async fn settle(&self, effect: Effect) -> Result<(), JournalError> {
        self.write(effect, &self.settles).await
    }
    fn epoch(&self) -> i64 {
        self.epoch
    }
}

pub fn context(phase: Phase) -> Context {
    let at = |seconds: i64| Timestamp::from_second(START + seconds).unwrap();
    Context {
        revision: Revision("fake@0".into()),
        provider: "fake".into(),
        phase,
        owner: Owner { kind: OwnerKind::Operation, uid: "op-1".into() },
        operation_uid: "op-1".into(),
        attempt: 0,
        site: "here".into(),
        provider_id: Some("fake://old".into()),
        frozen_provider_id: Some("fake://old".into()),
        cleanup_provider_id: None,
        machine_object: None,
        owned: Vec::new(),
        host_image: None,
        host_name: None,
        config: BTreeMap::new(),
        offering: None,
        credentials: Some(CredentialsId(1)),
        user_data: None,
        // Far off: tests move the clock by hours.
        deadline: at(1_000_000),
        now: at(0),
    }
}

/// One daemon with one operation.
pub struct House {
    pub cloud: Arc<Cloud>,
    pub disk: Disk,
    pub life: Arc<Life>,
    pub journal: Arc<MemoryJournal>,
    pub effects: Effects,
    pub manifest: Arc<Manifest>,
}

impl House {
    pub fn new() -> House {
        House::over(Cloud::new(), Disk::default(), Life::long(), 1)
    }

    /// A new daemon over what the old one left behind.
    pub fn over(cloud: Arc<Cloud>, disk: Disk, life: Arc<Life>, epoch: i64) -> House {
        let wire = Arc::new(Wire { cloud: cloud.clone(), life: life.clone() });
        let effects = Effects::with_clock(wire, cloud.clock.clone());
        let journal = MemoryJournal::on(&disk, &life, epoch);
        House { cloud, disk, life, journal, effects, manifest: manifest() }
    }

    /// The daemon is killed and started again.
    pub fn restarted(&self) -> House {
        House::over(self.cloud.clone(), self.disk.clone(), Life::long(), self.journal.epoch + 1)
    }

    pub fn open(&self, context: Context) -> Arc<Session> {
        self.effects.open(context, self.manifest.clone(), Some(self.journal.clone()))
    }

    pub fn act(&self) -> Arc<Session> {
        self.open(context(Phase::Act))
    }

    /// One callback that does nothing but this.
    pub async fn perform(&self, key: &str, request: CallRequest) -> Result<CallOutcome, CallError> {
        self.act().perform(key.into(), request).await
    }

    pub fn effect(&self, key: &str) -> Effect {
        self.disk.lock().unwrap().get(key).cloned().expect("journaled")
    }

    pub fn state(&self, key: &str) -> Option<EffectState> {
        self.disk.lock().unwrap().get(key).map(|effect| effect.state)
    }
}

pub fn call(name: &str, args: Value) -> CallRequest {
    CallRequest { call: name.into(), args: args.to_string(), credentials: true, user_data: Vec::new() }
}

pub fn no_args(name: &str) -> CallRequest {
    call(name, Value::Object(Default::default()))
}

/// `make-token` with first-boot data, and a context that lends that deposit.
pub fn with_data(deposit: u64) -> (Context, CallRequest) {
    let mut lent = context(Phase::Act);
    lent.user_data = Some(UserDataId(deposit));
    let mut request = no_args("make-token");
    request.user_data = vec!["user-data".into()];
    (lent, request)
}

pub fn done(outcome: Result<CallOutcome, CallError>) -> Value {
    match outcome {
        Ok(CallOutcome::Done(reply)) => serde_json::from_str(&reply.fields).unwrap(),
        other => panic!("not done: {other:?}"),
    }
}

pub fn waits(outcome: Result<CallOutcome, CallError>) -> Option<u64> {
    match outcome {
        Ok(CallOutcome::InDoubt(wait)) => wait,
        other => panic!("not in doubt: {other:?}"),
    }
}

pub fn failed<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> Failure {
    match outcome {
        Err(CallError::Failure(failure)) => failure,
        other => panic!("not a failure: {other:?}"),
    }
}

pub fn violated<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> Violation {
    match outcome {
        Err(CallError::Violation(violation)) => violation,
        other => panic!("not a violation: {other:?}"),
    }
}
