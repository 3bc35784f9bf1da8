//! A small Redfish BMC of our own, over TLS, for what the sushy-tools emulator lacks: sessions, ETags, task monitors,
//! action targets that differ by vendor, refusals at the wrong moment. It keeps a ledger of what it really did.
//!
//! It has hundreds of systems at no cost; each may have a [`Personality`] of its own.

mod personality;
mod reply;
mod routes;
mod sessions;
mod system;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Instant,
};

use anyhow::Result;

pub use personality::{
    Access, Etag, IfMatch, Location, OnAfterOff, Personality, ResetAnswer, ResetTarget, ResetType,
    ResetTypesIn, Sessions, Soft,
};
pub use sessions::AccessCounts;
pub use system::{Ledger, Power};

use crate::{
    client::Client,
    serve::{Answer, Server},
    tls::RunCa,
};
use routes::State;
use sessions::Doorkeeper;
use system::System;

/// A running BMC; it ends when dropped.
pub struct Bmc {
    server: Server,
    state: Arc<Mutex<State>>,
    ca_pem: String,
    account: (String, String),
}

/// What a BMC is to be; by default one system, `1`, that is off, and good manners.
#[derive(Clone, Debug)]
pub struct Options {
    pub user: String,
    pub password: String,
    pub access: Access,
    pub systems: Vec<(String, Power)>,
    /// The manners of all systems; [`Bmc::set_personality`] changes one.
    pub personality: Personality,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            user: "operator".to_owned(),
            password: "bmc-password".to_owned(),
            access: Access::default(),
            systems: vec![("1".to_owned(), Power::Off)],
            personality: Personality::default(),
        }
    }
}

impl Options {
    /// Systems `1` to `count`, all with this power.
    pub fn systems(mut self, count: u32, power: Power) -> Options {
        self.systems = (1..=count).map(|number| (number.to_string(), power)).collect();
        self
    }

    pub fn personality(mut self, personality: Personality) -> Options {
        self.personality = personality;
        self
    }

    pub fn access(mut self, access: Access) -> Options {
        self.access = access;
        self
    }
}

impl Bmc {
    /// On an ephemeral loopback port, with a certificate under `ca`. Must be called within the tokio runtime on which
    /// it is to run.
    pub async fn start(ca: &RunCa, options: Options) -> Result<Bmc> {
        let account = (options.user.clone(), options.password.clone());
        let systems = options.systems.into_iter().map(|(id, power)| {
            let system = System::new(id.clone(), power, options.personality.clone());
            (id, system)
        });
        let state = Arc::new(Mutex::new(State {
            systems: systems.collect::<BTreeMap<_, _>>(),
            door: Doorkeeper::new(options.user, options.password, options.access),
            tasks: Vec::new(),
        }));
        let answering = state.clone();
        let tls = ca.issue("small BMC", &[])?.server;
        let server = Server::start(tls, move |request| {
            let reply = lock(&answering).respond(&request);
            async { Answer::Whole(reply) }
        })
        .await?;
        Ok(Bmc { server, state, ca_pem: ca.pem().to_owned(), account })
    }

    /// `https://127.0.0.1:port`
    pub fn origin(&self) -> String {
        self.server.origin()
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A client with basic authentication that talks to the BMC directly.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.origin(), &self.ca_pem)?.with_basic(&self.account.0, &self.account.1))
    }

    /// The power now, asked of the BMC itself. Panics for an unknown system, as all that takes an id does.
    pub fn power(&self, id: &str) -> Power {
        self.on_system(id, |system| system.power())
    }

    /// What was done to a system so far. Changes that are accepted and not yet done are not in it: see
    /// [`Bmc::until_quiet`].
    pub fn ledger(&self, id: &str) -> Ledger {
        self.on_system(id, |system| system.ledger.clone())
    }

    /// The ledgers of all systems.
    pub fn ledgers(&self) -> BTreeMap<String, Ledger> {
        let (mut state, now) = (lock(&self.state), Instant::now());
        let ledgers = state.systems.iter_mut().map(|(id, system)| {
            system.settle(now);
            (id.clone(), system.ledger.clone())
        });
        ledgers.collect()
    }

    /// Returns once no change is under way.
    pub async fn until_quiet(&self) {
        loop {
            let last = lock(&self.state).quiet_at().and_then(routes::until);
            match last {
                Some(left) => tokio::time::sleep(left).await,
                None => return,
            }
        }
    }

    pub fn access_counts(&self) -> AccessCounts {
        lock(&self.state).door.counts(Instant::now())
    }

    pub fn set_personality(&self, id: &str, personality: Personality) {
        self.on_system(id, |system| system.personality = personality);
    }

    /// Somebody else uses the right power button: at once, in no ledger.
    pub fn set_power(&self, id: &str, power: Power) {
        self.on_system(id, |system| system.set_power(power));
    }

    /// Somebody else changes the system now: its ETag is another one.
    pub fn change(&self, id: &str) {
        self.on_system(id, System::change);
    }

    /// Somebody else changes the system right before each of the next `times` writes: a tag that was read before
    /// does not match.
    pub fn change_before_writes(&self, id: &str, times: u32) {
        self.on_system(id, |system| system.change_before_writes(times));
    }

    /// The BMC's password is another one from now on; sessions stay.
    pub fn set_password(&self, password: &str) {
        lock(&self.state).door.set_password(password.to_owned());
    }

    pub fn set_access(&self, access: Access) {
        lock(&self.state).door.access = access;
    }

    /// Opens the account again after a lockout.
    pub fn unlock(&self) {
        lock(&self.state).door.unlock();
    }

    /// As a restart of the BMC does: no token is valid any more, and all slots are free.
    pub fn end_all_sessions(&self) {
        lock(&self.state).door.end_all_sessions();
    }

    fn on_system<T>(&self, id: &str, what: impl FnOnce(&mut System) -> T) -> T {
        let mut state = lock(&self.state);
        let system = state.systems.get_mut(id).unwrap_or_else(|| panic!("the BMC has no system `{id}`"));
        system.settle(Instant::now());
        what(system)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
