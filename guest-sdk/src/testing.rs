//! Running a provider natively, against a fake of the host.
//!
//! [`Fake`] answers declared calls with canned replies and keeps the one promise that provider logic leans on: a key
//! that was done is answered from memory, whatever was canned.

use crate::capacity::{Allocation, ClassRequest, Offering, Plan, PlanRequest, ProviderConfig};
use crate::client::{RawReply, Sealed};
use crate::error::{Error, Outcome};
use crate::lent::{Credentials, UserData};
use crate::operations::{Machine, OperationRequest, ProviderMachine};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

pub use crate::bindings::holdfast::provider::types::ObjectRef;

/// One call that a provider made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name in the manifest.
    pub name: String,
    /// The guest's arguments.
    pub args: Value,
    /// Key of a mutating call.
    pub key: Option<String>,
    /// Were credentials presented?
    pub credentials: bool,
    /// Slots that were given first-boot data.
    pub user_data: Vec<String>,
}

/// What a backend answers.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Object of the declared fields.
    pub fields: Value,
}

/// Stands in for the host. [`Fake`] is the usual one.
pub trait Backend {
    /// Answers a read.
    ///
    /// # Errors
    /// What the provider is to see.
    fn read(&mut self, call: &Call) -> Result<Reply, Error>;

    /// Answers a mutating call; `call.key` is its key.
    ///
    /// # Errors
    /// What the provider is to see.
    fn perform(&mut self, call: &Call) -> Result<Outcome<Reply>, Error>;

    /// The token of a key: here the key itself, spelt like a token.
    fn token(&mut self, key: &str) -> String {
        format!("hf{key}")
    }

    /// How the effect of a key stands. By default nothing was sent.
    fn recorded(&mut self, key: &str) -> Option<Outcome<Reply>> {
        let _ = key;
        None
    }

    /// The clock.
    fn now(&mut self) -> String {
        "2030-01-01T00:00:00Z".to_owned()
    }

    /// A log line.
    fn log(&mut self, message: &str) {
        let _ = message;
    }
}

thread_local! {
    static BACKEND: RefCell<Option<Rc<RefCell<dyn Backend>>>> = const { RefCell::new(None) };
}

/// Runs `work` with a backend in the host's place, on this thread.
pub fn with<R>(backend: Rc<RefCell<dyn Backend>>, work: impl FnOnce() -> R) -> R {
    /// Puts the former backend back, also when a test panics.
    struct Restore(Option<Rc<RefCell<dyn Backend>>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BACKEND.set(self.0.take());
        }
    }
    let _restore = Restore(BACKEND.replace(Some(backend)));
    work()
}

fn host<R>(ask: impl FnOnce(&mut dyn Backend) -> R) -> R {
    let backend = BACKEND.with_borrow(Clone::clone).expect("no host here: run the provider in `Fake::run`");
    let mut backend = backend.borrow_mut();
    ask(&mut *backend)
}

enum Canned {
    Reply(Reply),
    Error(Error),
    InDoubt(Option<Duration>),
}

#[derive(Default)]
struct Inner {
    once: BTreeMap<String, VecDeque<Canned>>,
    always: BTreeMap<String, Reply>,
    done: BTreeMap<String, Reply>,
    doubts: BTreeSet<String>,
    calls: Vec<Call>,
    log: Vec<String>,
}

/// A host with canned replies by call name.
#[derive(Clone, Default)]
pub struct Fake(Rc<RefCell<Inner>>);

impl Fake {
    /// A host that answers nothing yet. A call without an answer is a panic that names it.
    pub fn new() -> Fake {
        Fake::default()
    }

    /// Answers the next call of this name once, after those canned before.
    pub fn reply(self, call: &str, status: u16, fields: Value) -> Fake {
        self.push(call, Canned::Reply(Reply { status, fields }))
    }

    /// Answers every call of this name that nothing else answers.
    pub fn always(self, call: &str, status: u16, fields: Value) -> Fake {
        self.0.borrow_mut().always.insert(call.to_owned(), Reply { status, fields });
        self
    }

    /// Fails the next call of this name once.
    pub fn fails(self, call: &str, error: Error) -> Fake {
        self.push(call, Canned::Error(error))
    }

    /// Leaves the next mutating call of this name in doubt once.
    pub fn in_doubt(self, call: &str, after: Option<Duration>) -> Fake {
        self.push(call, Canned::InDoubt(after))
    }

    fn push(self, call: &str, canned: Canned) -> Fake {
        self.0.borrow_mut().once.entry(call.to_owned()).or_default().push_back(canned);
        self
    }

    /// Runs provider code against this host.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        with(self.0.clone(), work)
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.0.borrow().calls.clone()
    }

    /// Names of every call so far.
    pub fn names(&self) -> Vec<String> {
        self.0.borrow().calls.iter().map(|call| call.name.clone()).collect()
    }

    /// Every log line so far.
    pub fn log(&self) -> Vec<String> {
        self.0.borrow().log.clone()
    }
}

impl Inner {
    fn next(&mut self, call: &Call) -> Canned {
        self.calls.push(call.clone());
        if let Some(canned) = self.once.get_mut(&call.name).and_then(VecDeque::pop_front) {
            return canned;
        }
        match self.always.get(&call.name) {
            Some(reply) => Canned::Reply(reply.clone()),
            None => panic!("no reply is canned for the call `{}`", call.name),
        }
    }
}

impl Backend for Inner {
    fn read(&mut self, call: &Call) -> Result<Reply, Error> {
        match self.next(call) {
            Canned::Reply(reply) => Ok(reply),
            Canned::Error(error) => Err(error),
            Canned::InDoubt(_) => panic!("the read `{}` cannot be in doubt", call.name),
        }
    }

    fn perform(&mut self, call: &Call) -> Result<Outcome<Reply>, Error> {
        let key = call.key.clone().unwrap_or_default();
        if let Some(reply) = self.done.get(&key) {
            return Ok(Outcome::Done(reply.clone()));
        }
        match self.next(call) {
            Canned::Reply(reply) => {
                self.done.insert(key, reply.clone());
                Ok(Outcome::Done(reply))
            }
            Canned::Error(error) => Err(error),
            Canned::InDoubt(after) => {
                self.doubts.insert(key);
                Ok(Outcome::InDoubt(after))
            }
        }
    }

    fn recorded(&mut self, key: &str) -> Option<Outcome<Reply>> {
        let done = self.done.get(key).cloned().map(Outcome::Done);
        done.or_else(|| self.doubts.contains(key).then_some(Outcome::InDoubt(None)))
    }

    fn log(&mut self, message: &str) {
        self.log.push(message.to_owned());
    }
}

/// Credentials as a callback gets them.
pub fn credentials() -> Option<Credentials<'static>> {
    Some(Credentials(None))
}

/// First-boot data as a callback gets it.
pub fn user_data() -> UserData<'static> {
    UserData(None)
}

/// A sealed value, opaque like a real one.
pub fn sealed(text: &str) -> Sealed {
    Sealed(text.to_owned())
}

/// A machine with a provider ID.
pub fn machine(provider_id: &str) -> Machine {
    Machine {
        name: "machine-1".to_owned(),
        uid: "00000000-0000-0000-0000-000000000001".to_owned(),
        generation: 1,
        provider_ref: None,
        provider_id: Some(provider_id.to_owned()),
        host_image: None,
    }
}

/// A machine that refers to a machine object with this spec.
pub fn machine_with_object(group: &str, kind: &str, spec: &Value) -> Machine {
    let object = ObjectRef {
        group: group.to_owned(),
        version: "v1alpha1".to_owned(),
        kind: kind.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        namespace: None,
        name: "object-1".to_owned(),
        uid: "00000000-0000-0000-0000-000000000002".to_owned(),
        generation: 1,
        creation_timestamp: "2030-01-01T00:00:00Z".to_owned(),
        deletion_timestamp: None,
        labels: Vec::new(),
    };
    let reference = ProviderMachine { object, spec: spec.to_string(), status: "{}".to_owned() };
    Machine { provider_id: None, provider_ref: Some(reference), ..machine("") }
}

/// A request for an operation on a machine.
pub fn request(kind: &str, machine: Machine) -> OperationRequest {
    OperationRequest {
        name: "operation-1".to_owned(),
        uid: "00000000-0000-0000-0000-000000000003".to_owned(),
        kind: kind.to_owned(),
        parameters: Vec::new(),
        machine,
        site: "site-1".to_owned(),
        started_at: "2030-01-01T00:00:00Z".to_owned(),
        accepted_at: None,
        deadline: None,
        attempt: 1,
    }
}

/// An offering of this type in this zone, named after both, that can be had.
pub fn offering(instance_type: &str, zone: &str) -> Offering {
    Offering {
        name: format!("{instance_type}-{zone}"),
        instance_type: instance_type.to_owned(),
        zone: Some(zone.to_owned()),
        resources: Vec::new(),
        available: true,
        valid_until: "2030-01-01T01:00:00Z".to_owned(),
        attributes: Vec::new(),
    }
}

/// The configuration of a class.
pub fn config(pairs: &[(&str, &str)]) -> ProviderConfig {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A class with this configuration, to be resolved.
pub fn class_request(config: ProviderConfig) -> ClassRequest {
    ClassRequest {
        class_name: "class-1".to_owned(),
        class_uid: "00000000-0000-0000-0000-000000000004".to_owned(),
        site_name: "site-1".to_owned(),
        config,
    }
}

/// A host to be planned. Planning is pure: outside `Fake::run` whatever it asks of the host is a panic.
pub fn plan_request(config: ProviderConfig, offering: Offering) -> PlanRequest {
    PlanRequest {
        allocation_name: "allocation-1".to_owned(),
        allocation_uid: "00000000-0000-0000-0000-000000000005".to_owned(),
        host_name: "machine-1".to_owned(),
        config,
        offering,
    }
}

/// An allocation that was planned.
pub fn allocation(offering: Offering, plan: &Plan) -> Allocation {
    Allocation {
        name: "allocation-1".to_owned(),
        uid: "00000000-0000-0000-0000-000000000005".to_owned(),
        class_name: "class-1".to_owned(),
        class_uid: "00000000-0000-0000-0000-000000000004".to_owned(),
        host_name: "machine-1".to_owned(),
        offering,
        planned_provider_id: plan.provider_id.clone(),
        host_image: plan.host_image.clone(),
    }
}

/// The native end of the client.
pub(crate) mod wire {
    use super::{Call, RawReply, Reply, host};
    use crate::client::Request;
    use crate::error::{Error, Outcome};
    use crate::log::Level;
    use serde_json::Value;

    fn name(level: Level) -> &'static str {
        match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    fn lower(request: Request<'_>, key: Option<&str>) -> Call {
        Call {
            name: request.call.to_owned(),
            args: Value::Object(request.args),
            key: key.map(str::to_owned),
            credentials: request.credentials.is_some(),
            user_data: request.user_data.iter().map(|(slot, _)| (*slot).to_owned()).collect(),
        }
    }

    fn lift(reply: Reply) -> RawReply {
        RawReply { status: reply.status, fields: reply.fields.to_string() }
    }

    pub(crate) fn read(request: Request<'_>) -> Result<RawReply, Error> {
        host(|host| host.read(&lower(request, None))).map(lift)
    }

    pub(crate) fn perform(key: &str, request: Request<'_>) -> Result<Outcome<RawReply>, Error> {
        host(|host| host.perform(&lower(request, Some(key)))).map(|outcome| outcome.map(lift))
    }

    pub(crate) fn token(key: &str) -> String {
        host(|host| host.token(key))
    }

    pub(crate) fn recorded(key: &str) -> Option<Outcome<RawReply>> {
        host(|host| host.recorded(key)).map(|outcome| outcome.map(lift))
    }

    pub(crate) fn now() -> String {
        host(|host| host.now())
    }

    pub(crate) fn log(level: Level, message: &str, fields: &[(&str, String)]) {
        let mut line = format!("{}: {message}", name(level));
        for (name, value) in fields {
            line.push_str(&format!(" {name}={value}"));
        }
        host(|host| host.log(&line));
    }
}
