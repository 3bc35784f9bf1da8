//! How a cloud is started.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{behaviour::Behaviour, secrets::random_word};

/// Options of a cloud. The defaults listen on an ephemeral loopback port and make every secret at random.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Further names for the server certificate, besides `localhost`, `127.0.0.1` and `::1`.
    pub names: Vec<String>,
    /// The first bearer token of the data API.
    pub api_token: String,
    /// Bearer token of `/_sim/`.
    pub admin_token: String,
    /// User and password of `POST /v1/sessions`.
    pub user: String,
    pub password: String,
    /// Keep bodies in the record of requests. They hold secrets.
    pub record_bodies: bool,
    /// Requests kept in the record; older ones are dropped, zero keeps none.
    pub record_limit: usize,
    pub types: Vec<MachineType>,
    pub zones: Vec<String>,
    pub behaviour: Behaviour,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            names: Vec::new(),
            api_token: random_word("api"),
            admin_token: random_word("admin"),
            user: "operator".into(),
            password: random_word("password"),
            record_bodies: false,
            record_limit: 100_000,
            types: vec![
                MachineType { name: "small".into(), cpus: 2, memory_mib: 4096, price_micros_per_hour: 8_000 },
                MachineType {
                    name: "large".into(),
                    cpus: 16,
                    memory_mib: 65_536,
                    price_micros_per_hour: 160_000,
                },
            ],
            zones: vec!["zone-a".into(), "zone-b".into()],
            behaviour: Behaviour::default(),
        }
    }
}

/// A type of machine, as in `GET /v1/types`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineType {
    pub name: String,
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Price in millionths of the account's currency.
    pub price_micros_per_hour: u64,
}

/// A server that exists without having been made through the API: it leaves no entry in the ledger and is visible
/// at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Seed {
    pub name: String,
    /// Label `holdfast`.
    pub label: Option<String>,
    /// Label `managed-by`.
    pub manager: Option<String>,
    pub image: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub zone: Option<String>,
    /// A status word; `running` by default.
    pub status: String,
    pub user_data: String,
}

impl Default for Seed {
    fn default() -> Self {
        Seed {
            name: "seeded".into(),
            label: None,
            manager: None,
            image: "image-1".into(),
            kind: None,
            zone: None,
            status: "running".into(),
            user_data: String::new(),
        }
    }
}

impl Seed {
    /// A running server of that name.
    pub fn named(name: &str) -> Seed {
        Seed { name: name.to_owned(), ..Seed::default() }
    }
}

/// The catalogue that does not change while the cloud runs.
#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub types: Vec<MachineType>,
    pub zones: Vec<String>,
}

impl Catalogue {
    pub fn types_json(&self) -> Vec<Value> {
        self.types.iter().map(|kind| serde_json::to_value(kind).unwrap_or_default()).collect()
    }
}
