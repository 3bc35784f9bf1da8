//! Evidence: how often each secret was spliced, and how often it was seen where it must never be.

use super::{say, world::World};
use crate::daemon::Daemon;
use crate::logging;
use anyhow::ensure;
use data_encoding::{BASE64_NOPAD, HEXLOWER};
use holdfast_api::{Machine, MachineOperation, Provider};
use holdfast_runtime::MemoryWitness;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One thing to look for: a name to print, and the forms it might appear in.
struct Canary {
    name: &'static str,
    forms: Vec<Vec<u8>>,
}

/// Looks at the whole linear memory of every guest when it ends.
pub struct Witness {
    canaries: Vec<Canary>,
    seen: Vec<AtomicU64>,
    guests: AtomicU64,
    bytes: AtomicU64,
    /// What a guest does hold: the machine's identity. Seen, it shows that the look is real.
    control: memchr::memmem::Finder<'static>,
    controls: AtomicU64,
}

impl Witness {
    pub fn new(world: &World) -> Arc<Witness> {
        let mut canaries = vec![canary("api-token", world.cloud.api_token())];
        // First-boot data leaks by its lines: the key and the password are what hurts.
        let lines = world.user_data.lines().map(str::trim).filter(|line| line.len() >= 16);
        let forms = lines.flat_map(forms).chain(forms(&world.user_data)).collect();
        canaries.push(Canary { name: "first-boot data", forms });
        let seen = canaries.iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(Witness {
            canaries,
            seen,
            guests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            control: memchr::memmem::Finder::new(world.server.as_bytes()).into_owned(),
            controls: AtomicU64::new(0),
        })
    }
}

fn canary(name: &'static str, secret: &str) -> Canary {
    Canary { name, forms: forms(secret) }
}

fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    vec![bytes.to_vec(), BASE64_NOPAD.encode(bytes).into_bytes(), HEXLOWER.encode(bytes).into_bytes()]
}

impl Canary {
    fn count(&self, hay: &[u8]) -> u64 {
        self.forms.iter().map(|form| memchr::memmem::find_iter(hay, form).count() as u64).sum()
    }
}

impl MemoryWitness for Witness {
    fn memory(&self, bytes: &[u8]) {
        self.guests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.controls.fetch_add(self.control.find_iter(bytes).count() as u64, Ordering::Relaxed);
        for (canary, seen) in self.canaries.iter().zip(&self.seen) {
            seen.fetch_add(canary.count(bytes), Ordering::Relaxed);
        }
    }
}

/// Prints a line per secret and fails where one was seen.
pub async fn show(
    world: &World,
    daemon: &Daemon,
    witness: &Witness,
    log: &logging::Copy,
) -> anyhow::Result<()> {
    say("Where the secrets were, and where they were not");
    let evidence = daemon.custody().evidence();
    for line in &evidence {
        println!(
            "    spliced {:>2} times, caught {} times on a wrong way: {}",
            line.spliced, line.caught, line.secret
        );
    }
    // What the cloud makes up itself is captured, watched for and never sent.
    let given: Vec<_> = evidence.iter().filter(|line| !line.secret.starts_with("captured ")).collect();
    ensure!(
        given.len() == witness.canaries.len() && given.iter().all(|line| line.spliced > 0),
        "a secret was never used: the demo proves nothing"
    );
    let objects = objects(daemon.client()).await?;
    let store = files(&world.state_dir())?;
    let log = log.contents();
    let guests = witness.guests.load(Ordering::Relaxed);
    let controls = witness.controls.load(Ordering::Relaxed);
    ensure!(guests > 0 && controls > 0, "no guest's memory was looked at");
    println!(
        "    looked at: {guests} guest memories ({} MiB), {} KiB of logs at TRACE, {} KiB of store files, {} KiB of objects",
        witness.bytes.load(Ordering::Relaxed) >> 20,
        log.len() >> 10,
        store.len() >> 10,
        objects.len() >> 10
    );
    println!(
        "    {:<16} seen in guest memory: {controls} (it belongs there; so the look is real)",
        world.server
    );
    let mut total = 0;
    for (canary, seen) in witness.canaries.iter().zip(&witness.seen) {
        let (memory, logs) = (seen.load(Ordering::Relaxed), canary.count(&log));
        let (store, objects) = (canary.count(&store), canary.count(&objects));
        println!(
            "    {:<16} seen in guest memory: {memory}, logs: {logs}, store: {store}, objects and events: {objects}",
            canary.name
        );
        total += memory + logs + store + objects;
    }
    ensure!(total == 0, "a secret was seen outside custody {total} times");
    Ok(())
}

/// Everything that a reader of the API sees, secrets themselves aside.
async fn objects(client: &Client) -> anyhow::Result<Vec<u8>> {
    let all = ListParams::default();
    let mut text = Vec::new();
    text.extend(serde_json::to_vec(&Api::<MachineOperation>::all(client.clone()).list(&all).await?.items)?);
    text.extend(serde_json::to_vec(&Api::<Machine>::all(client.clone()).list(&all).await?.items)?);
    text.extend(serde_json::to_vec(&Api::<Provider>::all(client.clone()).list(&all).await?.items)?);
    text.extend(serde_json::to_vec(&Api::<Event>::all(client.clone()).list(&all).await?.items)?);
    Ok(text)
}

/// Every file of the state directory, the kubeconfig and its token included.
fn files(folder: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            bytes.extend(files(&entry.path())?);
        } else {
            bytes.extend(std::fs::read(entry.path())?);
        }
    }
    Ok(bytes)
}
