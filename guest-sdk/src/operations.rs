//! Lifecycle operations on machines that exist.

pub use crate::bindings::exports::holdfast::provider::operations::{
    BeginResult, Machine, OperationRequest, OperationResult, PollResult, ProviderMachine, ProviderOperation,
    State,
};
use crate::error::{Error, millis};
use crate::lent::{Credentials, UserData};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// What a poll answers; made by [`Poll::in_progress`], [`Poll::succeeded`] and [`Poll::failed`].
pub type Poll = PollResult;

/// The callbacks of an operations provider. The manifest says which kinds exist and in which mode; a callback looks at
/// `request.kind`. Each call runs in a fresh instance: nothing is remembered but the resume token.
///
/// Callbacks are repeated after crashes and lost answers. What they change, they change by `calls::…(key, …)`, which
/// takes effect at most once per key.
pub trait Operations {
    /// Runs an immediate operation to its end.
    ///
    /// # Errors
    /// Permanent, or transient to be called again. The default is `unsupported`.
    fn execute(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        replace_user_data: Option<UserData<'_>>,
    ) -> Result<OperationResult, Error> {
        let _ = (credentials, replace_user_data);
        Err(Error::unsupported(&format!("{} as an immediate operation", request.kind)))
    }

    /// Starts a long-running operation. Repeated with the same `request.uid` until the handle is stored.
    ///
    /// # Errors
    /// As [`Self::execute`].
    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        replace_user_data: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        let _ = (credentials, replace_user_data);
        Err(Error::unsupported(&format!("{} as a long-running operation", request.kind)))
    }

    /// Observes an accepted operation. Valid, with the same answer, until the operation is complete.
    ///
    /// # Errors
    /// Transient where the state could not be observed: the operation itself goes on.
    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<PollResult, Error> {
        let _ = (operation, credentials);
        Err(Error::unsupported(&format!("polling {}", request.kind)))
    }

    /// Asks for an accepted operation to be stopped. Success means asked, not stopped.
    ///
    /// # Errors
    /// `unsupported` where nothing can be stopped, which is the default.
    fn cancel(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<(), Error> {
        let _ = (operation, credentials);
        Err(Error::unsupported(&format!("canceling {}", request.kind)))
    }

    /// Removes what the applied result left behind. Repeatable; called only where the manifest says `cleanup = true`.
    ///
    /// # Errors
    /// Transient to be called again. The default has nothing to remove.
    fn cleanup(
        request: OperationRequest,
        result: OperationResult,
        credentials: Option<Credentials<'_>>,
    ) -> Result<(), Error> {
        let _ = (request, result, credentials);
        Ok(())
    }
}

impl OperationRequest {
    /// Value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the operation is no longer wanted: its deadline has passed, or it was cancelled. A poll that waits for
    /// what may never come ends then, with [`PollResult::canceled`] and a message that says what may still happen.
    pub fn is_given_up(&self) -> bool {
        // Both are whole seconds of UTC in one form, which sorts as time does.
        self.deadline.as_deref().is_some_and(|deadline| deadline <= crate::now().as_str())
    }
}

impl Machine {
    /// The machine's current provider ID.
    ///
    /// # Errors
    /// Permanent `invalid-input` where the machine has none.
    pub fn require_provider_id(&self) -> Result<&str, Error> {
        self.provider_id.as_deref().ok_or_else(|| {
            Error::invalid_input("ProviderIDMissing", format!("machine {} has no provider ID", self.name))
        })
    }

    /// A text or number at a JSON pointer into the machine object's spec (`/spec/systemID` as the manifest writes it).
    ///
    /// # Errors
    /// Permanent `invalid-input` where there is no machine object or no such value.
    pub fn object_value(&self, pointer: &str) -> Result<String, Error> {
        let missing = |what: &str| {
            Error::invalid_input("MachineObjectMissing", format!("machine {} {what}", self.name))
        };
        let object = self.provider_ref.as_ref().ok_or_else(|| missing("refers to no machine object"))?;
        let (text, inner) = match (pointer.strip_prefix("/spec"), pointer.strip_prefix("/status")) {
            (Some(inner), _) => (&object.spec, inner),
            (None, Some(inner)) => (&object.status, inner),
            (None, None) => (&object.spec, pointer),
        };
        let tree: Value =
            serde_json::from_str(text).map_err(|_| missing("refers to an object that is no JSON"))?;
        match tree.pointer(inner) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(missing(&format!("refers to an object without a value at {pointer}"))),
        }
    }
}

impl OperationResult {
    /// A result that changes nothing about the machine's identity.
    pub fn unchanged() -> OperationResult {
        OperationResult { provider_id: None, cleanup_provider_id: None }
    }

    /// The machine is now this one, and the old one is to be cleaned up.
    pub fn replaced(provider_id: impl Into<String>, old: Option<String>) -> OperationResult {
        OperationResult { provider_id: Some(provider_id.into()), cleanup_provider_id: old }
    }
}

impl BeginResult {
    /// Accepted, with what `poll` needs to go on.
    ///
    /// # Errors
    /// Where the state does not fit into a resume token.
    pub fn accepted<T: Serialize>(operation_id: impl Into<String>, state: &T) -> Result<BeginResult, Error> {
        let operation = ProviderOperation {
            operation_id: operation_id.into(),
            resume_token: crate::resume::ResumeToken::encode(state)?,
        };
        Ok(BeginResult { operation, message: String::new(), requeue_after: None })
    }

    /// With one sentence for a person.
    pub fn message(mut self, message: impl Into<String>) -> BeginResult {
        self.message = message.into();
        self
    }

    /// First poll no sooner than this.
    pub fn poll_after(mut self, after: Duration) -> BeginResult {
        self.requeue_after = Some(millis(after));
        self
    }
}

impl PollResult {
    /// Not there yet.
    pub fn in_progress(message: impl Into<String>) -> PollResult {
        poll(State::InProgress, None, "InProgress", message.into())
    }

    /// Done, with this result.
    pub fn succeeded(result: OperationResult) -> PollResult {
        poll(State::Succeeded, Some(result), "Succeeded", String::new())
    }

    /// Ended without success. `reason` is CamelCase, `message` one sentence for a person.
    pub fn failed(reason: &str, message: impl Into<String>) -> PollResult {
        poll(State::Failed, None, reason, message.into())
    }

    /// Stopped, because it was asked to be.
    pub fn canceled(message: impl Into<String>) -> PollResult {
        poll(State::Canceled, None, "Canceled", message.into())
    }

    /// With the next poll no sooner than this.
    pub fn after(mut self, after: Duration) -> PollResult {
        self.requeue_after = Some(millis(after));
        self
    }
}

fn poll(state: State, result: Option<OperationResult>, reason: &str, message: String) -> PollResult {
    PollResult { state, result, reason: reason.to_owned(), message, requeue_after: None }
}
