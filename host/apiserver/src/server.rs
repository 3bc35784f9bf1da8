//! The server as a whole: opened on a state directory, asked in process, served on a socket, stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as stop;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::ServerError;
use crate::api::{Api, DeleteOptions, FIXED_NAMESPACES, Pages, WriteOptions};
use crate::auth::Tokens;
use crate::files;
use crate::http::ApiService;
use crate::hub::Hub;
use crate::index::{Index, ObjectKey, Stored};
use crate::kubeconfig;
use crate::registry::Registry;
use crate::rules;
use crate::stamps::Stamps;
use crate::store::{SqliteStore, Storage};
use crate::tls::Identity;
use crate::writer::Writer;

/// How long a client has for its TLS handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Most connections at a time.
const MAX_CONNECTIONS: usize = 512;
/// How often old events are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// The kinds, worked out once for a process: they are the same in every server, and their schemas take longer to work out
/// than everything else that a server does when it opens.
fn registry() -> Result<Arc<Registry>, ServerError> {
    static REGISTRY: OnceLock<Arc<Registry>> = OnceLock::new();
    if let Some(registry) = REGISTRY.get() {
        return Ok(registry.clone());
    }
    let registry = Arc::new(Registry::new(&holdfast_api::crds())?);
    Ok(REGISTRY.get_or_init(|| registry).clone())
}

/// How the server is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seconds that an Event is kept after it was last written.
    pub event_ttl: Duration,
    /// The clock that creation and deletion are stamped by.
    pub stamps: Stamps,
}

impl Default for Options {
    fn default() -> Self {
        Self { event_ttl: Duration::from_secs(3600), stamps: Stamps::default() }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Objects written or removed.
    pub writes: u64,
    /// Commits; each holds one write or more.
    pub commits: u64,
    /// Writes that were refused because another came first.
    pub conflicts: u64,
    /// Open watches.
    pub watches: u64,
    /// The last commit number.
    pub version: u64,
}

/// The embedded API. Dropping the last handle closes the store; [`ApiServer::shutdown`] does it in order.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

struct Inner {
    api: Arc<Api>,
    tokens: Arc<Tokens>,
    identity: Identity,
    directory: PathBuf,
    stop: stop::Sender<bool>,
}

impl ApiServer {
    /// Opens the server on a state directory, made if absent. Needs a tokio runtime. Fails if another process
    /// holds the directory, if the store's key is gone or wrong, or if the store is damaged.
    pub async fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, ServerError> {
        let directory = directory.as_ref();
        let store = SqliteStore::open(directory)?;
        Self::open_with(Box::new(store), directory, options).await
    }

    /// The same, on another engine. Tokens and certificates still live in the directory.
    pub async fn open_with(
        mut storage: Box<dyn Storage>,
        directory: &Path,
        options: Options,
    ) -> Result<Self, ServerError> {
        let registry = registry()?;
        let index = Arc::new(load(&mut *storage, &registry)?);
        let hub = Arc::new(Hub::new(index.version()));
        let writer = Writer::start(storage, registry.clone(), index.clone(), hub.clone())?;
        let (stop, stopping) = stop::channel(false);
        let validators = rules::validators();
        let api = Arc::new(Api {
            registry,
            index,
            hub,
            writer,
            validators,
            pages: Pages::default(),
            stamps: options.stamps,
            documents: OnceLock::new(),
            stopping,
        });
        make_namespaces(&api).await?;
        tokio::spawn(sweep_events(Arc::downgrade(&api), options.event_ttl));
        let tokens = Arc::new(Tokens::open(directory)?);
        let identity = Identity::open(directory)?;
        Ok(Self { inner: Arc::new(Inner { api, tokens, identity, directory: directory.into(), stop }) })
    }

    /// A client in this process. It is trusted and uses no network.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), holdfast_api::SYSTEM_NAMESPACE)
    }

    /// The service behind [`ApiServer::client`]: it trusts its caller.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.inner.api.clone(), None)
    }

    /// The service for callers that must show the token.
    pub fn guarded_service(&self) -> ApiService {
        ApiService::new(self.inner.api.clone(), Some(self.inner.tokens.clone()))
    }

    /// Serves clients on a socket, over TLS, until [`ApiServer::shutdown`].
    pub async fn serve(&self, listener: TcpListener) {
        let acceptor = TlsAcceptor::from(self.inner.identity.config.clone());
        let mut stopping = self.inner.api.stopping.clone();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
                Some(_) = connections.join_next() => continue,
                _ = stopping.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(
                        stream,
                        acceptor.clone(),
                        self.guarded_service(),
                        stopping.clone(),
                    ));
                }
                Err(error) => {
                    // Out of file descriptors, for example: a moment later there may be some.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// Writes the kubeconfig for a server at an address: mode 0600, with the CA and the admin token. A token that
    /// stands in the file and is still admitted stays; otherwise a new one is made, and older ones end.
    pub fn write_kubeconfig(&self, path: &Path, address: SocketAddr) -> Result<(), ServerError> {
        let present = files::read_if_there(path)?.unwrap_or_default();
        let present = String::from_utf8_lossy(&present);
        let token = match kubeconfig::token_in(&present) {
            Some(token) if self.inner.tokens.is_token(token) => zeroize::Zeroizing::new(token.to_owned()),
            _ => self.inner.tokens.renew()?,
        };
        let text = kubeconfig::render(&format!("https://{address}"), &self.inner.identity.ca, &token);
        files::write_private(path, text.as_bytes())
    }

    /// Where the kubeconfig goes by default.
    pub fn default_kubeconfig(&self) -> PathBuf {
        self.inner.directory.join("kubeconfig")
    }

    /// Counters since the start.
    pub fn metrics(&self) -> Metrics {
        let api = &self.inner.api;
        let counters = &api.writer.counters;
        Metrics {
            writes: counters.writes.load(Ordering::Relaxed),
            commits: counters.commits.load(Ordering::Relaxed),
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            watches: api.hub.watchers() as u64,
            version: api.index.version(),
        }
    }

    /// Whether the store failed: what its last batch wrote is unknown, and no write is made before a restart.
    pub fn store_failed(&self) -> bool {
        self.inner.api.writer.counters.failed.load(Ordering::Acquire)
    }

    /// Ends watches and connections, lets queued writes finish, and closes the store.
    pub async fn shutdown(&self) {
        self.inner.stop.send_replace(true);
        self.inner.api.hub.close();
        let api = self.inner.api.clone();
        // The writer's thread may be in the middle of a commit.
        if tokio::task::spawn_blocking(move || api.writer.stop()).await.is_err() {
            tracing::error!("the store's writer could not be stopped");
        }
    }
}

fn load(storage: &mut dyn Storage, registry: &Registry) -> Result<Index, ServerError> {
    let index = Index::new(registry.kinds().len());
    let mut objects = Vec::new();
    let mut damage = None;
    let version = storage.load(&mut |row| {
        let Some(kind) = registry.by_stored_name(&row.kind) else {
            tracing::warn!(
                kind = row.kind,
                name = row.name,
                "an object of a kind that is no longer served stays unread"
            );
            return;
        };
        let place = format!("{} {}/{}", row.kind, row.namespace, row.name);
        if kind.sealed && !row.sealed {
            damage = Some(format!("{place} should be encrypted and isn't"));
            return;
        }
        let key = ObjectKey { namespace: row.namespace, name: row.name };
        match Stored::from_json(kind, key.clone(), row.body, row.version) {
            Some(object) => objects.push((kind.storage, key, Some(Arc::new(object)))),
            None => damage = Some(format!("{place} can't be read")),
        }
    })?;
    match damage {
        Some(what) => Err(ServerError::Damaged(what)),
        None => {
            index.apply(&objects, version);
            Ok(index)
        }
    }
}

async fn make_namespaces(api: &Arc<Api>) -> Result<(), ServerError> {
    let Some(kind) = api.registry.core("namespaces") else { return Ok(()) };
    for name in FIXED_NAMESPACES {
        let key = ObjectKey { namespace: String::new(), name: name.to_owned() };
        if api.index.get(kind.storage, &key).is_none() {
            let object = json!({ "metadata": { "name": name } });
            let made = api.create(kind, "", object, &[], WriteOptions::default()).await;
            made.map_err(|e| ServerError::Damaged(format!("namespace {name}: {}", e.message)))?;
        }
    }
    Ok(())
}

/// Removes events that nobody wrote for a while.
async fn sweep_events(api: std::sync::Weak<Api>, ttl: Duration) {
    let ttl = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(api) = api.upgrade() else { return };
        let Some(kind) = api.registry.core("events") else { return };
        let oldest = jiff::Timestamp::now().as_second().saturating_sub(ttl);
        let (events, _) = api.index.list(kind.storage, None);
        let old: Vec<_> = events.iter().filter(|e| e.since < oldest).collect();
        // Together, so that they share commits.
        let deletes = old.iter().map(|event| async {
            let options =
                DeleteOptions { version: Some(event.version.to_string()), ..DeleteOptions::default() };
            // An event that was written meanwhile stays.
            let _ = api.delete(kind, &event.key, &options).await;
        });
        futures::future::join_all(deletes).await;
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    service: ApiService,
    mut stopping: stop::Receiver<bool>,
) {
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(120)).max_buf_size(64 << 10);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => {
            if let Err(error) = result {
                tracing::debug!(%error, "a connection broke");
            }
            return;
        }
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    // Watches end by themselves when the server stops; nothing else lasts long.
    let _ = tokio::time::timeout(HANDSHAKE, connection).await;
}
