//! The gRPC peer: built on demand in a target folder of its own, started as a child, asked for its times.

use super::figures::Sample;
use anyhow::{Context, Result, ensure};
use holdfast_tests::folders;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Builds the peer; minutes the first time, and the network unless its crates are there.
pub fn build() -> Result<PathBuf> {
    let manifest = folders::checkout().join("tests/benches/grpc-peer/Cargo.toml");
    let target = folders::target().join("grpc-peer");
    eprintln!("building the gRPC peer in {}", target.display());
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        // `cargo bench` would have its profile and its target folder used here too.
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the gRPC peer does not build; cargo says why above");
    Ok(target.join("release/holdfast-bench-grpc-peer"))
}

/// A provider as a child process. Ends when dropped.
pub struct Provider {
    child: Child,
    socket: PathBuf,
}

impl Provider {
    pub fn start(peer: &Path, folder: &Path, name: &str) -> Result<Provider> {
        let socket = folder.join(name);
        let mut child = Command::new(peer)
            .arg("serve")
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the peer")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the peer's output")?).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "the peer did not start to serve");
        Ok(Provider { child, socket })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The process that calls a provider, with the client of the same library.
pub struct Caller {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Answer {
    nanos: Vec<Vec<u64>>,
}

impl Caller {
    pub fn start(peer: &Path, provider: &Provider) -> Result<Caller> {
        let mut child = Command::new(peer)
            .arg("call")
            .arg(&provider.socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the peer's caller")?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().context("the caller's output")?);
        Ok(Caller { child, to, from })
    }

    /// Calls on so many threads, each with its own connection, for so long.
    pub fn round(&mut self, threads: usize, length: Duration) -> Result<Sample> {
        let to = self.to.as_mut().context("the caller's input")?;
        writeln!(to, "{} {threads}", length.as_millis())?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let answer: Answer = serde_json::from_str(&line).context("reading the caller's times")?;
        Ok(Sample::of(answer.nanos))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}
