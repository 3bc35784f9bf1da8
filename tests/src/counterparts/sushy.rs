//! The sushy-tools Redfish emulator with its fake driver, over TLS with basic authentication, unchanged.
//! Power changes take the time that its own driver draws: 1 to 11 seconds, which no setting of it shortens; many
//! systems in one emulator wait at the same time. Its state survives `kill` and `restart`.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{environment, server::Server};
use crate::{client::Client, folders::checkout, tls::RunCa};

const UNTIL_POWER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
}

/// One system of the emulator.
#[derive(Clone, Debug)]
pub struct FakeSystem {
    /// A UUID: the system's Redfish id.
    pub id: String,
    pub name: String,
    pub power: Power,
}

impl FakeSystem {
    /// System number `number`, with an id that follows from it.
    pub fn numbered(number: u32, power: Power) -> FakeSystem {
        let id = format!("00000000-0000-4000-8000-{number:012}");
        FakeSystem { id, name: format!("bm{number}"), power }
    }

    pub fn path(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.id)
    }
}

/// The one account of the emulator.
#[derive(Clone)]
pub struct Account {
    pub user: String,
    pub password: String,
}

/// A running emulator, or one that was killed and may be restarted. Ends when dropped, and with this process.
pub struct Sushy {
    folder: TempDir,
    environment: PathBuf,
    ca_pem: String,
    account: Account,
    port: u16,
    running: Option<Server>,
}

impl Sushy {
    /// Installs it when needed, starts it on an ephemeral loopback port, returns once it answers.
    pub async fn start(ca: &RunCa, systems: &[FakeSystem], account: &Account) -> Result<Sushy> {
        ensure!(!systems.is_empty(), "the emulator needs at least one system");
        let environment = tokio::task::spawn_blocking(|| {
            environment::ensure("sushy-tools", include_str!("../../counterparts/sushy.txt"))
        })
        .await??;
        let folder = tempfile::Builder::new().prefix("holdfast-sushy-").tempdir()?;
        let certificate = ca.issue("sushy-tools emulator", &[])?;
        fs::create_dir(folder.path().join("state"))?;
        fs::write(folder.path().join("server.crt"), certificate.certificate_pem)?;
        fs::write(folder.path().join("server.key"), certificate.key_pem)?;
        fs::write(folder.path().join("htpasswd"), password_line(&environment, account)?)?;
        fs::write(folder.path().join("emulator.conf.py"), settings(folder.path(), systems))?;
        let (ca_pem, account) = (ca.pem().to_owned(), account.clone());
        let mut sushy = Sushy { folder, environment, ca_pem, account, port: 0, running: None };
        sushy.restart().await?;
        Ok(sushy)
    }

    /// `https://127.0.0.1:port`; the same after a restart.
    pub fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A client with the right account, that talks to the emulator directly.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.origin(), &self.ca_pem)?.with_basic(&self.account.user, &self.account.password))
    }

    /// SIGKILL, and gone when this returns. Nothing happens if it is not running.
    pub fn kill(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), |mut running| running.kill())
    }

    /// Starts it again on the same port with the same state, killing it first if it still runs.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill()?;
        let mut command = Command::new(self.environment.join("bin/python"));
        command.arg(checkout().join("tests/counterparts/run_sushy.py"));
        command.arg("--config").arg(self.folder.path().join("emulator.conf.py"));
        if self.port != 0 {
            command.args(["--port", &self.port.to_string()]);
        }
        let name = "the sushy-tools emulator";
        let running = Server::start(name, command, "Running on https://127.0.0.1:").await?;
        self.port = running.port;
        let client = self.client()?;
        running.until(async || Ok(client.get("/redfish/v1/Systems").await?.status == 200)).await?;
        self.running = Some(running);
        Ok(())
    }

    /// Asks the emulator itself for a system's power.
    pub async fn power_state(&self, id: &str) -> Result<Power> {
        let reply = self.client()?.get(&format!("/redfish/v1/Systems/{id}")).await?;
        ensure!(reply.status == 200, "the emulator answers {} for system {id}", reply.status);
        match reply.json()["PowerState"].as_str() {
            Some("On") => Ok(Power::On),
            Some("Off") => Ok(Power::Off),
            other => bail!("the emulator gives system {id} the power state {other:?}"),
        }
    }

    /// Asks the emulator until the system has this power; an error after a minute.
    pub async fn until_power(&self, id: &str, power: Power) -> Result<()> {
        let deadline = Instant::now() + UNTIL_POWER;
        while self.power_state(id).await? != power {
            ensure!(Instant::now() < deadline, "system {id} is not {power:?} after a minute");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The last lines that it logged.
    pub fn log(&self) -> String {
        self.running.as_ref().map(Server::log).unwrap_or_default()
    }
}

/// The emulator's settings are Python; JSON strings, lists and objects are too. `external_notifier` is left out,
/// since its false has another name there and is what an absent one means.
fn settings(folder: &Path, systems: &[FakeSystem]) -> String {
    let systems: Vec<Value> =
        systems.iter().enumerate().map(|(number, system)| fake(number, system)).collect();
    let path = |name: &str| Value::from(folder.join(name).to_string_lossy()).to_string();
    format!(
        "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n\
         SUSHY_EMULATOR_LISTEN_PORT = 0\n\
         SUSHY_EMULATOR_FAKE_DRIVER = True\n\
         SUSHY_EMULATOR_FEATURE_SET = 'full'\n\
         SUSHY_EMULATOR_AUTH_FILE = {}\n\
         SUSHY_EMULATOR_STATE_DIR = {}\n\
         SUSHY_EMULATOR_SSL_CERT = {}\n\
         SUSHY_EMULATOR_SSL_KEY = {}\n\
         SUSHY_EMULATOR_FAKE_SYSTEMS = {}\n",
        path("htpasswd"),
        path("state"),
        path("server.crt"),
        path("server.key"),
        Value::from(systems),
    )
}

fn fake(number: usize, system: &FakeSystem) -> Value {
    let power = match system.power {
        Power::On => "On",
        Power::Off => "Off",
    };
    let mac =
        format!("52:54:00:{:02x}:{:02x}:{:02x}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
    json!({ "uuid": system.id, "name": system.name, "power_state": power, "nics": [{ "mac": mac, "ip": "172.22.0.1" }] })
}

fn password_line(environment: &Path, account: &Account) -> Result<Vec<u8>> {
    ensure!(!account.user.contains([':', '\n']), "a user name cannot have a colon or a line end");
    ensure!(!account.password.contains('\n'), "a password of the emulator cannot have a line end");
    let mut child = Command::new(environment.join("bin/python"))
        .arg(checkout().join("tests/counterparts/htpasswd.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the maker of the password file")?;
    let mut stdin = child.stdin.take().context("its standard input")?;
    stdin.write_all(format!("{}\n{}\n", account.user, account.password).as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the password file was not made: {}", output.status);
    Ok(output.stdout)
}
