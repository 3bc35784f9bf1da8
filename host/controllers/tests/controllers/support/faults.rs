//! A client that loses its server at a chosen write: before the write is made, or after it and before the answer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use holdfast_api::MachineOperation;
use http::{Method, Request, Response};
use kube::api::Patch;
use kube::client::Body;
use kube::{Api, Client};
use tokio::sync::watch;

/// When the client dies.
pub struct Plan {
    /// Writes that still go through; negative: never dies.
    left: AtomicI64,
    /// Is the fatal write made, with its answer lost?
    lands: bool,
    dead: watch::Sender<bool>,
    /// Methods and paths of the writes that were made.
    pub writes: Mutex<Vec<String>>,
    /// Fails single writes whose path contains the text, this many times.
    pub flaky: Mutex<Option<(String, u32)>>,
    /// Gives the operation `op` up right before a write whose path ends so, once.
    pub give_up_before: Mutex<Option<(&'static str, GiveUp)>>,
}

/// How somebody else gives an operation up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    Cancel,
    Delete,
}

impl GiveUp {
    async fn run(self, client: Client) {
        let operations: Api<MachineOperation> = Api::all(client);
        let patch = Patch::Merge(serde_json::json!({ "spec": { "cancel": true } }));
        match self {
            Self::Cancel => drop(operations.patch("op", &Default::default(), &patch).await.unwrap()),
            Self::Delete => drop(operations.delete("op", &Default::default()).await.unwrap()),
        }
    }
}

impl Plan {
    pub fn never() -> Arc<Self> {
        Self::at(-1, false)
    }

    pub fn at(write: i64, lands: bool) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicI64::new(write),
            lands,
            dead: watch::Sender::new(false),
            writes: Mutex::default(),
            flaky: Mutex::default(),
            give_up_before: Mutex::default(),
        })
    }

    /// Returns when the client has died.
    pub async fn death(&self) {
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    pub fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// Writes to operations and machines, without events and leases.
    pub fn objects_written(&self) -> Vec<String> {
        let writes = self.writes.lock().unwrap();
        writes.iter().filter(|w| w.contains("holdfast.dev/v1alpha1")).cloned().collect()
    }
}

#[derive(Clone)]
struct Faulty {
    inner: Client,
    plan: Arc<Plan>,
}

/// The client, under a plan.
pub fn faulty(inner: Client, plan: Arc<Plan>) -> Client {
    Client::new(Faulty { inner, plan }, holdfast_api::SYSTEM_NAMESPACE)
}

impl tower::Service<Request<Body>> for Faulty {
    type Response = Response<Body>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, plan } = self.clone();
        Box::pin(async move {
            if plan.is_dead() {
                // A dead daemon hears nothing any more.
                return std::future::pending().await;
            }
            let path = request.uri().path().to_owned();
            let durable = ["holdfast.dev/v1alpha1", "/secrets"].iter().any(|part| path.contains(part));
            let counts = request.method() != Method::GET && durable;
            let mut lost = false;
            if counts {
                let due = plan.give_up_before.lock().unwrap().take_if(|(part, _)| path.ends_with(*part));
                if let Some((_, how)) = due {
                    how.run(inner.clone()).await;
                }
                if let Some((part, times)) = &mut *plan.flaky.lock().unwrap()
                    && *times > 0
                    && path.contains(part.as_str())
                {
                    *times -= 1;
                    return Err("the store is away".into());
                }
                lost = plan.left.fetch_sub(1, Ordering::SeqCst) == 0;
                if lost && !plan.lands {
                    plan.dead.send_replace(true);
                    return std::future::pending().await;
                }
            }
            if request.method() != Method::GET {
                plan.writes.lock().unwrap().push(format!("{} {path}", request.method()));
            }
            let response = inner.send(request).await?;
            if lost {
                plan.dead.send_replace(true);
                return std::future::pending().await;
            }
            Ok(response)
        })
    }
}
