//! Official clients of other makers, each in a process of its own: a second witness that shares no code with us.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::folders::checkout;

/// Runs a script of `tests/counterparts` with one JSON request, and gives back its one JSON answer. It sees no
/// setting of this machine: no proxy, no credentials, no configuration.
pub(super) async fn ask(environment: &Path, script: &str, ca: &Path, request: Value) -> Result<Value> {
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(checkout().join("tests/counterparts").join(script));
    command.env_clear().env("PYTHONUTF8", "1").env("REQUESTS_CA_BUNDLE", ca);
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("HOME", environment);
    let script = PathBuf::from(script);
    tokio::task::spawn_blocking(move || run(command, &request))
        .await?
        .with_context(|| format!("{} of tests/counterparts", script.display()))
}

fn run(mut command: Command, request: &Value) -> Result<Value> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting it")?;
    let mut stdin = child.stdin.take().context("its standard input")?;
    // Its answer tells why it did not read.
    let _ = stdin.write_all(request.to_string().as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("its answer is no JSON")
}
