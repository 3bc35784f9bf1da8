//! One life of the daemon: its rooms, wired as the daemon wires them, on a runtime of its own whose time is moved by hand.
//! When the life ends, everything that it had begun ends with it, as with a process.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use holdfast_api::SYSTEM_NAMESPACE;
use holdfast_apiserver::{ApiServer, Options};
use holdfast_controllers::clock::{Clock as _, ManualClock};
use holdfast_controllers::rooms::NoOverlay;
use holdfast_controllers::{Controllers, Deps, Effects, LeaseSettings, Scope, Settings};
use holdfast_custody::Custody;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::runtime::Builder;
use zeroize::Zeroizing;

use crate::disk::Death;
use crate::drive::{End, Progress, drive};
use crate::module::revision;
use crate::plan::Crash;
use crate::wire::Wire;
use crate::world::{Person, World};

/// The rooms of one life.
pub struct House {
    pub controllers: Controllers,
    pub person: Person,
    pub death: Arc<Death>,
    custody: Custody,
    world_grants: holdfast_custody::Grants,
}

/// Lives until the plan's story is told, or until the life's death.
pub fn live(world: &World, progress: &mut Progress, crash: Option<Crash>) -> End {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    // While a blocking task runs, paused time does not move by itself: it is moved by the story alone.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let end = runtime.block_on(async {
        tokio::task::spawn_blocking(move || held.recv().is_ok());
        let mut house = House::open(world, crash).await;
        drive(world, &mut house, progress).await
    });
    drop(hold);
    runtime.shutdown_timeout(Duration::from_secs(10));
    end
}

impl House {
    async fn open(world: &World, crash: Option<Crash>) -> House {
        let death = Death::not_yet();
        let (write, exchange) = match crash {
            Some(Crash::Write(crash)) => (Some(crash), None),
            Some(Crash::Exchange(crash)) => (None, Some(crash)),
            None => (None, None),
        };
        let storage = world.disk.open(death.clone(), write);
        let server = ApiServer::open_with(Box::new(storage), &world.folder, Options::default())
            .await
            .expect("the API opens on what is stored");
        let custody = Custody::new(holdfast_custody::Options {
            // A daemon's key outlives it: tokens and fingerprints stay what they were.
            master_key: Zeroizing::new([7; 32]),
            ..Default::default()
        })
        .expect("custody opens");
        for number in 1..=2 {
            let manifest = world.modules.manifest().clone();
            custody.register(revision(number), manifest, world.grants()).expect("the module registers");
        }
        let wire = Wire {
            custody: custody.clone(),
            manifest: world.modules.manifest().clone(),
            disk: world.disk.clone(),
            death: death.clone(),
            crash: Mutex::new(exchange),
            traffic: world.traffic.clone(),
            sabotage: world.sabotage,
        };
        let deps = Deps {
            client: mortal(server.client(), death.clone()),
            clock: world.clock.clone(),
            modules: world.modules.clone(),
            effects: Effects::with_clock(Arc::new(wire), Arc::new(EffectsClock(world.clock.clone()))),
            vault: Arc::new(custody.clone()),
            overlay: Arc::new(NoOverlay),
            lease: LeaseSettings {
                take_over: true,
                duration: Duration::from_secs(1_000_000_000),
                ..LeaseSettings::new(format!("life-{}", world.clock.now()))
            },
            settings: Settings::default(),
            scope: Scope::default(),
            workers: 4,
            drain: Duration::from_secs(5),
        };
        let mut registry = prometheus_client::registry::Registry::default();
        let mut controllers = Controllers::new(deps, &mut registry);
        assert!(controllers.take_lease().await.expect("the API answers"), "the lease is free");
        House { controllers, person: Person(server.client()), death, custody, world_grants: world.grants() }
    }

    /// Another file of the same module comes to serve: custody hears of it first.
    pub fn register(&self, world: &World, number: u32) {
        let manifest = world.modules.manifest().clone();
        let grants = self.world_grants.clone();
        self.custody.register(revision(number), manifest, grants).expect("the module registers");
    }
}

struct EffectsClock(Arc<ManualClock>);

impl holdfast_effects::Clock for EffectsClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

/// A client that hears nothing any more once the life is over.
#[derive(Clone)]
struct Mortal {
    inner: Client,
    death: Arc<Death>,
}

fn mortal(inner: Client, death: Arc<Death>) -> Client {
    Client::new(Mortal { inner, death }, SYSTEM_NAMESPACE)
}

impl tower::Service<Request<Body>> for Mortal {
    type Response = Response<Body>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, death } = self.clone();
        Box::pin(async move {
            if !death.struck() {
                let response = inner.send(request).await;
                if !death.struck() {
                    return Ok(response?);
                }
            }
            std::future::pending().await
        })
    }
}
