//! Volumes and network interfaces: what is made beside a server and outlives it unless it is deleted too.
//! Each kind is kept by number and by label; an owner's resources of all kinds are kept in one order for paging.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::{clock::rfc3339, ledger::EffectKind, sight::Sight};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartKind {
    Volume,
    Nic,
}

impl PartKind {
    pub fn prefix(self) -> &'static str {
        match self {
            PartKind::Volume => "vol",
            PartKind::Nic => "nic",
        }
    }

    /// Member of an answer that holds one; the list has an s more.
    pub fn word(self) -> &'static str {
        match self {
            PartKind::Volume => "volume",
            PartKind::Nic => "nic",
        }
    }

    pub fn created(self) -> EffectKind {
        match self {
            PartKind::Volume => EffectKind::CreateVolume,
            PartKind::Nic => EffectKind::CreateNic,
        }
    }

    pub fn deleted(self) -> EffectKind {
        match self {
            PartKind::Volume => EffectKind::DeleteVolume,
            PartKind::Nic => EffectKind::DeleteNic,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub kind: PartKind,
    pub number: u64,
    pub name: String,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    /// Of volumes.
    pub size_gib: Option<u64>,
    /// Number of the server that it is attached to.
    pub server: Option<u64>,
    pub created_ms: i64,
    pub gone_ms: Option<i64>,
    pub sight: Sight,
}

impl Part {
    pub fn id(&self) -> String {
        format!("{}-{}", self.kind.prefix(), self.number)
    }

    pub fn label(&self) -> Option<&str> {
        self.labels.get("holdfast").map(String::as_str)
    }

    /// Label `managed-by`.
    pub fn manager(&self) -> Option<&str> {
        self.labels.get("managed-by").map(String::as_str)
    }

    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "id": self.id(),
            "name": self.name,
            "status": if self.gone_ms.is_some() { "deleting" } else { "available" },
            "zone": self.zone,
            "labels": self.labels,
            "server": self.server.map(|number| format!("srv-{number}")),
            "created_at": rfc3339(self.created_ms),
        });
        if let Some(size) = self.size_gib {
            json["size_gib"] = json!(size);
        }
        json
    }
}

/// All parts of one kind.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    all: BTreeMap<u64, Part>,
    labels: HashMap<String, BTreeSet<u64>>,
    by_server: HashMap<u64, BTreeSet<u64>>,
    /// Parts that linger in reads after they are gone, by the time at which they are forgotten.
    lingering: BTreeSet<(i64, u64)>,
    last: u64,
    pub live: usize,
}

impl Parts {
    /// A number for a new one; numbers are not used again.
    pub fn take_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn insert(&mut self, part: Part) {
        if let Some(label) = part.label() {
            self.labels.entry(label.to_owned()).or_default().insert(part.number);
        }
        if let Some(server) = part.server {
            self.by_server.entry(server).or_default().insert(part.number);
        }
        self.live += 1;
        self.all.insert(part.number, part);
    }

    pub fn get(&mut self, number: u64) -> Option<&mut Part> {
        self.all.get_mut(&number)
    }

    pub fn labelled(&self, label: &str) -> Vec<u64> {
        self.labels.get(label).into_iter().flatten().copied().collect()
    }

    /// The first numbers after one, in order.
    pub fn after(&self, number: u64, most: usize) -> Vec<u64> {
        self.all.range(number + 1..).map(|(number, _)| *number).take(most).collect()
    }

    /// Gone from now on; reads may show it until then.
    pub fn end(&mut self, number: u64, now: i64, until: i64) {
        let Some(part) = self.all.get_mut(&number) else { return };
        part.gone_ms = Some(now);
        self.live -= 1;
        self.lingering.insert((until, number));
    }

    /// A server that is gone holds nothing.
    pub fn detach(&mut self, server: u64) {
        for number in self.by_server.remove(&server).unwrap_or_default() {
            if let Some(part) = self.all.get_mut(&number) {
                part.server = None;
            }
        }
    }

    /// Forgets what no read shows any more; returns what it was.
    pub fn sweep(&mut self, now: i64) -> Vec<Part> {
        let mut forgotten = Vec::new();
        while let Some((_, number)) = self.lingering.first().copied().filter(|(until, _)| *until <= now) {
            self.lingering.pop_first();
            let Some(part) = self.all.remove(&number) else { continue };
            if let Some(numbers) = part.label().and_then(|label| self.labels.get_mut(label)) {
                numbers.remove(&number);
            }
            if let Some(numbers) = part.server.and_then(|server| self.by_server.get_mut(&server)) {
                numbers.remove(&number);
            }
            forgotten.push(part);
        }
        forgotten
    }

    /// Ids of those that are not gone.
    pub fn live_ids(&self) -> impl Iterator<Item = String> + '_ {
        self.all.values().filter(|part| part.gone_ms.is_none()).map(Part::id)
    }
}
