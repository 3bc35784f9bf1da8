//! When to look at the folder: on its events once they settle, and every few seconds in case one was missed.

use super::Registry;
use notify::{EventKind, RecursiveMode, Watcher, event::AccessKind, event::AccessMode};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Quiet time after the last event before a file is read.
const SETTLE: Duration = Duration::from_millis(200);
/// Longest wait for quiet.
const PATIENCE: Duration = Duration::from_secs(2);
/// Look at least this often.
const RESCAN: Duration = Duration::from_secs(10);
/// The same where the system gives no events.
const POLL: Duration = Duration::from_secs(2);

pub(super) async fn run(registry: &Registry, shutdown: impl Future<Output = ()>) {
    let (tell, mut events) = mpsc::channel(1);
    let watcher = watcher(registry, tell);
    let pause = if watcher.is_some() { RESCAN } else { POLL };
    tokio::pin!(shutdown);
    loop {
        let again = tokio::select! {
            () = &mut shutdown => return,
            again = registry.rescan() => again,
        };
        let wait = if again { SETTLE } else { pause };
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(wait) => {}
            Some(()) = events.recv() => settle(&mut events).await,
        }
    }
}

/// Waits until the folder is quiet, so that most files are whole when they are read.
async fn settle(events: &mut mpsc::Receiver<()>) {
    let patience = Instant::now() + PATIENCE;
    loop {
        let quiet = (Instant::now() + SETTLE).min(patience);
        match timeout_at(quiet, events.recv()).await {
            Ok(Some(())) if Instant::now() < patience => {}
            _ => return,
        }
    }
}

fn watcher(registry: &Registry, tell: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    let notice = move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| matters(event.kind)) {
            // Full means that a look is due anyway.
            let _ = tell.try_send(());
        }
    };
    let folder = &registry.inner.folder;
    let watcher = notify::recommended_watcher(notice).and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watcher
        .inspect_err(
            |error| tracing::warn!(%error, "no events from the providers folder; it is looked at instead"),
        )
        .ok()
}

/// Our own reading is no news.
fn matters(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}
