//! `holdfast provider inspect`: a module's meaning in sentences, read without running it.

use anyhow::Context;
use std::path::Path;

pub fn inspect(file: &Path, since: Option<&Path>) -> anyhow::Result<()> {
    let inspected = read(file)?;
    let provider = &inspected.manifest.provider;
    println!("{} {} (contract {})", provider.name, provider.version, provider.contract);
    println!();
    inspected.manifest.meaning().iter().for_each(|sentence| println!("- {sentence}"));
    for grant in inspected.manifest.needs_grants() {
        println!("- Needs your grant by name: {} ({}; {}).", grant.call, grant.why, grant.rule);
    }
    if let Some(since) = since {
        let old = read(since)?;
        let changes = inspected.manifest.diff(&old.manifest);
        println!("\nSince {} {}:", old.manifest.provider.name, old.manifest.provider.version);
        if changes.is_empty() {
            println!("- nothing changes in meaning");
        }
        changes.iter().for_each(|change| println!("- {change}"));
    }
    println!("\nTo approve it, add to the configuration and bind its endpoints:\n");
    println!("[[provider]]\nname = \"{}\"", provider.name);
    println!("sha256 = \"{}\"\ncalls = \"{}\"", inspected.digest, inspected.manifest.call_set);
    for (name, endpoint) in &inspected.manifest.endpoints {
        println!("\n# {}\n[[provider.endpoint]]\nname = \"{name}\"", endpoint.about);
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<holdfast_runtime::Inspected> {
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    holdfast_runtime::inspect(&bytes).with_context(|| format!("{} is refused", file.display()))
}
