//! Events about objects of this house: core `Event`s, written in batches by one task, lost without harm.
//!
//! Repeats of an event within a batch become one with a count. Nothing waits for an event to be written.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::{GROUP, MachineOperation, SYSTEM_NAMESPACE, VERSION, sanitise_reason};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use tokio::sync::{mpsc, watch};

/// Longest note of an event, in bytes (Kubernetes' own limit).
pub(crate) const MAX_NOTE: usize = 1024;
/// Events that may wait to be written; more are dropped.
const ROOM: usize = 1024;
/// How long a batch collects.
const BATCH: Duration = Duration::from_millis(200);
/// Events of a batch that are written at once, so that they share commits: one by one, a fleet's would come too late
/// and be dropped.
const AT_ONCE: usize = 32;

/// Where events are handed in.
#[derive(Debug, Clone)]
pub struct Events {
    sender: mpsc::Sender<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    about: ObjectReference,
    warning: bool,
    reason: String,
    note: String,
    at: Timestamp,
}

impl Events {
    /// Events and the task that writes them.
    pub fn new(client: Client) -> (Self, EventWriter) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { sender }, EventWriter { api: Api::namespaced(client, SYSTEM_NAMESPACE), receiver })
    }

    /// Says that something happened to an operation.
    pub fn post(&self, about: &MachineOperation, warning: bool, reason: &str, note: &str, at: Timestamp) {
        self.about(about, warning, reason, note, at);
    }

    /// Says that something happened to an object of this house.
    pub fn about<K>(&self, about: &K, warning: bool, reason: &str, note: &str, at: Timestamp)
    where
        K: Resource<DynamicType = ()>,
    {
        let about = ObjectReference {
            api_version: Some(format!("{GROUP}/{VERSION}")),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(about.name_any()),
            uid: about.uid(),
            resource_version: about.resource_version(),
            ..ObjectReference::default()
        };
        let note = note[..note.floor_char_boundary(MAX_NOTE)].to_owned();
        let entry = Entry { about, warning, reason: sanitise_reason(reason), note, at };
        if self.sender.try_send(entry).is_err() {
            tracing::debug!("an event was dropped: too many wait to be written");
        }
    }
}

/// Writes events until everybody who could hand one in is gone or `stop` becomes true.
pub struct EventWriter {
    api: Api<Event>,
    receiver: mpsc::Receiver<Entry>,
}

impl EventWriter {
    /// Runs until stopped; what was handed in before is still written.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                n = self.receiver.recv_many(&mut batch, ROOM) => if n == 0 { return },
                () = crate::told(&mut stop) => {
                    self.flush().await;
                    return;
                }
            }
            tokio::time::sleep(BATCH).await;
            while batch.len() < ROOM
                && let Ok(entry) = self.receiver.try_recv()
            {
                batch.push(entry);
            }
            self.write(batch).await;
        }
    }

    /// Writes what was handed in so far.
    pub async fn flush(&mut self) {
        let mut batch = Vec::new();
        while let Ok(entry) = self.receiver.try_recv() {
            batch.push(entry);
        }
        self.write(batch).await;
    }

    async fn write(&self, batch: Vec<Entry>) {
        for some in merge(batch).chunks(AT_ONCE) {
            futures::future::join_all(some.iter().map(|(entry, count)| self.create(entry, *count))).await;
        }
    }

    async fn create(&self, entry: &Entry, count: i32) {
        if let Err(error) = self.api.create(&PostParams::default(), &event(entry, count)).await {
            tracing::debug!(%error, "an event could not be written");
        }
    }
}

fn merge(batch: Vec<Entry>) -> Vec<(Entry, i32)> {
    let mut merged: BTreeMap<(Option<String>, String, String), (Entry, i32)> = BTreeMap::new();
    for entry in batch {
        let key = (entry.about.uid.clone(), entry.reason.clone(), entry.note.clone());
        merged.entry(key).and_modify(|(_, count)| *count += 1).or_insert((entry, 1));
    }
    let mut merged: Vec<_> = merged.into_values().collect();
    merged.sort_by_key(|(entry, _)| entry.at);
    merged
}

/// Which controller speaks.
fn component(entry: &Entry) -> &'static str {
    match entry.about.kind.as_deref() {
        Some("MachineClass") => "holdfast.dev/classes",
        Some("MachineAllocation" | "Machine") => "holdfast.dev/allocations",
        _ => "holdfast.dev/operations",
    }
}

fn event(entry: &Entry, count: i32) -> Event {
    let time = Some(Time(entry.at));
    let name = entry.about.name.clone().unwrap_or_default();
    let mut event = Event {
        involved_object: entry.about.clone(),
        type_: Some(if entry.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(entry.reason.clone()),
        message: Some(entry.note.clone()),
        count: Some(count),
        first_timestamp: time.clone(),
        last_timestamp: time,
        source: Some(EventSource { component: Some("holdfast".to_owned()), host: None }),
        reporting_component: Some(component(entry).to_owned()),
        ..Event::default()
    };
    let room = name.floor_char_boundary(200);
    event.metadata.generate_name = Some(format!("{}.", &name[..room]));
    event.metadata.namespace = Some(SYSTEM_NAMESPACE.to_owned());
    event
}
