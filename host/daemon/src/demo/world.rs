//! The demo's world: a folder of its own, a simulated cloud with one server, and a module to drop in.

use crate::cli::Demo;
use crate::logging;
use crate::provider::build;
use anyhow::Context;
use holdfast_simulated_cloud::{Cloud, Options, Seed};
use std::fs;
use std::path::{Path, PathBuf};

/// First-boot data with the shapes that leak: a key, a password, quotes, a block of several lines.
const USER_DATA: &str = "#cloud-config\npassword: \"demo-Pass/w0rd+7\"\nssh_keys:\n  ed25519_private: |\n    \
                         -----BEGIN OPENSSH PRIVATE KEY-----\n    ZGVtby1rZXktYnl0ZXMtdGhhdC1hcmUtc2VjcmV0\n    \
                         -----END OPENSSH PRIVATE KEY-----\n";

pub struct World {
    pub folder: tempfile::TempDir,
    pub cloud: Cloud,
    pub server: String,
    pub module: Vec<u8>,
    pub config_path: PathBuf,
    pub config_text: String,
    pub user_data: String,
}

impl World {
    /// Builds the module, starts the cloud and writes the configuration. Progress goes to stderr.
    pub async fn build(arguments: &Demo) -> anyhow::Result<World> {
        let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir()?;
        let module = module(arguments, folder.path()).await?;
        let cloud = Cloud::start(Options::default()).await.context("the simulated cloud did not start")?;
        let server = cloud.seed_server(Seed::named("node-1")).context("the cloud refused a first server")?;
        let ca = folder.path().join("cloud-ca.pem");
        fs::write(&ca, cloud.ca_pem())?;
        fs::create_dir(folder.path().join("providers"))?;
        let config_text = config(&module, &cloud)?;
        let config_path = folder.path().join("holdfast.toml");
        fs::write(&config_path, &config_text)?;
        Ok(World {
            folder,
            cloud,
            server,
            module,
            config_path,
            config_text,
            user_data: USER_DATA.to_string(),
        })
    }

    pub fn providers_dir(&self) -> PathBuf {
        self.folder.path().join("providers")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Stops the cloud; removes the folder, or keeps it with the log in it.
    pub async fn leave(self, keep: bool, log: &logging::Copy) -> anyhow::Result<()> {
        self.cloud.stop().await;
        if keep {
            let path = self.folder.keep();
            fs::write(path.join("holdfast.log"), log.contents())?;
            println!("\nThe demo's folder is kept: {}", path.display());
        }
        Ok(())
    }
}

async fn module(arguments: &Demo, folder: &Path) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = &arguments.module {
        return fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    }
    let source = source_tree()?.join("providers/simulated");
    let built = folder.join("simulated.wasm.built");
    let target = built.clone();
    tokio::task::spawn_blocking(move || build::build(&source, Some(&target))).await??;
    fs::read(&built).context("the built module cannot be read")
}

/// The checkout: the demo builds its module from source.
fn source_tree() -> anyhow::Result<PathBuf> {
    let from = std::env::current_dir()?;
    from.ancestors()
        .find(|folder| folder.join("providers/simulated/provider.toml").is_file())
        .map(Path::to_path_buf)
        .context("run `demo` inside a checkout of the project, or give --module FILE")
}

fn config(module: &[u8], cloud: &Cloud) -> anyhow::Result<String> {
    let inspected = holdfast_runtime::inspect(module)?;
    Ok(format!(
        "state-dir = \"state\"\nproviders-dir = \"providers\"\n\n\
         [api]\nlisten = \"127.0.0.1:0\"\n\n[observe]\nlisten = \"127.0.0.1:0\"\nlog = \"trace\"\n\n\
         [[provider]]\nname = \"simulated\"\nsha256 = \"{}\"\ncalls = \"{}\"\n\n\
         [[provider.endpoint]]\nname = \"api\"\nsite = \"demo\"\norigin = \"{}\"\nca = \"cloud-ca.pem\"\n\
         ranges = [\"127.0.0.1/32\"]\n",
        inspected.digest,
        inspected.manifest.call_set,
        cloud.origin()
    ))
}
