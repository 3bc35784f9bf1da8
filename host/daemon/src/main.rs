//! The `holdfast` binary: configuration, command line and wiring. Composition happens here and only here.

mod cli;
mod config;
mod daemon;
mod demo;
mod explain;
mod keys;
mod logging;
mod observe;
mod policies;
mod provider;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Command, ConfigCommand, ProviderCommand, WithConfig};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Run(with) => run_daemon(&with),
        Command::Demo(arguments) => runtime()?.block_on(demo::run(arguments)),
        Command::Config(ConfigCommand::Check(with)) => {
            let config = config::load(&with.config)?;
            config::explain(&config).iter().for_each(|line| println!("{line}"));
            let unreadable = config::unreadable(&config);
            unreadable.iter().for_each(|line| eprintln!("{line}"));
            anyhow::ensure!(unreadable.is_empty(), "what {} names cannot all be read", with.config.display());
            Ok(())
        }
        Command::Kubeconfig(with) => {
            let path = config::load(&with.config)?.kubeconfig();
            let text = std::fs::read_to_string(&path).with_context(|| {
                format!("{} cannot be read; has the daemon been started?", path.display())
            })?;
            print!("{text}");
            Ok(())
        }
        Command::Explain(arguments) => runtime()?.block_on(explain::run(arguments)),
        Command::Provider(command) => provider_command(command),
    }
}

fn provider_command(command: ProviderCommand) -> anyhow::Result<()> {
    match command {
        ProviderCommand::Build { folder, output } => {
            let built = provider::build::build(&folder, output.as_deref())?;
            println!("{}", built.display());
            Ok(())
        }
        ProviderCommand::Inspect { file, since } => provider::inspect::inspect(&file, since.as_deref()),
        ProviderCommand::Pack { component, manifest, output } => {
            provider::pack::pack(&component, &manifest, &output)
        }
        ProviderCommand::Try(arguments) => provider::try_call::try_call(&arguments),
    }
}

/// Runs until SIGTERM or Ctrl-C, then drains.
fn run_daemon(with: &WithConfig) -> anyhow::Result<()> {
    let config = config::load(&with.config)?;
    logging::install(&config.observe.log, config.observe.log_format, None)?;
    holdfast_custody::harden_process().context("the process could not be hardened (attack 66)")?;
    runtime()?.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let path = Some(with.config.clone());
        let options = daemon::Options { watch_config: path, ..daemon::Options::default() };
        let daemon = daemon::start(config, options).await?;
        tracing::info!(api = %daemon.api_address(), kubeconfig = %daemon.kubeconfig().display(), "serving");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("draining");
        daemon.stop().await;
        Ok(())
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no async runtime")
}
