//! The daemon under attack, the cloud behind it, and what must be true of both after each attack.

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use holdfast_api::{Phase, Provider};
use holdfast_manifest::Manifest;
use holdfast_simulated_cloud::{Cloud, Options, Seed};
use holdfast_tests::house::{
    Endpoint, Grant, House, cloud_machine, credential, credential_secret, operation, settled, until,
};
use holdfast_tests::{folders, modules};
use ring::digest::{SHA256, digest};
use tokio::runtime::Runtime;
use wasm_encoder::{ComponentSection, CustomSection};

/// Long enough for a loaded machine; nothing waits for it where all is well.
pub const PATIENCE: Duration = Duration::from_secs(120);
pub const SITE: &str = "lab";

/// The daemon may never hold more than this. Two guests of 64 MiB, a compiler at work and a file of 64 MiB in two
/// copies fit; a bomb that goes off in the host does not.
const MOST_MEMORY: u64 = 512 << 20;

pub struct World {
    pub house: House,
    pub cloud: Cloud,
    /// The hostile guest as a component without a manifest, and the manifest that it declares.
    pub guest: Vec<u8>,
    pub manifest: String,
    /// The file that the configuration pins for the provider `swapped`.
    pub pinned: Vec<u8>,
}

/// Runs a test against the world that all tests share; the first one makes it.
pub fn run<F: Future<Output = Result<()>>>(test: impl FnOnce(&'static World) -> F) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    // A world that could not begin is not begun again for each test.
    static WORLD: OnceLock<Result<World, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"));
    let begun = WORLD.get_or_init(|| runtime.block_on(World::begin()).map_err(|error| format!("{error:#}")));
    let world = begun.as_ref().unwrap_or_else(|error| panic!("the daemon was not put up: {error}"));
    if let Err(error) = runtime.block_on(test(world)) {
        panic!("{error:#}\nthe daemon's last words:\n{}", world.house.log_tail(12));
    }
}

impl World {
    async fn begin() -> Result<World> {
        let modules = tokio::task::spawn_blocking(modules::build).await??;
        let guest = std::fs::read(modules.hostile("guest")?)?;
        let manifest = read("tests/hostile/guest/provider.toml")?;
        let cloud = Cloud::start(Options::default()).await?;
        // What is asked is done when the answer leaves, so that an honest operation takes one callback.
        cloud.behave(|behaviour| behaviour.action_ms = 0);
        let pinned = packed(&guest, &renamed(&manifest, "swapped"));
        let mut house = House::new()?;
        house.limits("call-seconds = 3");
        let at = || Endpoint::at("api", cloud.origin(), cloud.ca_pem());
        let swapped = Manifest::parse(&renamed(&manifest, "swapped"))?;
        house.grant(Grant { sha256: Some(sha256(&pinned)), ..Grant::approving(&swapped).endpoint(at()) });
        let hosts = read("tests/hostile/hosts/provider.toml")?;
        for text in [&manifest, &hosts, &read("providers/simulated/provider.toml")?] {
            house.grant(Grant::approving(&Manifest::parse(text)?).endpoint(at()));
        }
        house.drop_in("hostile.wasm", &packed(&guest, &manifest))?;
        house.drop_in("landlord.wasm", &packed(&std::fs::read(modules.hostile("hosts")?)?, &hosts))?;
        house.drop_in("simulated.wasm", &std::fs::read(modules.provider("simulated")?)?)?;
        house.start().await?;
        let client = house.client()?;
        for provider in ["hostile", "landlord", "simulated", "swapped"] {
            let secret = format!("token-{provider}");
            let token = cloud.api_token().as_bytes();
            credential_secret(&client, &secret, provider, &[("api-token", token)]).await?;
            credential(&client, SITE, provider, &secret).await?;
        }
        for provider in ["hostile", "landlord", "simulated"] {
            until(&client, provider, PATIENCE, |found: &Provider| state(found) == "Ready").await?;
        }
        Ok(World { house, cloud, guest, manifest, pinned })
    }

    pub fn client(&self) -> Result<kube::Client> {
        self.house.client()
    }

    /// A server of the cloud that nobody has touched.
    pub fn server(&self, name: &str) -> Result<String> {
        Ok(self.cloud.seed_server(Seed::named(name))?)
    }

    /// Nothing was done to the server.
    pub fn untouched(&self, server: &str) -> Result<()> {
        let ledger = self.cloud.ledger();
        let done = ledger.effects_of(server);
        ensure!(done.is_empty(), "nothing may be done to {server}, and this was: {done:?}");
        Ok(())
    }

    /// The cloud was not even asked about the server.
    pub fn unasked(&self, server: &str) -> Result<()> {
        let path = format!("/v1/servers/{server}");
        let asked: Vec<String> = self.cloud.requests().into_iter().map(|request| request.target).collect();
        // An id may be the beginning of another one.
        let about = |target: &&String| {
            target.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found: Vec<&String> = asked.iter().filter(about).collect();
        ensure!(found.is_empty(), "the cloud must not be asked about {server}, and was: {found:?}");
        Ok(())
    }

    /// What has to be true after the attack of this name.
    pub async fn stands(&self, after: &str) -> Result<()> {
        let name = format!("honest-after-{after}");
        let (client, server) = (self.client()?, self.server(&name)?);
        cloud_machine(&client, &name, SITE, "simulated", &format!("sim://{server}")).await?;
        operation(&client, &name, &name, "HostPowerOff", serde_json::json!({})).await?;
        let honest = settled(&client, &name, PATIENCE).await?;
        ensure!(honest.phase == Phase::Complete, "after {after} an honest operation ends with {honest:?}");
        ensure!(self.cloud.server(&server).is_some_and(|it| it["status"] == "off"), "{server} is not off");
        let ready = self.house.https()?.get("/readyz").await?;
        ensure!(ready.status == 200, "after {after} /readyz answers {}", ready.status);
        let memory = self.house.memory()?;
        let mib = |bytes: u64| bytes >> 20;
        println!("after {after}: {} MiB resident, {} MiB at most", mib(memory.now), mib(memory.most));
        ensure!(memory.most < MOST_MEMORY, "the daemon held {} MiB", mib(memory.most));
        self.tells_no_secret("the log", &self.house.log())
    }

    /// The token stands nowhere in what was told.
    pub fn tells_no_secret(&self, place: &str, told: &str) -> Result<()> {
        ensure!(!told.contains(self.cloud.api_token()), "{place} tells the token of the cloud");
        Ok(())
    }
}

pub fn state(provider: &Provider) -> String {
    let word = |status: &holdfast_api::ProviderStatus| format!("{:?}", status.state);
    provider.status.as_ref().map(word).unwrap_or_default()
}

/// Why the provider's last file was refused; empty if none was.
pub fn refusal(provider: &Provider) -> String {
    let last = provider.status.as_ref().and_then(|status| status.last_refusal.as_ref());
    last.map(|last| last.reason.clone()).unwrap_or_default()
}

/// The component with the text as its manifest, whatever the text is worth.
pub fn packed(component: &[u8], manifest: &str) -> Vec<u8> {
    with_section(component, holdfast_manifest::SECTION, manifest.as_bytes())
}

/// The component with one more custom section, which changes its digest and nothing that it does.
pub fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    CustomSection { name: name.into(), data: data.into() }.append_to_component(&mut bytes);
    bytes
}

/// The manifest under another provider's name.
pub fn renamed(manifest: &str, name: &str) -> String {
    manifest.replacen("name = \"hostile\"", &format!("name = \"{name}\""), 1)
}

pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(folders::checkout().join(path)).with_context(|| format!("reading {path}"))
}
