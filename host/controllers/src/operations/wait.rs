//! Waits. Each has a reason out of a fixed list, a since, a next action and a way out (architecture: no state lasts
//! for ever unseen).

use holdfast_api::{MachineOperationStatus, Waiting, truncate_message};
use jiff::Timestamp;

use crate::clock::stamp;

/// Why an operation waits. The words are `status.waiting.reason` and labels of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WaitReason {
    OtherOperation,
    ProviderNotRegistered,
    OperationNotOffered,
    ResumeTokenUnreadable,
    JournalUnreadable,
    AuthUnavailable,
    InputUnavailable,
    BeginFailed,
    ExecutionFailed,
    EffectInDoubt,
    ProviderOperation,
    UnknownProviderState,
    PollFailed,
    CleanupFailed,
    CleanupInDoubt,
    OutcomeUnknown,
}

impl WaitReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OtherOperation => "WaitingForOperation",
            Self::ProviderNotRegistered => "ProviderNotRegistered",
            Self::OperationNotOffered => "OperationNotOffered",
            Self::ResumeTokenUnreadable => "ResumeTokenUnreadable",
            Self::JournalUnreadable => "JournalUnreadable",
            Self::AuthUnavailable => crate::index::AUTH_UNAVAILABLE,
            Self::InputUnavailable => "InputUnavailable",
            Self::BeginFailed => "BeginFailed",
            Self::ExecutionFailed => "ExecutionFailed",
            Self::EffectInDoubt => "EffectInDoubt",
            Self::ProviderOperation => "WaitingProviderOperation",
            Self::UnknownProviderState => "UnknownProviderState",
            Self::PollFailed => "PollFailed",
            Self::CleanupFailed => "CleanupFailed",
            Self::CleanupInDoubt => "CleanupInDoubt",
            Self::OutcomeUnknown => "OutcomeUnknown",
        }
    }

    /// What the daemon does next by itself.
    fn next_action(self) -> &'static str {
        match self {
            Self::OtherOperation => "starts when the operation before it on the machine has ended",
            Self::ProviderNotRegistered => "goes on when the provider is loaded",
            Self::OperationNotOffered => "goes on when a revision of the provider offers the kind again",
            Self::ResumeTokenUnreadable => "goes on when a revision of the provider reads the resume token",
            Self::JournalUnreadable => "nothing is sent; the journal is read again",
            Self::AuthUnavailable => "the credentials are looked up again",
            Self::InputUnavailable => "the inputs are read again",
            Self::BeginFailed => "begin is called again",
            Self::ExecutionFailed => "execute is called again",
            Self::EffectInDoubt => {
                "the provider is called again and the effect is looked up or repeated as declared"
            }
            Self::ProviderOperation | Self::UnknownProviderState | Self::PollFailed => {
                "the provider is polled again"
            }
            Self::CleanupFailed | Self::CleanupInDoubt => "cleanup is called again",
            Self::OutcomeUnknown => "nothing: a person must say what happened",
        }
    }

    /// How a person ends the wait.
    fn way_out(self) -> &'static str {
        match self {
            Self::OtherOperation => "let the operation before it end or cancel it; or set spec.cancel here",
            Self::ProviderNotRegistered => {
                "put the provider's module into the providers folder and approve it; or set spec.cancel, which ends the \
                 operation unless the provider has accepted it"
            }
            Self::OperationNotOffered | Self::ResumeTokenUnreadable => {
                "put back a revision of the provider that knows this operation"
            }
            Self::JournalUnreadable => {
                "put back the version of Holdfast that wrote status.effects; or set spec.cancel, which ends the \
                 operation unless the provider has accepted it"
            }
            Self::AuthUnavailable => {
                "mend the ProviderCredential or its Secret as the message says, or set spec.cancel"
            }
            Self::InputUnavailable => "make the object that the message names, or set spec.cancel",
            Self::CleanupFailed | Self::CleanupInDoubt => {
                "mend what the message says; the result is already applied"
            }
            Self::BeginFailed
            | Self::ExecutionFailed
            | Self::EffectInDoubt
            | Self::ProviderOperation
            | Self::UnknownProviderState
            | Self::PollFailed => "set spec.cancel",
            Self::OutcomeUnknown => {
                "look at the service, then set spec.resolve to the effect's key and TookEffect, DidNotHappen or \
                 Abandon; or set spec.cancel to give the operation up"
            }
        }
    }
}

/// A wait about to be written.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub reason: WaitReason,
    /// What the person sees as the operation's message.
    pub message: String,
    /// Until when, where that is known and worth a write.
    pub until: Option<Timestamp>,
    /// Another way out than the reason's own.
    pub way_out: Option<&'static str>,
}

/// A release that has begun can't be cancelled: what is half released is released.
const OUT_OF_RELEASE: &str = "mend what the message says; or set spec.resolve to the key of any effect and Abandon, which \
     ends this release: what it has not released stays recorded for the next";

impl Wait {
    pub(crate) fn new(reason: WaitReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), until: None, way_out: None }
    }

    pub(crate) fn until(mut self, at: Timestamp) -> Self {
        self.until = Some(at);
        self
    }

    /// The same wait of a release that has begun.
    pub(crate) fn of_release(mut self) -> Self {
        self.way_out = Some(OUT_OF_RELEASE);
        self
    }

    /// Puts the wait into a status. `since` moves only when the reason does. Returns whether the reason is new.
    pub(crate) fn put(&self, status: &mut MachineOperationStatus, now: Timestamp) -> bool {
        let reason = self.reason.as_str();
        let old = status.waiting.as_ref().filter(|old| old.reason == reason);
        let since = old.map_or_else(|| stamp(now), |old| old.since.clone());
        let new = old.is_none();
        status.waiting = Some(Waiting {
            reason: reason.to_owned(),
            since,
            until: self.until.map(stamp),
            next_action: self.reason.next_action().to_owned(),
            way_out: self.way_out.unwrap_or(self.reason.way_out()).to_owned(),
        });
        status.reason = Some(reason.to_owned());
        status.message = Some(truncate_message(&self.message).to_owned());
        new
    }
}
