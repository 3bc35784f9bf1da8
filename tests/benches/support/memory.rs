//! What the kernel says a process keeps in memory.

use anyhow::{Context, Result};

/// KiB.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resident {
    pub rss: u64,
    pub anonymous: u64,
    /// Shared pages divided among those who share them.
    pub pss: u64,
}

/// Of this process, or of another by its id.
pub fn resident(process: Option<u32>) -> Result<Resident> {
    let process = process.map_or("self".to_owned(), |id| id.to_string());
    let path = format!("/proc/{process}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let read = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
    };
    Ok(Resident { rss: read("Rss:"), anonymous: read("Anonymous:"), pss: read("Pss:") })
}
