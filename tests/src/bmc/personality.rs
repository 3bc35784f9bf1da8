//! The manners of a BMC: each field is something that real ones do differently.
//! The numbers (N01 …) are those of the field reports about Redfish and power.

use std::time::Duration;

/// How clients prove who they are.
#[derive(Clone, Debug)]
pub struct Access {
    /// Basic authentication works.
    pub basic: bool,
    /// None: there is no session service, and the service root does not name one.
    pub sessions: Option<Sessions>,
    /// After so many wrong passwords in a row the account is locked until [`super::Bmc::unlock`].
    pub lockout_after: Option<u32>,
}

impl Default for Access {
    fn default() -> Access {
        Access { basic: true, sessions: Some(Sessions::default()), lockout_after: None }
    }
}

/// The session table (N08: a few slots, 503 when it is full).
#[derive(Clone, Debug)]
pub struct Sessions {
    pub slots: usize,
    pub location: Location,
    /// Unused for so long, a session is gone and its slot free.
    pub idle: Duration,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { slots: 4, location: Location::Relative, idle: Duration::from_secs(1800) }
    }
}

/// How a `Location` header names its target (N09).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// `/redfish/v1/…`
    Relative,
    /// `https://host:port/redfish/v1/…`, with the host that the client named.
    Absolute,
}

/// The values of the reset action (DSP0266, `ComputerSystem.Reset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResetType {
    On,
    ForceOn,
    ForceOff,
    GracefulShutdown,
    GracefulRestart,
    ForceRestart,
    PowerCycle,
}

impl ResetType {
    pub const ALL: [ResetType; 7] = [
        ResetType::On,
        ResetType::ForceOn,
        ResetType::ForceOff,
        ResetType::GracefulShutdown,
        ResetType::GracefulRestart,
        ResetType::ForceRestart,
        ResetType::PowerCycle,
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            ResetType::On => "On",
            ResetType::ForceOn => "ForceOn",
            ResetType::ForceOff => "ForceOff",
            ResetType::GracefulShutdown => "GracefulShutdown",
            ResetType::GracefulRestart => "GracefulRestart",
            ResetType::ForceRestart => "ForceRestart",
            ResetType::PowerCycle => "PowerCycle",
        }
    }

    pub fn from_word(word: &str) -> Option<ResetType> {
        ResetType::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// Where the service lists the reset types that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTypesIn {
    /// `ResetType@Redfish.AllowableValues` of the system's action.
    System,
    /// The resource that `@Redfish.ActionInfo` of the action names.
    ActionInfo,
    Nowhere,
}

/// Where the reset action is; elsewhere is 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetTarget {
    /// `/redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset`
    Standard,
    /// `/redfish/v1/Systems/{id}/Actions/Oem/Vendor.Reset`
    Vendor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetAnswer {
    /// 204; the change comes later.
    NoContent,
    /// 202 and a task monitor, which is 202 while the change is under way and 404 afterwards (N09). The task itself
    /// stays in the task list.
    Task(Location),
}

/// The `ETag` of a system (N02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etag {
    Absent,
    /// `"7"`
    Strong,
    /// `W/"7"`, taken back as given and in its strong form.
    Weak,
    /// `W/"7"`, but only `"7"` is taken back: 412 for the weak form.
    WeakNotTakenBack,
}

/// What `If-Match` is good for (N01). Wherever it is sent, `*` and the current tag match and all else is 412.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    Optional,
    /// 428 for a PATCH without it.
    RequiredOnPatch,
    /// 428 for a PATCH or an action without it.
    RequiredOnWrites,
}

/// What the operating system does when it is asked to go down or to restart (N16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soft {
    Obeyed,
    /// Accepted by the BMC, and nothing happens.
    Ignored,
}

/// Whether power on is accepted soon after power off (N06); refused with 409.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAfterOff {
    Accepted,
    /// So many times after each power off.
    RefusedTimes(u32),
    /// For so long after each power off.
    RefusedFor(Duration),
}

/// The manners of one system.
#[derive(Clone, Debug)]
pub struct Personality {
    pub reset_types: Vec<ResetType>,
    pub reset_types_in: ResetTypesIn,
    pub reset_target: ResetTarget,
    pub reset_answer: ResetAnswer,
    pub etag: Etag,
    pub if_match: IfMatch,
    /// From the acceptance of a change (or the end of the one before) until it is done.
    pub power_delay: Duration,
    /// `PowerState` is `PoweringOn` or `PoweringOff` meanwhile, else the old state.
    pub transitional_states: bool,
    pub soft: Soft,
    pub on_after_off: OnAfterOff,
}

impl Default for Personality {
    fn default() -> Personality {
        Personality {
            reset_types: ResetType::ALL.to_vec(),
            reset_types_in: ResetTypesIn::System,
            reset_target: ResetTarget::Standard,
            reset_answer: ResetAnswer::NoContent,
            etag: Etag::Strong,
            if_match: IfMatch::Optional,
            power_delay: Duration::from_millis(50),
            transitional_states: false,
            soft: Soft::Obeyed,
            on_after_off: OnAfterOff::Accepted,
        }
    }
}

impl Personality {
    /// The same without some reset types (N03).
    pub fn without(mut self, refused: &[ResetType]) -> Personality {
        self.reset_types.retain(|it| !refused.contains(it));
        self
    }
}
