//! A provider module that is a closure, and a vault that remembers what it was given.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use holdfast_controllers::rooms::{
    HostFailure, ModuleReport, Modules, ProviderModule, Secret, Vault, VaultError,
};
use holdfast_custody::{CredentialsId, Revision, UserDataId};
use holdfast_effects::{
    AllocatePollResult, AllocationResult, BeginResult, CallRequest, Callback, Failure, OperationResult,
    PollResult, PollState, Port, ProviderOperation, ReleasePollResult, Returned,
};
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;

pub type Answer = Result<Returned, HostFailure>;
pub type Script = Arc<dyn Fn(Callback, Arc<dyn Port>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A module that answers from a queue, and from a default when that is empty.
pub struct Scripted {
    pub manifest: Mutex<Arc<Manifest>>,
    pub revision: Mutex<String>,
    pub script: Mutex<VecDeque<Script>>,
    pub default: Mutex<Option<Script>>,
    pub calls: Mutex<Vec<Callback>>,
}

pub fn manifest() -> Arc<Manifest> {
    static PARSED: std::sync::OnceLock<Arc<Manifest>> = std::sync::OnceLock::new();
    let parse = || {
        Arc::new(Manifest::parse(include_str!("provider.toml")).unwrap_or_else(|errors| panic!("{errors}")))
    };
    PARSED.get_or_init(parse).clone()
}

impl Scripted {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            manifest: Mutex::new(manifest()),
            revision: Mutex::new("fake@1".to_owned()),
            script: Mutex::default(),
            default: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    /// The next callback is answered by this.
    pub fn then(&self, script: Script) -> &Self {
        self.script.lock().unwrap().push_back(script);
        self
    }

    /// The next callback is answered so.
    pub fn say(&self, answer: Answer) -> &Self {
        self.then(Arc::new(move |_, _| {
            let answer = answer.clone();
            Box::pin(async move { answer })
        }))
    }

    /// What was called, by name.
    pub fn called(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().iter().map(name_of).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.called().iter().filter(|called| **called == name).count()
    }

    pub fn last(&self) -> Callback {
        self.calls.lock().unwrap().last().cloned().expect("something was called")
    }
}

pub fn name_of(callback: &Callback) -> &'static str {
    match callback {
        Callback::Execute { .. } => "execute",
        Callback::Begin { .. } => "begin",
        Callback::Poll { .. } => "poll",
        Callback::Cancel { .. } => "cancel",
        Callback::Cleanup { .. } => "cleanup",
        Callback::ResolveClass { .. } => "resolve-class",
        Callback::PlanAllocation { .. } => "plan-allocation",
        Callback::BeginAllocate { .. } => "begin-allocate",
        Callback::PollAllocate { .. } => "poll-allocate",
        Callback::BeginRelease { .. } => "begin-release",
        Callback::PollRelease { .. } => "poll-release",
    }
}

/// The modules: one, or none.
pub struct OneModule {
    pub module: Mutex<Option<Arc<Scripted>>>,
    pub reports: Mutex<Vec<ModuleReport>>,
    pub changes: watch::Sender<u64>,
}

impl Modules for OneModule {
    fn get(&self, provider: &str) -> Option<Arc<dyn ProviderModule>> {
        let module = self.module.lock().unwrap().clone()?;
        (provider == "fake").then(|| Arc::new(Handle(module)) as Arc<dyn ProviderModule>)
    }

    fn reports(&self) -> Vec<ModuleReport> {
        self.reports.lock().unwrap().clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

struct Handle(Arc<Scripted>);

#[async_trait::async_trait]
impl ProviderModule for Handle {
    fn revision(&self) -> Revision {
        Revision(self.0.revision.lock().unwrap().clone())
    }

    fn manifest(&self) -> Arc<Manifest> {
        self.0.manifest.lock().unwrap().clone()
    }

    async fn call(&self, callback: Callback, port: Arc<dyn Port>, _: Timestamp) -> Answer {
        self.0.calls.lock().unwrap().push(callback.clone());
        let next =
            self.0.script.lock().unwrap().pop_front().or_else(|| self.0.default.lock().unwrap().clone());
        let script = next.unwrap_or_else(|| panic!("nothing is scripted for {}", name_of(&callback)));
        script(callback, port).await
    }
}

pub fn accepted(id: &str) -> Answer {
    Ok(Returned::Begin(Ok(begun(id))))
}

fn begun(id: &str) -> BeginResult {
    BeginResult {
        operation: ProviderOperation { operation_id: id.to_owned(), resume_token: "token".to_owned() },
        message: "accepted".to_owned(),
        requeue_after_ms: None,
    }
}

pub fn allocate_begun(id: &str) -> Answer {
    Ok(Returned::BeginAllocate(Ok(begun(id))))
}

pub fn allocate_refused(permanent: bool, code: &str) -> Answer {
    let failure = Failure { code: code.to_owned(), ..failure(permanent, "Refused", "the provider refused") };
    Ok(Returned::BeginAllocate(Err(failure)))
}

/// A host that was made, with the id that the service gave it.
pub fn allocated(id: &str) -> Answer {
    let result = AllocationResult {
        provider_resource_id: id.to_owned(),
        provider_id: Some(format!("fake://{id}")),
        instance_type: "small".to_owned(),
        zone: Some("z1".to_owned()),
        image: Some("img-1".to_owned()),
    };
    allocate_polled(PollState::Succeeded, Some(result), "", "")
}

pub fn allocate_polled(
    state: PollState,
    result: Option<AllocationResult>,
    reason: &str,
    message: &str,
) -> Answer {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let owned_resources = Vec::new();
    let poll = AllocatePollResult { state, result, owned_resources, reason, message, requeue_after_ms: None };
    Ok(Returned::PollAllocate(Ok(poll)))
}

pub fn release_begun(id: &str) -> Answer {
    Ok(Returned::BeginRelease(Ok(begun(id))))
}

pub fn release_polled(state: PollState, reason: &str, message: &str) -> Answer {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    let poll = ReleasePollResult { state, remaining: Vec::new(), reason, message, requeue_after_ms: None };
    Ok(Returned::PollRelease(Ok(poll)))
}

pub fn poll(state: PollState) -> Answer {
    polled(state, None, "", "")
}

pub fn polled(state: PollState, result: Option<OperationResult>, reason: &str, message: &str) -> Answer {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Ok(Returned::Poll(Ok(PollResult { state, result, reason, message, requeue_after_ms: None })))
}

pub fn executed() -> Answer {
    Ok(Returned::Execute(Ok(OperationResult::default())))
}

pub fn failure(permanent: bool, reason: &str, message: &str) -> Failure {
    Failure {
        permanent,
        code: "internal".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        native: None,
        retry_after_ms: None,
    }
}

pub fn trap() -> Answer {
    Err(HostFailure {
        reason: "ModulePanicked".to_owned(),
        message: "the module panicked".to_owned(),
        permanent: false,
        blameless: false,
    })
}

pub fn result(provider_id: Option<&str>, cleanup: Option<&str>) -> OperationResult {
    OperationResult {
        provider_id: provider_id.map(str::to_owned),
        cleanup_provider_id: cleanup.map(str::to_owned),
    }
}

/// A request for a call on the machine itself.
pub fn on(call: &str, id: &str) -> CallRequest {
    CallRequest {
        call: call.to_owned(),
        args: json!({ "id": id }).to_string(),
        credentials: true,
        user_data: Vec::new(),
    }
}

pub fn plain(call: &str) -> CallRequest {
    CallRequest { call: call.to_owned(), args: "{}".to_owned(), credentials: true, user_data: Vec::new() }
}

/// What the vault was given.
#[derive(Default)]
pub struct Vaulted {
    next: AtomicU64,
    pub credentials: Mutex<BTreeMap<u64, BTreeMap<String, Vec<u8>>>>,
    pub user_data: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Everything ever given, revoked or not.
    pub user_data_ever: Mutex<Vec<Vec<u8>>>,
}

impl Vault for Vaulted {
    fn deposit_credentials(
        &self,
        _: &Revision,
        _: &str,
        _: &str,
        values: BTreeMap<String, Secret>,
    ) -> Result<CredentialsId, VaultError> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let values = values.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
        self.credentials.lock().unwrap().insert(id, values);
        Ok(CredentialsId(id))
    }

    fn revoke_credentials(&self, id: CredentialsId) {
        self.credentials.lock().unwrap().remove(&id.0);
    }

    fn deposit_user_data(&self, _: &Revision, _: &str, data: Secret) -> Result<UserDataId, VaultError> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        self.user_data.lock().unwrap().insert(id, data.to_vec());
        self.user_data_ever.lock().unwrap().push(data.to_vec());
        Ok(UserDataId(id))
    }

    fn revoke_user_data(&self, id: UserDataId) {
        self.user_data.lock().unwrap().remove(&id.0);
    }
}
