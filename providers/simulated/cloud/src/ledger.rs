//! The ledger of effects: what was done to machines, not what was asked.
//! A request that is refused, replayed from its idempotency key, or finds its machine already as wanted leaves no
//! entry. Tests end with it: no twin, no leak.

use serde::{Deserialize, Serialize};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    Create,
    /// A new server made to stand in for another one.
    Replace,
    Delete,
    /// Only if the server was not on or starting.
    PowerOn,
    /// Only if the server was not off or stopping.
    PowerOff,
    /// The polite form of power off.
    Shutdown,
    Reset,
    Rebuild,
    CreateVolume,
    DeleteVolume,
    CreateNic,
    DeleteNic,
}

impl EffectKind {
    /// Does it make something?
    pub fn makes(self) -> bool {
        use EffectKind::{Create, CreateNic, CreateVolume, Replace};
        matches!(self, Create | Replace | CreateVolume | CreateNic)
    }
}

/// One effect, recorded when the cloud commits to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// From 1, without gaps.
    pub seq: u64,
    /// RFC 3339, cloud's clock.
    pub at: String,
    pub at_ms: i64,
    pub kind: EffectKind,
    /// Id of the server, volume or network interface.
    pub server: String,
    pub name: String,
    /// Its label `holdfast`.
    pub label: Option<String>,
    pub idempotency_key: Option<String>,
    /// Hex SHA-256 of `user_data` as it was received.
    pub user_data_sha256: Option<String>,
    /// Hex SHA-256 of what the machine gets, where the cloud decodes base64.
    pub user_data_decoded_sha256: Option<String>,
    /// The server that a replacement stands in for.
    pub replaces: Option<String>,
    /// Number of the request in the record of requests.
    pub request: u64,
}

/// Counters of authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthCounters {
    pub accepted: u64,
    /// Wrong or missing credentials, logins included.
    pub failed: u64,
    /// Failures since the last success.
    pub failed_in_a_row: u64,
    /// Requests that came while the account was locked.
    pub refused_while_locked: u64,
    /// Times that the account was locked.
    pub lockouts: u64,
    pub sessions_opened: u64,
    pub sessions_closed: u64,
    pub throttled: u64,
}

/// The ledger as it stands, with what is alive now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub effects: Vec<Effect>,
    /// Servers without an accepted delete.
    pub live: Vec<String>,
    /// Volumes and network interfaces that are not deleted.
    pub live_parts: Vec<String>,
    /// Ids of sessions that hold a slot.
    pub sessions: Vec<String>,
    pub auth: AuthCounters,
}

impl Ledger {
    /// Effects that made a server from nothing.
    pub fn creates(&self) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| effect.kind == EffectKind::Create).collect()
    }

    /// Everything that was done to a server, oldest first.
    pub fn effects_of(&self, server: &str) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| effect.server == server).collect()
    }

    /// How often this was done to that server.
    pub fn count(&self, kind: EffectKind, server: &str) -> usize {
        self.effects_of(server).iter().filter(|effect| effect.kind == kind).count()
    }

    /// How often this was done to any server.
    pub fn total(&self, kind: EffectKind) -> usize {
        self.effects.iter().filter(|effect| effect.kind == kind).count()
    }

    /// Labels under which more than one thing was made: what no client may ever cause.
    pub fn twins(&self) -> Vec<&str> {
        let mut made = std::collections::BTreeMap::<&str, usize>::new();
        for effect in &self.effects {
            if let (true, Some(label)) = (effect.kind.makes(), &effect.label) {
                *made.entry(label).or_default() += 1;
            }
        }
        made.into_iter().filter(|(_, count)| *count > 1).map(|(label, _)| label).collect()
    }
}
