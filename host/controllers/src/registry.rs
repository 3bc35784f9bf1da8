//! The runtime's registry of modules as this crate sees it.

use std::sync::Arc;

use holdfast_api as api;
use holdfast_custody::Revision;
use holdfast_effects::{Callback, Port, Returned};
use holdfast_manifest::{Manifest, Mode, Per};
use holdfast_runtime::{CallEnd, ProviderReport, ProviderState, Registry};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::rooms::{HostFailure, ModuleReport, Modules, ProviderModule};

impl Modules for Registry {
    fn get(&self, provider: &str) -> Option<Arc<dyn ProviderModule>> {
        Registry::get(self, provider).map(|revision| Arc::new(Loaded(revision)) as Arc<dyn ProviderModule>)
    }

    fn reports(&self) -> Vec<ModuleReport> {
        self.snapshot().iter().map(report).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Registry::changes(self)
    }
}

struct Loaded(Arc<holdfast_runtime::Revision>);

#[async_trait::async_trait]
impl ProviderModule for Loaded {
    fn revision(&self) -> Revision {
        self.0.id.clone()
    }

    fn manifest(&self) -> Arc<Manifest> {
        self.0.module.manifest().clone()
    }

    async fn call(
        &self,
        callback: Callback,
        port: Arc<dyn Port>,
        deadline: Timestamp,
    ) -> Result<Returned, HostFailure> {
        self.0.module.call(callback, port, deadline).await.map_err(HostFailure::from)
    }
}

impl From<CallEnd> for HostFailure {
    fn from(end: CallEnd) -> Self {
        match end {
            CallEnd::Violation(violation) => violation.into(),
            other => Self {
                reason: other.reason().to_owned(),
                message: other.to_string(),
                permanent: false,
                blameless: matches!(other, CallEnd::Overloaded | CallEnd::Closed | CallEnd::Fault),
            },
        }
    }
}

fn report(report: &ProviderReport) -> ModuleReport {
    let manifest = report.manifest.as_deref();
    let status = api::ProviderStatus {
        file: report.file.clone(),
        digest: report.digest.clone(),
        version: report.version.clone(),
        contract: report.contract.clone(),
        state: state(report.state),
        operations: manifest.map(operations).unwrap_or_default(),
        endpoints: report.endpoints.iter().map(|e| endpoint(&e.name, e.bound, manifest)).collect(),
        call_set: report.call_set.clone(),
        meaning: report.meaning.clone(),
        add_line: report.add_line.clone(),
        last_refusal: report.last_refusal.as_ref().map(|refusal| api::ProviderRefusal {
            file: refusal.file.clone(),
            digest: Some(refusal.digest.clone()).filter(|digest| !digest.is_empty()),
            reason: refusal.reason.clone(),
            at: api::whole_seconds(refusal.at),
        }),
        conditions: Vec::new(),
    };
    ModuleReport { name: report.name.clone(), status }
}

fn state(state: ProviderState) -> api::ProviderState {
    match state {
        ProviderState::Loading => api::ProviderState::Loading,
        ProviderState::Ready => api::ProviderState::Ready,
        ProviderState::PendingApproval => api::ProviderState::PendingApproval,
        ProviderState::Refused => api::ProviderState::Refused,
        ProviderState::Unbound => api::ProviderState::Unbound,
    }
}

fn operations(manifest: &Manifest) -> Vec<api::ProviderOperationKind> {
    let kinds = manifest.operations.iter();
    kinds
        .map(|(kind, operation)| api::ProviderOperationKind {
            kind: kind.clone(),
            mode: match operation.mode {
                Mode::Immediate => api::OperationMode::Immediate,
                Mode::LongRunning => api::OperationMode::LongRunning,
            },
            replay_safe: operation.replay_safe,
        })
        .collect()
}

fn endpoint(name: &str, bound: bool, manifest: Option<&Manifest>) -> api::ProviderEndpoint {
    let declared = manifest.and_then(|manifest| manifest.endpoints.get(name));
    api::ProviderEndpoint {
        name: name.to_owned(),
        about: declared.map(|endpoint| endpoint.about.clone()).unwrap_or_default(),
        per: declared.and_then(|endpoint| match &endpoint.per {
            Per::None => None,
            Per::Config(key) => Some(format!("config.{key}")),
            Per::Machine { .. } => Some("machine".to_owned()),
        }),
        bound,
        origin: None,
    }
}
