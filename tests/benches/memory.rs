//! Memory per loaded module: 100 different files of one provider, beside 100 child processes.
//!
//! Goals M2 and M3: at most 128 KiB anonymous and 1.3 times its compiled code for a module; 100 modules in at most a
//! fifth of the memory of 100 children, of which 10 are measured.

mod support;

use anyhow::Result;
use holdfast_runtime::{Engine, EngineOptions, Module};
use std::sync::Arc;
use std::time::Duration;
use support::figures::{preamble, word};
use support::job::{self, Canned};
use support::memory::{Resident, resident};
use support::peer::{self, Caller, Provider};
use support::spinner::with_section;

const MODULES: usize = 100;
const CHILDREN: usize = 10;

fn main() -> Result<()> {
    let (bytes, peer) = (job::module()?, peer::build()?);
    preamble("memory");
    println!("\n| this process | RSS KiB | anonymous | PSS |\n|---|--:|--:|--:|");
    row("at its start", resident(None)?);
    let engine = Engine::new(EngineOptions::default())?;
    row("engine, pool of 64 instances", resident(None)?);
    let mut modules = Vec::new();
    let (mut one, mut ten) = (Resident::default(), Resident::default());
    for n in 1..=MODULES {
        modules.push(load(&engine, &bytes, n)?);
        match n {
            1 => one = shown("1 module")?,
            10 => ten = shown("10 modules")?,
            _ => {}
        }
    }
    let hundred = shown("100 modules")?;
    call_each(&modules)?;
    let called = shown("100 modules, each called once")?;
    let children = children(&peer)?;
    report(bytes.len(), [one, ten, hundred, called], children);
    Ok(())
}

/// The same code under another digest.
fn load(engine: &Engine, bytes: &[u8], n: usize) -> Result<Arc<Module>> {
    Ok(engine.load(&with_section(bytes, "bench:number", &n.to_le_bytes()))?)
}

fn shown(name: &str) -> Result<Resident> {
    let now = resident(None)?;
    row(name, now);
    Ok(now)
}

fn row(name: &str, of: Resident) {
    println!("| {name} | {} | {} | {} |", of.rss, of.anonymous, of.pss);
}

fn call_each(modules: &[Arc<Module>]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let port = Arc::new(Canned { by_task: false });
        for module in modules {
            job::poll(module, &job::request(), &job::operation(), &port).await;
        }
    });
    Ok(())
}

/// The mean of the children, each called for a while.
fn children(peer: &std::path::Path) -> Result<Resident> {
    let folder = tempfile::tempdir()?;
    let started: Vec<Provider> = (0..CHILDREN)
        .map(|n| Provider::start(peer, folder.path(), &format!("child-{n}")))
        .collect::<Result<_>>()?;
    let mut sum = Resident::default();
    for provider in &started {
        Caller::start(peer, provider)?.round(1, Duration::from_millis(50))?;
    }
    for provider in &started {
        let own = resident(Some(provider.id()))?;
        sum.rss += own.rss;
        sum.anonymous += own.anonymous;
        sum.pss += own.pss;
    }
    let n = CHILDREN as u64;
    let mean = Resident { rss: sum.rss / n, anonymous: sum.anonymous / n, pss: sum.pss / n };
    row("one gRPC child (mean of 10)", mean);
    Ok(mean)
}

fn report(file: usize, [one, ten, hundred, called]: [Resident; 4], child: Resident) {
    let each = |of: fn(&Resident) -> u64| (of(&hundred) as f64 - of(&ten) as f64) / (MODULES - 10) as f64;
    println!(
        "\nA module's file: {} KiB. From the 10th to the 100th, each module took {:.0} KiB of RSS, {:.0} KiB of it \
              anonymous; the first took {} KiB more than that, most of it the compiler's.",
        file / 1024,
        each(|it| it.rss),
        each(|it| it.anonymous),
        one.rss as i64 - each(|it| it.rss) as i64
    );
    println!("\n| what | figure | goal | |\n|---|--:|--:|---|");
    let anonymous = each(|it| it.anonymous);
    println!("| anonymous KiB per module | {anonymous:.0} | at most 128 | {} |", word(anonymous <= 128.0));
    let children = child.rss as f64 * MODULES as f64;
    let ratio = called.rss as f64 / children;
    println!(
        "| RSS of this process with 100 modules over 100 children | 1/{:.1} | at most 1/5 | {} |",
        1.0 / ratio,
        word(ratio <= 0.2)
    );
    let children = child.anonymous as f64 * MODULES as f64;
    println!("| the same, anonymous memory alone | {:.2} | – | |", called.anonymous as f64 / children);
}
