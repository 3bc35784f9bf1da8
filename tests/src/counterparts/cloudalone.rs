//! The cloudalone emulator of Hetzner Cloud with its stub backend, unchanged, over TLS. Asked by the official client.
//!
//! Labels are not stored and label selectors are ignored. Its state survives `kill` and `restart`; an action that a kill
//! interrupts runs for ever, and its server stays locked. Concurrent creates of one name answer 500.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ask::ask, environment, server::Server};
use crate::{client::Client, folders::checkout, tls::RunCa};

/// Its metadata asks for 3.12; what it uses is in 3.11.
const OLDEST: (u32, u32) = (3, 11);

/// A running emulator, or one that was killed and may be restarted. Ends when dropped, and with this process.
pub struct Cloudalone {
    folder: TempDir,
    environment: PathBuf,
    ca_pem: String,
    token: String,
    port: u16,
    server: Option<Server>,
}

/// A server as the official client shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HcloudServer {
    pub id: String,
    pub name: String,
    pub status: String,
    #[serde(rename = "type")]
    pub server_type: String,
    pub image: Option<String>,
}

impl Cloudalone {
    /// A type and an image of its catalogue, and its one location.
    pub const TYPE: &str = "small";
    pub const IMAGE: &str = "debian-13";
    pub const LOCATION: &str = "abilian";

    /// Installs it when needed, starts it on an ephemeral loopback port, returns once it answers.
    pub async fn start(ca: &RunCa, token: &str) -> Result<Cloudalone> {
        let environment = tokio::task::spawn_blocking(|| {
            environment::ensure_since("cloudalone", include_str!("../../counterparts/cloudalone.txt"), OLDEST)
        })
        .await??;
        let folder = tempfile::Builder::new().prefix("holdfast-cloudalone-").tempdir()?;
        let certificate = ca.issue("cloudalone emulator", &[])?;
        fs::write(folder.path().join("server.crt"), certificate.certificate_pem)?;
        fs::write(folder.path().join("server.key"), certificate.key_pem)?;
        fs::write(folder.path().join("ca.crt"), ca.pem())?;
        let (ca_pem, token) = (ca.pem().to_owned(), token.to_owned());
        let mut cloud = Cloudalone { folder, environment, ca_pem, token, port: 0, server: None };
        cloud.restart().await?;
        Ok(cloud)
    }

    /// `https://127.0.0.1:port`; the same after a restart.
    pub fn origin(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// A client with the right token, that talks to the emulator directly.
    pub fn client(&self) -> Result<Client> {
        let bearer = format!("Bearer {}", self.token);
        Ok(Client::new(&self.origin(), &self.ca_pem)?.with_header("authorization", &bearer))
    }

    /// SIGKILL, and gone when this returns. Nothing happens if it is not running.
    pub fn kill(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |mut server| server.kill())
    }

    /// Starts it again on the same port with the same state, killing it first if it still runs.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill()?;
        let at = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(self.environment.join("bin/python"));
        command.arg(checkout().join("tests/counterparts/run_cloudalone.py")).arg(self.port.to_string());
        command.arg(at("server.crt")).arg(at("server.key")).current_dir(self.folder.path());
        command.env("CLOUDALONE_CONFIG", at("none.toml")).env("CLOUDALONE_HOME", at("home"));
        command.env("CLOUDALONE_DB", at("state.db")).env("CLOUDALONE_BACKEND", "stub");
        command.env("CLOUDALONE_TOKEN", &self.token);
        let server =
            Server::start("the cloudalone emulator", command, "running on https://127.0.0.1:").await?;
        self.port = server.port;
        let client = self.client()?;
        server.until(async || Ok(client.get("/v1/servers").await?.status == 200)).await?;
        self.server = Some(server);
        Ok(())
    }

    /// What the official client answers to `what` of `tests/counterparts/ask_hcloud.py`: a value, or an error code.
    pub async fn call(
        &self,
        token: &str,
        what: &str,
        arguments: Value,
    ) -> Result<std::result::Result<Value, String>> {
        let request = json!({
            "endpoint": format!("{}/v1", self.origin()), "token": token, "do": what, "arguments": arguments,
        });
        let answer =
            ask(&self.environment, "ask_hcloud.py", &self.folder.path().join("ca.crt"), request).await?;
        Ok(match answer["error"].as_str() {
            Some(code) => Err(code.to_owned()),
            None => Ok(answer["ok"].clone()),
        })
    }

    /// Every server, asked by the official client.
    pub async fn servers(&self) -> Result<Vec<HcloudServer>> {
        match self.call(&self.token, "servers", json!({})).await? {
            Ok(servers) => serde_json::from_value(servers).context("servers of the official client"),
            Err(code) => bail!("the official client is refused: {code}"),
        }
    }

    /// The first-boot data of a server, read from the emulator's own state: no call of the API gives it back.
    pub async fn user_data(&self, name: &str) -> Result<Option<String>> {
        let request = json!({ "db": self.folder.path().join("state.db"), "name": name });
        let answer =
            ask(&self.environment, "cloudalone_state.py", &self.folder.path().join("ca.crt"), request)
                .await?;
        Ok(answer.as_str().map(str::to_owned))
    }

    /// The last lines that it logged.
    pub fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }
}
