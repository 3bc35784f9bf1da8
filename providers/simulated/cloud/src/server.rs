//! One server, and the one change that may be under way on it.
//! A change is stored with the time at which it is done and applied when the server is next looked at; nothing runs
//! in the background, so thousands of servers cost nothing while they wait.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{clock::rfc3339, sight::Sight};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Off,
    Starting,
    Stopping,
    Rebuilding,
    Deleting,
    Error,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Off => "off",
            Status::Starting => "starting",
            Status::Stopping => "stopping",
            Status::Rebuilding => "rebuilding",
            Status::Deleting => "deleting",
            Status::Error => "error",
        }
    }

    pub fn from_word(word: &str) -> Option<Status> {
        use Status::*;
        [Running, Off, Starting, Stopping, Rebuilding, Deleting, Error]
            .into_iter()
            .find(|it| it.word() == word)
    }
}

/// What a change does when it is done.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    PowerOn,
    PowerOff,
    Reset,
    Rebuild {
        image: String,
        was_off: bool,
    },
    Delete,
    /// A create that went wrong after the server existed.
    Fail,
}

#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub change: Change,
    pub due: i64,
    pub action: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub number: u64,
    pub name: String,
    pub image: String,
    pub kind: String,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
    pub status: Status,
    pub power_generation: u64,
    pub boots: u64,
    pub version: u64,
    pub created_ms: i64,
    pub user_data: Vec<u8>,
    pub pending: Option<Pending>,
    /// When it was gone.
    pub gone_ms: Option<i64>,
    pub sight: Sight,
}

impl Server {
    pub fn id(&self) -> String {
        format!("srv-{}", self.number)
    }

    pub fn label(&self) -> Option<&str> {
        self.labels.get("holdfast").map(String::as_str)
    }

    /// Label `managed-by`.
    pub fn manager(&self) -> Option<&str> {
        self.labels.get("managed-by").map(String::as_str)
    }

    pub fn etag(&self) -> String {
        format!("\"{}-{}-{}\"", self.number, self.created_ms, self.version)
    }

    /// Applies the change that is due.
    pub fn settle(&mut self, now: i64) {
        let Some(pending) = self.pending.take_if(|pending| pending.due <= now) else { return };
        self.version += 1;
        match pending.change {
            Change::PowerOn => {
                self.status = Status::Running;
                self.power_generation += 1;
                self.boots += 1;
            }
            Change::PowerOff => self.status = Status::Off,
            Change::Reset => {
                self.status = Status::Running;
                self.boots += 1;
            }
            Change::Rebuild { image, was_off } => {
                self.status = Status::Running;
                self.image = image;
                self.power_generation += u64::from(was_off);
                self.boots += 1;
            }
            Change::Delete => {
                self.status = Status::Deleting;
                self.gone_ms = Some(pending.due);
            }
            Change::Fail => self.status = Status::Error,
        }
    }

    /// On, or on its way to it.
    pub fn is_on(&self) -> bool {
        matches!(self.status, Status::Running | Status::Starting | Status::Rebuilding)
    }

    pub fn is_off(&self) -> bool {
        matches!(self.status, Status::Off | Status::Stopping)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id(),
            "name": self.name,
            "status": self.status.word(),
            "power_generation": self.power_generation,
            "boots": self.boots,
            "image": self.image,
            "type": self.kind,
            "zone": self.zone,
            "labels": self.labels,
            "created_at": rfc3339(self.created_ms),
            "etag": self.etag(),
        })
    }
}

/// `srv-7` → 7.
pub(crate) fn number_of(id: &str, prefix: &str) -> Option<u64> {
    let digits = id.strip_prefix(prefix)?.strip_prefix('-')?;
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An action: the handle of a change.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub number: u64,
    pub command: &'static str,
    pub server: String,
    pub started: i64,
    pub due: i64,
    /// Set if it ends, or ended, in `error`.
    pub error: Option<String>,
    /// Word shown in place of `running`.
    pub shown_as: Option<String>,
}

impl Action {
    pub fn id(&self) -> String {
        format!("act-{}", self.number)
    }

    pub fn to_json(&self, now: i64) -> Value {
        let done = now >= self.due;
        let status = match (&self.error, done) {
            (_, false) => self.shown_as.as_deref().unwrap_or("running"),
            (None, true) => "success",
            (Some(_), true) => "error",
        };
        let share = (now - self.started).max(0) * 100 / (self.due - self.started).max(1);
        let mut json = json!({
            "id": self.id(),
            "command": self.command,
            "server": self.server,
            "status": status,
            "progress": if done { 100 } else { share.min(99) },
        });
        if let (Some(code), true) = (&self.error, done) {
            json["error"] = json!({ "code": code, "message": "the action failed" });
        }
        json
    }
}
