//! Capacity: resolving a class into offerings, allocating and releasing hosts.

pub use crate::bindings::exports::holdfast::provider::capacity::{
    AllocatePollResult, Allocation, AllocationResult, ClassRequest, Offering, OwnedResource, Plan,
    PlanRequest, ProviderConfig, ReleasePollResult,
};
use crate::error::Error;
use crate::lent::{Credentials, UserData};
use crate::operations::{BeginResult, OperationRequest, ProviderOperation, State};

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
        let (reason, message) = ("InProgress".to_owned(), message.into());
        AllocatePollResult {
            state: State::InProgress,
            result: None,
            owned_resources: owned,
            reason,
            message,
            requeue_after: None,
        }
    }

    /// The host is there.
    pub fn succeeded(result: AllocationResult, owned: Vec<OwnedResource>) -> AllocatePollResult {
        let reason = "Succeeded".to_owned();
        let state = State::Succeeded;
        AllocatePollResult {
            state,
            result: Some(result),
            owned_resources: owned,
            reason,
            message: String::new(),
            requeue_after: None,
        }
    }

    /// It will not be there; `owned` is what a release must remove.
    pub fn failed(owned: Vec<OwnedResource>, reason: &str, message: impl Into<String>) -> AllocatePollResult {
        let (reason, message) = (reason.to_owned(), message.into());
        AllocatePollResult {
            state: State::Failed,
            result: None,
            owned_resources: owned,
            reason,
            message,
            requeue_after: None,
        }
    }
}

impl ReleasePollResult {
    /// Some of it is still there.
    pub fn in_progress(remaining: Vec<OwnedResource>, message: impl Into<String>) -> ReleasePollResult {
        let (reason, message) = ("InProgress".to_owned(), message.into());
        ReleasePollResult { state: State::InProgress, remaining, reason, message, requeue_after: None }
    }

    /// All of it is gone.
    pub fn succeeded() -> ReleasePollResult {
        let reason = "Succeeded".to_owned();
        ReleasePollResult {
            state: State::Succeeded,
            remaining: Vec::new(),
            reason,
            message: String::new(),
            requeue_after: None,
        }
    }
}
