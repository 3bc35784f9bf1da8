//! A running cloud, and its driver in the same process.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{
    AuthChange, Behaviour, ClockChange, EffectKind, Held, Ledger, Options, Recorded, Rule, RuleState, Seed,
    change, reply::Refusal, serve, server::number_of, shared::Shared, tls,
};

/// Why a cloud does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("the simulated cloud cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("the simulated cloud cannot make its certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("the simulated cloud cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A seed names a status, or another fixed word, that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("the server cannot be seeded: {0}")]
pub struct SeedError(String);

impl From<Refusal> for SeedError {
    fn from(refusal: Refusal) -> Self {
        SeedError(refusal.message)
    }
}

/// A cloud that listens. Dropping it, or `stop`, ends its tasks and its connections.
#[derive(Debug)]
pub struct Cloud {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_pem: String,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Cloud {
    /// Starts a cloud on the current tokio runtime. It answers once this returns.
    pub async fn start(options: Options) -> Result<Cloud, StartError> {
        let (config, ca_pem) = tls::make(&options.names)?;
        let wanted = options.listen;
        let listen_error = |source| StartError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let shared = Arc::new(Shared::new(options, format!("https://{address}")));
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(Arc::clone(&shared), TlsAcceptor::from(config), listener, stopped));
        Ok(Cloud { shared, address, ca_pem, stop, task })
    }

    /// `https://127.0.0.1:PORT`.
    pub fn origin(&self) -> &str {
        &self.shared.origin
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Certificate of the CA of this run.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The first bearer token of the data API.
    pub fn api_token(&self) -> &str {
        &self.shared.options.api_token
    }

    /// The bearer token of `/_sim/`.
    pub fn admin_token(&self) -> &str {
        &self.shared.options.admin_token
    }

    /// User and password of the sessions variant, as the cloud was started with.
    pub fn login(&self) -> (&str, &str) {
        (&self.shared.options.user, &self.shared.options.password)
    }

    /// A copy of the ledger as it stands.
    pub fn ledger(&self) -> Ledger {
        self.shared.state().ledger()
    }

    /// How often this was done, to any server; cheaper than a copy of the ledger.
    pub fn count(&self, kind: EffectKind) -> usize {
        self.shared.state().count(kind)
    }

    /// Replaces the fault plan; the counters of its rules begin at zero.
    pub fn set_faults(&self, rules: Vec<Rule>) {
        self.shared.state().plan.set(rules);
    }

    /// The rules with how often each matched and acted.
    pub fn faults(&self) -> Vec<RuleState> {
        self.shared.state().plan.states()
    }

    /// Changes standing knobs.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.shared.state().behaviour);
    }

    /// Puts a server there that nobody made; returns its id.
    pub fn seed_server(&self, seed: Seed) -> Result<String, SeedError> {
        let server = change::seed(&mut self.shared.state(), &self.shared.catalogue, seed)?;
        Ok(server["id"].as_str().unwrap_or_default().to_owned())
    }

    /// A server as the API would show it now, without any lag; `None` if it never was or has been buried.
    pub fn server(&self, id: &str) -> Option<serde_json::Value> {
        let mut state = self.shared.state();
        let now = state.clock.now();
        state.sweep(now);
        state.server(number_of(id, "srv")?, now).map(|server| server.to_json())
    }

    /// First-boot data of a server exactly as it was received, also after the server is gone.
    pub fn user_data(&self, id: &str) -> Option<Vec<u8>> {
        self.shared.state().user_data(number_of(id, "srv")?)
    }

    /// The last requests, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().record.requests.iter().cloned().collect()
    }

    /// All requests so far by route, such as `GET /v1/servers/*`.
    pub fn request_counts(&self) -> std::collections::BTreeMap<String, u64> {
        self.shared.state().record.counts.clone()
    }

    /// Moves or freezes the clock. Returns the time in milliseconds since the epoch.
    pub fn clock(&self, change: ClockChange) -> i64 {
        let mut state = self.shared.state();
        state.clock.change(change);
        state.clock.now()
    }

    /// Rotates tokens, changes the password, ends sessions, lifts a lock.
    pub fn auth(&self, change: AuthChange) {
        let mut state = self.shared.state();
        let now = state.clock.now();
        state.account.change(change, now);
    }

    /// Takes requests from the rate limit in somebody else's name.
    pub fn noise(&self, requests: u64) {
        self.shared.noise(requests);
    }

    /// Returns once at least so many exchanges are held by the fault plan.
    pub async fn held(&self, count: usize) -> Vec<Held> {
        self.shared.holds.reached(count).await;
        self.shared.holds.list()
    }

    /// Lets held exchanges go on. Returns how many there were.
    pub fn release(&self) -> usize {
        self.shared.holds.release(false)
    }

    /// Resets the connections of held exchanges; those held before their effect never have it.
    pub fn abandon(&self) -> usize {
        self.shared.holds.release(true)
    }

    /// Everything as it was at the start, tokens included; the clock, the origin and the certificates stay.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Ends the cloud and all its connections.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.shared.holds.release(true);
    }
}

async fn accept(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) {
    // Connections end with this set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = async { drop(stopped.wait_for(|stop| *stop).await) } => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve::connection(Arc::clone(&shared), acceptor.clone(), stream));
                }
                // Out of descriptors: give connections time to end.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
        }
    }
}
