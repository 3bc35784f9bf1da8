//! `holdfast explain KIND/NAME`: why an object is as it is, since when and until when, what happens next, what was sent
//! and what came back. Everything is read from the API: whoever may read the objects may ask.

mod allocation;
mod class;
mod fetch;
mod journal;
mod machine;
mod operation;
mod page;
mod provider;
#[cfg(test)]
mod tests;

use crate::cli;
use anyhow::{Context, bail};
use fetch::Reader;
use page::Page;
use std::path::PathBuf;

/// The kinds that can be explained, by every name that `kubectl` knows them by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Provider,
    Machine,
    Class,
    Allocation,
    Operation,
}

const KINDS: [(Kind, &[&str]); 5] = [
    (Kind::Provider, &["provider", "providers"]),
    (Kind::Machine, &["machine", "machines", "mach"]),
    (Kind::Class, &["machineclass", "machineclasses", "mclass"]),
    (Kind::Allocation, &["machineallocation", "machineallocations", "malloc"]),
    (Kind::Operation, &["machineoperation", "machineoperations", "mop"]),
];

/// Prints the explanation of one object.
pub async fn run(arguments: cli::Explain) -> anyhow::Result<()> {
    let (kind, name) = target(&arguments.object)?;
    let reader = Reader::new(&kubeconfig(&arguments)?).await?;
    let page = explain(&reader, kind, name).await?;
    println!("{page}");
    Ok(())
}

fn kubeconfig(arguments: &cli::Explain) -> anyhow::Result<PathBuf> {
    match &arguments.kubeconfig {
        Some(path) => Ok(path.clone()),
        None => Ok(crate::config::load(&arguments.config)?.kubeconfig()),
    }
}

fn target(text: &str) -> anyhow::Result<(Kind, &str)> {
    let (kind, name) = text
        .split_once('/')
        .filter(|(_, name)| !name.is_empty())
        .with_context(|| format!("`{text}` is not KIND/NAME, for example machineallocation/web-1"))?;
    let plain = kind.to_ascii_lowercase();
    let plain = plain.strip_suffix(".holdfast.dev").unwrap_or(&plain);
    match KINDS.iter().find(|(_, names)| names.contains(&plain)) {
        Some((kind, _)) => Ok((*kind, name)),
        None => {
            let known: Vec<&str> = KINDS.iter().filter_map(|(_, names)| names.first().copied()).collect();
            bail!("there is nothing to explain about a `{kind}`; known kinds: {}", known.join(", "))
        }
    }
}

async fn explain(reader: &Reader, kind: Kind, name: &str) -> anyhow::Result<Page> {
    let mut page = Page::new(jiff::Timestamp::now());
    match kind {
        Kind::Operation => {
            let operation = reader.need(name).await?;
            operation::tell(&mut page, &operation);
            page.events(&reader.events(&operation).await?);
        }
        Kind::Allocation => {
            let allocation: holdfast_api::MachineAllocation = reader.need(name).await?;
            allocation::tell(&mut page, &allocation);
            page.events(&reader.events(&allocation).await?);
            if let Some(operation) = allocation::operation(&allocation) {
                page.gap();
                match reader.get(operation).await? {
                    Some(operation) => operation::tell(&mut page, &operation),
                    None => page.line(0, format!("MachineOperation {operation} is not there any more")),
                }
            }
        }
        Kind::Class => {
            let class: holdfast_api::MachineClass = reader.need(name).await?;
            class::tell(&mut page, &class);
            page.events(&reader.events(&class).await?);
        }
        Kind::Machine => {
            let machine: holdfast_api::Machine = reader.need(name).await?;
            machine::tell(&mut page, &machine);
            page.events(&reader.events(&machine).await?);
            for operation in reader.operations_on(name).await? {
                page.gap();
                operation::tell(&mut page, &operation);
            }
        }
        Kind::Provider => {
            let provider = reader.need(name).await?;
            provider::tell(&mut page, &provider);
            page.events(&reader.events(&provider).await?);
        }
    }
    Ok(page)
}
