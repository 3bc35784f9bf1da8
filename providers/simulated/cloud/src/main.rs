//! `holdfast-simulated-cloud`: the simulated cloud as a process of its own.
//! It prints one line of JSON that says where it listens and with which tokens, and serves until SIGINT or SIGTERM.

use std::{io::Write, net::SocketAddr, path::PathBuf};

use anyhow::Context;
use clap::Parser;
use holdfast_simulated_cloud::{Cloud, Options};
use serde_json::json;

/// A machine cloud that does not exist, over HTTPS, with faults on request.
#[derive(Parser)]
struct Args {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Folder for the CA certificate of this run (`ca.pem`); made if it does not exist.
    #[arg(long)]
    state_dir: PathBuf,
    /// Further name for the server certificate; may be repeated.
    #[arg(long = "name")]
    names: Vec<String>,
    /// Keep request bodies in the record. They hold secrets.
    #[arg(long)]
    record_bodies: bool,
    /// Bearer token of the data API in place of a random one.
    #[arg(long)]
    api_token: Option<String>,
    /// Bearer token of the admin API in place of a random one.
    #[arg(long)]
    admin_token: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut options = Options {
        listen: args.listen,
        names: args.names,
        record_bodies: args.record_bodies,
        ..Options::default()
    };
    if let Some(token) = args.api_token {
        options.api_token = token;
    }
    if let Some(token) = args.admin_token {
        options.admin_token = token;
    }
    std::fs::create_dir_all(&args.state_dir)
        .with_context(|| format!("cannot make the folder {}", args.state_dir.display()))?;
    let ca = args.state_dir.join("ca.pem");
    let cloud = Cloud::start(options).await?;
    std::fs::write(&ca, cloud.ca_pem()).with_context(|| format!("cannot write {}", ca.display()))?;
    let (user, password) = cloud.login();
    let line = json!({
        "origin": cloud.origin(),
        "ca": ca,
        "admin_token": cloud.admin_token(),
        "api_token": cloud.api_token(),
        "user": user,
        "password": password,
    });
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    cloud.stop().await;
    Ok(())
}
