//! Capacity: resolving a class into offerings, allocating and releasing hosts.

pub use crate::bindings::exports::holdfast::provider::capacity::{
    AllocatePollResult, Allocation, AllocationResult, ClassRequest, Offering, OwnedResource, Plan,
    PlanRequest, ProviderConfig, ReleasePollResult,
};
use crate::error::{Error, millis};
use crate::lent::{Credentials, UserData};
use crate::operations::{BeginResult, OperationRequest, ProviderOperation, State};
use std::time::Duration;

/// The callbacks of a capacity provider. A module that exports them registers HostAllocate and HostRelease, and names
/// `capacity` in `provider!`.
pub trait Capacity {
    /// Normalises a class into offerings. May only read.
    ///
    /// # Errors
    /// Permanent where the class can never be served, else transient.
    fn resolve_class(
        request: ClassRequest,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Vec<Offering>, Error>;

    /// Names the host that an allocation will become. Pure: it reaches no import at all.
    ///
    /// # Errors
    /// Permanent where the request can never be served.
    fn plan_allocation(request: PlanRequest) -> Result<Plan, Error>;

    /// Starts an allocation. The only callback that is given the class's config and the first-boot data.
    ///
    /// # Errors
    /// Permanent, or transient to be called again with the same keys.
    fn begin_allocate(
        request: OperationRequest,
        allocation: Allocation,
        config: ProviderConfig,
        credentials: Option<Credentials<'_>>,
        user_data: UserData<'_>,
    ) -> Result<BeginResult, Error>;

    /// Observes an allocation.
    ///
    /// # Errors
    /// Transient where the state could not be observed.
    fn poll_allocate(
        request: OperationRequest,
        allocation: Allocation,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<AllocatePollResult, Error>;

    /// Starts a release. May only destroy what `owned` lists.
    ///
    /// # Errors
    /// As [`Self::begin_allocate`].
    fn begin_release(
        request: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        credentials: Option<Credentials<'_>>,
    ) -> Result<BeginResult, Error>;

    /// Observes a release.
    ///
    /// # Errors
    /// Transient where the state could not be observed.
    fn poll_release(
        request: OperationRequest,
        allocation: Allocation,
        owned: Vec<OwnedResource>,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<ReleasePollResult, Error>;
}

impl OwnedResource {
    /// A resource that the host recorded, by kind and id.
    pub fn new(kind: &str, id: impl Into<String>) -> OwnedResource {
        OwnedResource { kind: kind.to_owned(), id: id.into(), zone: None }
    }
}

impl AllocatePollResult {
    /// Not there yet; `owned` is everything made so far.
    pub fn in_progress(owned: Vec<OwnedResource>, message: impl Into<String>) -> AllocatePollResult {
        allocation(State::InProgress, None, owned, "InProgress", message.into())
    }

    /// The host is there.
    pub fn succeeded(result: AllocationResult, owned: Vec<OwnedResource>) -> AllocatePollResult {
        allocation(State::Succeeded, Some(result), owned, "Succeeded", String::new())
    }

    /// It will not be there; `owned` is what a release must remove. The reason `CapacityExhausted` lets the next offering
    /// be tried.
    pub fn failed(owned: Vec<OwnedResource>, reason: &str, message: impl Into<String>) -> AllocatePollResult {
        allocation(State::Failed, None, owned, reason, message.into())
    }

    /// Stopped, because it is no longer wanted; `owned` is what a release must remove.
    pub fn canceled(owned: Vec<OwnedResource>, message: impl Into<String>) -> AllocatePollResult {
        allocation(State::Canceled, None, owned, "Canceled", message.into())
    }

    /// With the next poll no sooner than this.
    pub fn after(mut self, after: Duration) -> AllocatePollResult {
        self.requeue_after = Some(millis(after));
        self
    }
}

fn allocation(
    state: State,
    result: Option<AllocationResult>,
    owned_resources: Vec<OwnedResource>,
    reason: &str,
    message: String,
) -> AllocatePollResult {
    let reason = reason.to_owned();
    AllocatePollResult { state, result, owned_resources, reason, message, requeue_after: None }
}

impl ReleasePollResult {
    /// Some of it is still there.
    pub fn in_progress(remaining: Vec<OwnedResource>, message: impl Into<String>) -> ReleasePollResult {
        release(State::InProgress, remaining, "InProgress", message.into())
    }

    /// All of it is gone. The host believes it of what was destroyed, or looked for and not found.
    pub fn succeeded() -> ReleasePollResult {
        release(State::Succeeded, Vec::new(), "Succeeded", String::new())
    }

    /// Some of it can't be removed. It is tried again later.
    pub fn failed(
        remaining: Vec<OwnedResource>,
        reason: &str,
        message: impl Into<String>,
    ) -> ReleasePollResult {
        release(State::Failed, remaining, reason, message.into())
    }

    /// With the next poll no sooner than this.
    pub fn after(mut self, after: Duration) -> ReleasePollResult {
        self.requeue_after = Some(millis(after));
        self
    }
}

fn release(state: State, remaining: Vec<OwnedResource>, reason: &str, message: String) -> ReleasePollResult {
    ReleasePollResult { state, remaining, reason: reason.to_owned(), message, requeue_after: None }
}
