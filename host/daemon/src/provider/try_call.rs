//! `holdfast provider try`: a recorded reply, projected as the host would.

use crate::cli::Try;
use anyhow::{Context, bail};
use holdfast_manifest::Manifest;
use std::path::Path;

pub fn try_call(arguments: &Try) -> anyhow::Result<()> {
    let manifest = manifest(&arguments.provider)?;
    let call = manifest
        .calls
        .get(&arguments.call)
        .with_context(|| format!("the manifest declares no call {}", arguments.call))?;
    let status = arguments.status.or(call.accept.first().copied()).unwrap_or(200);
    let body = std::fs::read(&arguments.reply)
        .with_context(|| format!("{} cannot be read", arguments.reply.display()))?;
    let headers = arguments
        .header
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(':').with_context(|| format!("\"{line}\" is no header"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let tried = holdfast_custody::try_reply(&manifest, &arguments.call, status, &headers, &body)
        .map_err(anyhow::Error::msg)?;
    println!("{tried}");
    for name in &tried.missing_captures {
        println!("the capture {name} is missing");
    }
    if !tried.fits() {
        bail!("the reply does not give the call its fields");
    }
    Ok(())
}

fn manifest(path: &Path) -> anyhow::Result<Manifest> {
    let bytes = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    if bytes.starts_with(b"\0asm") {
        return Ok((*holdfast_runtime::inspect(&bytes)?.manifest).clone());
    }
    let text = String::from_utf8(bytes).context("a manifest is UTF-8")?;
    Manifest::parse(&text).map_err(|errors| anyhow::anyhow!("{errors}"))
}
