//! What the kernel says of this process: processor time, and the most memory that it had.

use anyhow::{Context, Result};

/// Seconds that this process has used processors for.
pub fn processor_time() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name, in brackets, may hold spaces; times are the 14th and the 15th field, in hundredths.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

/// KiB of memory in use, and the most that was since the last [`forget_peak`].
pub fn memory() -> Result<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let read = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
            .with_context(|| format!("/proc/self/status says no {name}"))
    };
    Ok((read("VmRSS:")?, read("VmHWM:")?))
}

/// Counts the most memory from now on.
pub fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("writing /proc/self/clear_refs")
}
