//! `holdfast demo`: the whole house at work on a simulated cloud, told as a story.
//!
//! Nothing is faked but the cloud: the module is built and dropped in, the daemon that runs is the one that `run`
//! starts, and what is printed is read from the API, the cloud's ledger and the evidence of custody.

mod evidence;
mod story;
mod world;

use crate::cli::Demo;
use crate::daemon::{self, Options};
use crate::logging;
use anyhow::Context;
use std::io::Write;

pub async fn run(arguments: Demo) -> anyhow::Result<()> {
    let log = logging::Copy::default();
    logging::install_quiet("trace", log.clone())?;
    let world = world::World::build(&arguments).await?;
    let told = tell(&world, &arguments, &log).await;
    if told.is_err() {
        eprintln!("the last lines of the daemon's log:");
        let text = String::from_utf8_lossy(&log.contents()).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("TRACE")).collect();
        for line in &lines[lines.len().saturating_sub(20)..] {
            eprintln!("  {line}");
        }
    }
    world.leave(arguments.keep, &log).await?;
    told
}

async fn tell(world: &world::World, arguments: &Demo, log: &logging::Copy) -> anyhow::Result<()> {
    say("The configuration that approves the module (printed in full, as `run --config` would read it):");
    for line in world.config_text.lines() {
        println!("    {line}");
    }
    let witness = evidence::Witness::new(world);
    let config = crate::config::load(&world.config_path)?;
    let daemon =
        daemon::start(config, Options { witness: Some(witness.clone()), ..Options::default() }).await?;
    say(&format!("The daemon serves its API: export KUBECONFIG={}", daemon.kubeconfig().display()));
    let outcome = story::tell(world, &daemon).await;
    let outcome = match outcome {
        Ok(()) => evidence::show(world, &daemon, &witness, log).await,
        Err(error) => Err(error),
    };
    if arguments.stay && outcome.is_ok() {
        say("Serving until you press Ctrl-C.");
        tokio::signal::ctrl_c().await.context("no signal handler")?;
    }
    daemon.stop().await;
    outcome?;
    say("Every step succeeded.");
    Ok(())
}

/// One line of the story.
fn say(line: &str) {
    println!("\n» {line}");
    let _ = std::io::stdout().flush();
}
