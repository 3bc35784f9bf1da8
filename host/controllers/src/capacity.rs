//! What the controllers of classes and of allocations share: the rooms they work with, writes by compare-and-swap, and
//! callbacks that change nothing.
//!
//! Nothing here performs an effect: classes only read, plans reach nothing, and hosts are made and released by
//! operations alone.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{MachineOperation, Waiting};
use holdfast_effects::{Callback, Context, Effects, Failure, Owner, Phase, Returned};
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capacity_index::CapacityIndex;
use crate::clock::{Clock, add, stamp};
use crate::counts::Counts;
use crate::credentials::Credentials;
use crate::events::Events;
use crate::index::{CredentialIndex, OperationIndex};
use crate::metrics::Metrics;
use crate::operations::{Next, Scope, Settings, StepError};
use crate::queue::{Key, Queue};
use crate::rooms::{Fence, HostFailure, Modules, ProviderModule};

/// The kind by which a manifest says that its provider makes hosts (L11).
pub(crate) const HOST_ALLOCATE: &str = "HostAllocate";
/// The kind by which hosts are released.
pub(crate) const HOST_RELEASE: &str = "HostRelease";

/// What the controllers work with.
pub(crate) struct CapacityDeps {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub modules: Arc<dyn Modules>,
    pub effects: Effects,
    pub fence: Arc<dyn Fence>,
    pub credentials: Credentials,
    pub credential_index: Arc<CredentialIndex>,
    pub events: Events,
    pub metrics: Metrics,
    pub operations: Arc<OperationIndex>,
    pub index: Arc<CapacityIndex>,
    pub queue: Arc<Queue<Key>>,
    pub settings: Settings,
    pub scope: Scope,
    /// Failures in a row, by uid.
    pub counts: Counts,
}

/// After how long a step is taken again that met somebody else's write.
const SOON: Duration = Duration::from_millis(50);

/// Why a step ends here.
pub(crate) enum Stop {
    /// Something was changed by somebody else: the step is taken again on what is there now.
    Again,
    /// All is said and written; come back then.
    Until(Next),
    /// Nothing could be done.
    Failed(StepError),
}

/// What a part of a step comes to.
pub(crate) type Flow<T> = Result<T, Stop>;

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        if crate::is_status(&error, 409) || crate::is_status(&error, 404) {
            return Self::Again;
        }
        Self::Failed(error.into())
    }
}

/// The step that a part of it came to.
pub(crate) fn step(flow: Flow<Next>) -> Result<Next, StepError> {
    match flow {
        Ok(next) | Err(Stop::Until(next)) => Ok(next),
        Err(Stop::Again) => Ok(Next::After(SOON)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// A kind of this house.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync
{
}

/// A wait about to be written: why, until when, what happens by itself, and how a person ends it.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub reason: &'static str,
    /// What the person sees as the object's message.
    pub message: String,
    pub until: Option<Timestamp>,
    pub next_action: &'static str,
    pub way_out: &'static str,
    /// Whether somebody should hear of it: not of waits that belong to the way things go.
    pub warning: bool,
}

impl Wait {
    /// As it is kept. `since` moves only when the reason does.
    pub(crate) fn kept(&self, old: Option<&Waiting>, now: Timestamp) -> Waiting {
        let same = old.filter(|old| old.reason == self.reason);
        Waiting {
            reason: self.reason.to_owned(),
            since: same.map_or_else(|| stamp(now), |old| old.since.clone()),
            until: self.until.map(stamp),
            next_action: self.next_action.to_owned(),
            way_out: self.way_out.to_owned(),
        }
    }
}

impl CapacityDeps {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// Whether this daemon may write.
    pub(crate) fn may_write(&self) -> Flow<()> {
        if self.fence.held() {
            return Ok(());
        }
        Err(Stop::Failed(StepError::Later("this daemon does not hold the lease".to_owned())))
    }

    /// Whether a site and a provider are served here.
    pub(crate) fn in_scope(&self, site: &str, provider: &str) -> bool {
        let Scope { site: only_site, provider: only_provider } = &self.scope;
        only_site.as_ref().is_none_or(|only| only == site)
            && only_provider.as_ref().is_none_or(|only| only == provider)
    }

    /// Writes a status, if nobody wrote the object meanwhile.
    pub(crate) async fn put_status<K: Kind>(&self, object: &K) -> Flow<K> {
        self.may_write()?;
        Ok(self.api::<K>().replace_status(&object.name_any(), &PostParams::default(), object).await?)
    }

    /// Patches an object, if it is still the one that was read and nobody wrote it meanwhile.
    pub(crate) async fn patch<K: Kind>(&self, object: &K, mut patch: serde_json::Value) -> Flow<K> {
        self.may_write()?;
        patch["metadata"]["uid"] = object.uid().into();
        patch["metadata"]["resourceVersion"] = object.resource_version().into();
        let (api, params) = (self.api::<K>(), PatchParams::default());
        Ok(api.patch(&object.name_any(), &params, &Patch::Merge(patch)).await?)
    }

    /// Adds or takes away a finalizer.
    pub(crate) async fn set_finalizer<K: Kind>(
        &self,
        object: &K,
        finalizer: &str,
        wanted: bool,
    ) -> Flow<Option<K>> {
        let have = object.finalizers();
        if have.iter().any(|one| one == finalizer) == wanted {
            return Ok(None);
        }
        let mut all: Vec<&str> = have.iter().map(String::as_str).filter(|one| *one != finalizer).collect();
        if wanted {
            all.push(finalizer);
        }
        let patch = serde_json::json!({ "metadata": { "finalizers": all } });
        self.patch(object, patch).await.map(Some)
    }

    /// Deletes an object, if it is still the one that was read.
    pub(crate) async fn delete<K: Kind>(&self, object: &K) -> Flow<()> {
        self.may_write()?;
        let preconditions = kube::api::Preconditions { uid: object.uid(), resource_version: None };
        let params = kube::api::DeleteParams {
            preconditions: Some(preconditions),
            ..kube::api::DeleteParams::default()
        };
        match self.api::<K>().delete(&object.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(error) if crate::is_status(&error, 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a callback that changes nothing: it has no journal, so that nothing can be performed (R2.21, R2.24).
    pub(crate) async fn ask(
        &self,
        module: &dyn ProviderModule,
        name: &'static str,
        context: Context,
        callback: Callback,
    ) -> Result<Returned, Trouble> {
        let (provider, end, started) = (context.provider.clone(), context.deadline, Instant::now());
        let session = self.effects.open(context, module.manifest(), None);
        let answer = module.call(callback, session.clone(), end).await;
        self.metrics.callback(&provider, name, started.elapsed());
        let answer = answer.and_then(|returned| session.accept(returned).map_err(HostFailure::from));
        for line in session.logs() {
            tracing::info!(%provider, callback = name, level = ?line.level, fields = ?line.fields, "provider: {}", line.message);
        }
        answer.map_err(|failure| {
            tracing::warn!(%provider, callback = name, %failure, "no usable answer");
            Trouble::from(failure)
        })
    }

    /// The frozen context of such a callback.
    pub(crate) fn context(
        &self,
        module: &dyn ProviderModule,
        phase: Phase,
        owner: Owner,
        site: &str,
        timeout: Duration,
    ) -> Context {
        let now = self.now();
        Context {
            revision: module.revision(),
            provider: module.manifest().provider.name.to_string(),
            phase,
            operation_uid: owner.uid.clone(),
            owner,
            attempt: 0,
            site: site.to_owned(),
            provider_id: None,
            frozen_provider_id: None,
            cleanup_provider_id: None,
            machine_object: None,
            owned: Vec::new(),
            host_image: None,
            host_name: None,
            config: std::collections::BTreeMap::new(),
            offering: None,
            credentials: None,
            user_data: None,
            deadline: add(now, timeout),
            now,
        }
    }
}

/// Whether a provider makes hosts.
pub(crate) fn offers_capacity(manifest: &Manifest) -> bool {
    manifest.operations.contains_key(HOST_ALLOCATE) && manifest.operations.contains_key(HOST_RELEASE)
}

/// Whether an operation serves an allocation.
pub(crate) fn serves_allocation(operation: &MachineOperation) -> Option<&str> {
    operation.spec.allocation_ref.as_ref().map(|allocation| allocation.name.as_str())
}

/// Why a callback gave nothing to go on with.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// A repeat ends the same way.
    pub permanent: bool,
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
    pub retry_after_ms: Option<u64>,
    /// The host got no answer from the module, and the module had a part in that.
    pub module_fault: bool,
}

impl Trouble {
    /// The provider answered another question.
    pub(crate) fn wrong_answer() -> Self {
        Self {
            permanent: false,
            reason: "WrongAnswer".to_owned(),
            message: "the provider answered another question".to_owned(),
            retry_after_ms: None,
            module_fault: true,
        }
    }

    /// The failure of a provider; `default` is the reason where it gives none.
    pub(crate) fn told(failure: Failure, default: &str) -> Self {
        let blank = failure.reason.trim().is_empty();
        Self {
            permanent: failure.permanent,
            reason: if blank { default.to_owned() } else { failure.reason },
            message: failure.message,
            retry_after_ms: failure.retry_after_ms,
            module_fault: false,
        }
    }
}

impl From<HostFailure> for Trouble {
    fn from(failure: HostFailure) -> Self {
        Self {
            permanent: failure.permanent,
            reason: failure.reason,
            message: failure.message,
            retry_after_ms: None,
            module_fault: !failure.blameless,
        }
    }
}
