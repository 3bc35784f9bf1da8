//! Watches as a stream of lines: replay, live events, bookmarks, and a clean end.
//!
//! A watcher sees an object that leaves its selector as deleted, and one that enters it as added.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::read::parse_version;
use super::{Api, shown};
use crate::hub::{Event, EventType, Subscription, line};
use crate::index::Stored;
use crate::registry::Kind;
use crate::selector::Selector;
use crate::status::ApiError;
use crate::table::{self, Include};

/// How often a watcher that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts if the client doesn't say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);

/// How objects are written into an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Metadata,
    Table(Include),
}

/// Options of a watch.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) selector: Selector,
    pub(crate) version: String,
    pub(crate) bookmarks: bool,
    /// Whether the watch begins with what is there.
    pub(crate) initial: bool,
    pub(crate) timeout: Option<u64>,
    pub(crate) form: Form,
}

struct Watch {
    api: Arc<Api>,
    kind: usize,
    namespace: Option<String>,
    options: WatchOptions,
    subscription: Subscription,
    /// Lines that are ready.
    ready: VecDeque<Bytes>,
    ends_at: Instant,
    bookmark_at: Instant,
    /// Whether the columns of a table were sent.
    header_sent: bool,
    over: bool,
}

impl Api {
    /// Begins a watch.
    pub(crate) fn watch(
        self: &Arc<Self>,
        kind: &Kind,
        namespace: Option<&str>,
        options: WatchOptions,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
        let unset = options.version.is_empty() || options.version == "0";
        let mut first = Vec::new();
        let from = if unset || options.initial {
            let (objects, version) = self.select(kind, namespace, &options.selector);
            first = objects;
            version
        } else {
            parse_version(&options.version)?
        };
        let subscription = self.hub.subscribe(kind.storage, from).ok_or_else(|| {
            ApiError::expired(format!("too old resource version: {from} ({})", self.index.version()))
        })?;
        let timeout = options.timeout.map_or(DEFAULT_TIMEOUT, |s| Duration::from_secs(s.min(86_400)));
        let now = Instant::now();
        let mut watch = Watch {
            api: self.clone(),
            kind: kind.id,
            namespace: namespace.map(str::to_owned),
            subscription,
            ready: VecDeque::new(),
            ends_at: now + timeout,
            bookmark_at: now + BOOKMARK_EVERY,
            header_sent: false,
            over: false,
            options,
        };
        for object in first {
            let line = watch.encode(EventType::Added.as_str(), &object);
            watch.ready.push_back(line);
        }
        if watch.options.initial {
            let line = watch.bookmark(from, true);
            watch.ready.push_back(line);
        }
        Ok(futures::stream::unfold(watch, |mut watch| async move {
            let line = watch.next().await?;
            Some((line, watch))
        }))
    }
}

/// What woke a watch.
enum Woken {
    Event(Option<Arc<Event>>),
    Bookmark,
    End,
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over {
                return None;
            }
            let mut stopping = self.api.stopping.clone();
            let woken = tokio::select! {
                biased;
                event = self.subscription.next() => Woken::Event(event),
                () = sleep_until(self.ends_at) => Woken::End,
                () = sleep_until(self.bookmark_at), if self.options.bookmarks => Woken::Bookmark,
                _ = stopping.wait_for(|stop| *stop) => Woken::End,
            };
            match woken {
                Woken::Event(Some(event)) => self.take(&event),
                Woken::Event(None) => self.close(),
                Woken::Bookmark => {
                    self.bookmark_at = Instant::now() + BOOKMARK_EVERY;
                    self.mark();
                }
                Woken::End => {
                    if self.options.bookmarks {
                        self.mark();
                    }
                    self.over = true;
                }
            }
        }
    }

    /// Queues a bookmark if nothing waits before it.
    fn mark(&mut self) {
        if let Some(version) = self.api.hub.caught_up(&self.subscription) {
            let line = self.bookmark(version, false);
            self.ready.push_back(line);
        }
    }

    /// Ends the watch, with the reason if there is one.
    fn close(&mut self) {
        self.over = true;
        if self.subscription.overflowed() {
            let error = ApiError::expired("the watcher fell behind; list anew");
            self.ready.push_back(line("ERROR", error.body().to_string().as_bytes()));
        }
    }

    fn take(&mut self, event: &Arc<Event>) {
        if self.namespace.as_ref().is_some_and(|n| *n != event.object.key.namespace) {
            return;
        }
        let plain = self.options.form == Form::Object && self.api.registry.kind(self.kind).view.is_none();
        if self.options.selector.is_empty() && plain {
            self.ready.push_back(event.line());
            return;
        }
        let selector = &self.options.selector;
        let before = event.before.as_ref().filter(|b| selector.matches(b));
        let after =
            (event.type_ != EventType::Deleted && selector.matches(&event.object)).then_some(&event.object);
        let line = match (before, after) {
            (None, None) => return,
            (None, Some(after)) => self.encode(EventType::Added.as_str(), after),
            (Some(_), Some(after)) => self.encode(EventType::Modified.as_str(), after),
            (Some(_), None) if event.type_ == EventType::Deleted => {
                self.encode(EventType::Deleted.as_str(), &event.object)
            }
            (Some(before), None) => self.leave(before, event.object.version),
        };
        self.ready.push_back(line);
    }

    /// An object that left the selector: its last selected state, under the version at which it left.
    fn leave(&mut self, before: &Stored, version: u64) -> Bytes {
        let mut object = shown(self.api.registry.kind(self.kind), before);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.encode_value(EventType::Deleted.as_str(), object)
    }

    fn encode(&mut self, type_: &str, object: &Stored) -> Bytes {
        let kind = self.api.registry.kind(self.kind);
        if self.options.form == Form::Object && kind.view.is_none() {
            return line(type_, &object.json);
        }
        let value = shown(kind, object);
        self.encode_value(type_, value)
    }

    fn encode_value(&mut self, type_: &str, object: Value) -> Bytes {
        let value = match self.options.form {
            Form::Object => object,
            Form::Metadata => table::partial(&object),
            Form::Table(include) => {
                let kind = self.api.registry.kind(self.kind);
                let meta = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                let header = !std::mem::replace(&mut self.header_sent, true);
                table::table(&kind.columns, meta, &[object], include, header)
            }
        };
        line(type_, value.to_string().as_bytes())
    }

    fn bookmark(&mut self, version: u64, initial: bool) -> Bytes {
        let kind = self.api.registry.kind(self.kind);
        let mut meta = json!({ "resourceVersion": version.to_string() });
        if initial {
            meta["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.options.form {
            Form::Object => json!({ "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": meta }),
            Form::Metadata => table::partial(&json!({ "metadata": meta })),
            Form::Table(_) => {
                let header = !std::mem::replace(&mut self.header_sent, true);
                let row = json!({ "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": meta });
                table::table(
                    &kind.columns,
                    json!({ "resourceVersion": version.to_string() }),
                    &[row],
                    Include::Object,
                    header,
                )
            }
        };
        line("BOOKMARK", object.to_string().as_bytes())
    }
}
