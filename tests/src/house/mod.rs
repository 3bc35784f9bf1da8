//! The real daemon as a process: configured, started, asked, killed and started again.
//!
//! [`House`] owns a folder with state, providers and log. The binary is the one that cargo built for this test run.

mod api;
mod config;
mod leash;
mod objects;
mod observe;

pub use config::{Endpoint, Grant};
pub use objects::{bmc_machine, cloud_machine, credential, credential_secret, operation, settled, until};

use crate::{client::Client, counterparts, folders};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest wait for a daemon to answer after its start, or to end after a signal.
const PATIENCE: Duration = Duration::from_secs(60);

/// One daemon and its folder. Dropping it kills the process and removes the folder.
pub struct House {
    folder: TempDir,
    grants: Vec<Grant>,
    log_filter: String,
    limits: String,
    secrets: String,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    leash: Option<leash::Leash>,
    access: Option<api::Access>,
}

/// What a process holds of the machine's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub now: u64,
    pub most: u64,
}

impl House {
    /// A house that has not been started.
    pub fn new() -> Result<House> {
        let folder = tempfile::Builder::new().prefix("holdfast-house-").tempdir()?;
        for name in ["providers", "state"] {
            let path = folder.path().join(name);
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(House {
            folder,
            grants: Vec::new(),
            log_filter: "trace".to_owned(),
            limits: String::new(),
            secrets: String::new(),
            environment: Vec::new(),
            child: None,
            leash: None,
            access: None,
        })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn state_dir(&self) -> PathBuf {
        self.folder().join("state")
    }

    pub fn providers_dir(&self) -> PathBuf {
        self.folder().join("providers")
    }

    /// Puts a module into the providers folder by rename, as an operator would.
    pub fn drop_in(&self, file: &str, module: &[u8]) -> Result<PathBuf> {
        let path = self.providers_dir().join(file);
        let partial = self.providers_dir().join(format!(".{file}.partial"));
        fs::write(&partial, module)?;
        fs::rename(&partial, &path)?;
        Ok(path)
    }

    /// What the configuration grants to one provider; replaces an earlier grant of the name. Written at the next
    /// start, or by [`House::write_config`] for a daemon that runs.
    pub fn grant(&mut self, grant: Grant) -> &mut House {
        self.grants.retain(|it| it.name != grant.name);
        self.grants.push(grant);
        self
    }

    /// What the daemon logs; `trace` unless this is called. Without `trace` a module loads in a fraction of the time.
    pub fn log_filter(&mut self, filter: &str) -> &mut House {
        self.log_filter = filter.to_owned();
        self
    }

    /// What stands under `[limits]`, as TOML.
    pub fn limits(&mut self, toml: &str) -> &mut House {
        self.limits = toml.to_owned();
        self
    }

    /// Raw tables for the configuration: `[[secret]]`, `[orphans]`.
    pub fn secrets(&mut self, toml: &str) -> &mut House {
        self.secrets = toml.to_owned();
        self
    }

    /// One more environment variable for the process.
    pub fn env(&mut self, name: &str, value: &str) -> &mut House {
        self.environment.retain(|(it, _)| it != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn unset_env(&mut self, name: &str) -> &mut House {
        self.environment.retain(|(it, _)| it != name);
        self
    }

    /// Writes the configuration file.
    pub fn write_config(&self) -> Result<PathBuf> {
        let path = self.folder().join("holdfast.toml");
        let text =
            config::render(self.folder(), &self.grants, &self.log_filter, &self.limits, &self.secrets)?;
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Starts the process and waits until the API answers.
    pub async fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.until_ready().await
    }

    /// Starts the process and does not wait: for daemons that are to die on the way.
    pub fn spawn(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the daemon runs already");
        let config = self.write_config()?;
        let kubeconfig = self.kubeconfig();
        if kubeconfig.exists() {
            fs::remove_file(&kubeconfig)?;
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let child = Command::new(binary()?)
            .args(["run", "--config"])
            .arg(config)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("the daemon did not start")?;
        self.leash = Some(leash::Leash::tie(child.id(), self.folder())?);
        self.child = Some(child);
        self.access = None;
        Ok(())
    }

    /// Waits until the API answers.
    ///
    /// # Errors
    /// Where the process ended, with the last lines of its log.
    pub async fn until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.ended()? {
                bail!("the daemon ended with {status}:\n{}", self.log_tail(30));
            }
            if let Ok(access) = api::Access::read(&self.kubeconfig())
                && access.ready().await
            {
                self.access = Some(access);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the daemon did not answer within {PATIENCE:?}:\n{}", self.log_tail(30))
    }

    /// The exit status of a process that has ended.
    pub fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        let Some(child) = &mut self.child else { bail!("the daemon was not started") };
        Ok(child.try_wait()?)
    }

    /// Waits until the process has ended by itself.
    pub async fn until_ended(&mut self) -> Result<std::process::ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.ended()? {
                self.child = None;
                self.leash = None;
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the daemon did not end within {PATIENCE:?}:\n{}", self.log_tail(30))
    }

    /// SIGKILL, at once.
    pub fn kill(&mut self) -> Result<()> {
        // Before the process is gone, so that the leash never pulls at somebody else's.
        self.leash = None;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and does not wait: for daemons that are to die while they drain.
    pub fn terminate(&self) -> Result<()> {
        let Some(child) = &self.child else { bail!("the daemon was not started") };
        let pid = rustix::process::Pid::from_child(child);
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
    }

    /// SIGTERM, and waits for the drain to end well.
    pub async fn stop(&mut self) -> Result<()> {
        self.terminate()?;
        let status = self.until_ended().await?;
        ensure!(status.success(), "the drain ended with {status}:\n{}", self.log_tail(30));
        Ok(())
    }

    /// Resident memory of the process: now, and the most that it ever was.
    pub fn memory(&self) -> Result<Memory> {
        let Some(child) = &self.child else { bail!("the daemon was not started") };
        let text = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let kib = |key: &str| -> Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next());
            Ok(number.with_context(|| format!("the kernel says no {key}"))?.parse()?)
        };
        Ok(Memory { now: kib("VmRSS:")? << 10, most: kib("VmHWM:")? << 10 })
    }

    /// A client over TLS, as any other client would be.
    pub fn client(&self) -> Result<kube::Client> {
        Ok(self.access()?.kube())
    }

    /// A plain HTTPS client with the token.
    pub fn https(&self) -> Result<Client> {
        self.access()?.https()
    }

    fn access(&self) -> Result<&api::Access> {
        self.access.as_ref().context("the daemon does not answer yet")
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.state_dir().join("kubeconfig")
    }

    /// Runs kubectl against this daemon; the exit status is the caller's to judge.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with something on its standard input.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<Output> {
        use std::io::Write;
        let mut child = self.kubectl_command(arguments)?.spawn()?;
        child.stdin.take().context("kubectl has no stdin")?.write_all(input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// kubectl against this daemon, not started yet: for more environment, or to read while it runs.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(counterparts::kubectl()?);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig()).env("HOME", self.folder());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs kubectl and wants it to succeed; gives its output.
    pub fn kubectl_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments)?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "kubectl {} failed: {told}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn log_path(&self) -> PathBuf {
        self.folder().join("holdfast.log")
    }

    /// Everything that the daemon wrote to its standard streams, over all starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// The last lines, without those of `TRACE` and `DEBUG`.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let told: Vec<&str> =
            log.lines().filter(|line| !line.contains("TRACE") && !line.contains("DEBUG")).collect();
        told[told.len().saturating_sub(lines)..].join("\n")
    }

    /// The bytes of every file below the state directory.
    pub fn state_bytes(&self) -> Result<Vec<u8>> {
        fn read(folder: &Path, bytes: &mut Vec<u8>) -> Result<()> {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    read(&path, bytes)?;
                } else {
                    bytes.extend(fs::read(path)?);
                }
            }
            Ok(())
        }
        let mut bytes = Vec::new();
        read(&self.state_dir(), &mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // A process that is already gone is what is wanted.
        let _ = self.kill();
    }
}

/// The `holdfast` binary of this build. Cargo builds it because its package has integration tests of its own.
pub fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let profile = own.ancestors().nth(2).context("the test binary lies in cargo's target folder")?;
    let path = profile.join("holdfast");
    ensure!(
        path.is_file(),
        "{} is missing; run `cargo test --workspace`, which builds it (folder {})",
        path.display(),
        folders::target().display()
    );
    Ok(path)
}
