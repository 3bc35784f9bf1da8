//! Following the configuration file: what modules may do is judged anew when it changes.
//!
//! A file that does not parse changes nothing and is logged. Listeners, folders and limits need a restart.

use super::overlay::Overlays;
use crate::{config, policies};
use anyhow::Context;
use holdfast_runtime::Registry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Editors replace files in several steps; a poll is as quick as an operator needs and cannot lose an event.
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub async fn follow(
    path: PathBuf,
    registry: Registry,
    overlays: Arc<Overlays>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut seen = stamp(&path);
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let now = stamp(&path);
        if now == seen {
            continue;
        }
        seen = now;
        match apply(&path, &registry, &overlays) {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => tracing::error!("the changed configuration is not applied: {error:#}"),
        }
    }
}

fn apply(path: &Path, registry: &Registry, overlays: &Overlays) -> anyhow::Result<()> {
    let config = config::load(path)?;
    let policies = policies::policies(&config)?;
    overlays.reload(&config).context("secrets")?;
    registry.set_policies(policies);
    Ok(())
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
