//! One daemon with the simulated provider, its cloud, and objects of every kind; shared by the tests that run at a time.

use std::process::Output;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use holdfast_simulated_cloud::{Cloud, Fault, Options, Rule, Seed};
use holdfast_tests::house::{Endpoint, Grant, House};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A step that takes longer than this has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Found in no file of the state directory.
pub const TOKEN: &str = "sim-token-4f9a71c2e8b35d60";

pub struct World {
    pub house: House,
    pub cloud: Cloud,
    _runtime: Runtime,
}

/// The world of this moment; the last test that holds it ends its daemon.
pub fn world() -> Arc<World> {
    static WORLD: Mutex<Weak<World>> = Mutex::new(Weak::new());
    let mut shared = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(world) = shared.upgrade() {
        return world;
    }
    let world = Arc::new(World::make());
    *shared = Arc::downgrade(&world);
    world
}

impl World {
    fn make() -> World {
        let runtime = Runtime::new().unwrap();
        let module = holdfast_tests::modules::build().unwrap().provider("simulated").unwrap();
        let module = std::fs::read(module).unwrap();
        let manifest = holdfast_runtime::inspect(&module).unwrap().manifest;
        let cloud = runtime
            .block_on(Cloud::start(Options { api_token: TOKEN.into(), ..Options::default() }))
            .unwrap();
        let mut house = House::new().unwrap();
        let endpoint = Endpoint::at("api", cloud.origin(), cloud.ca_pem());
        house.grant(Grant::approving(&manifest).endpoint(endpoint));
        house.drop_in("simulated.wasm", &module).unwrap();
        runtime.block_on(house.start()).unwrap();
        let world = World { house, cloud, _runtime: runtime };
        world.make_objects();
        world
    }

    fn make_objects(&self) {
        let servers: Vec<String> = ["plain", "watched", "endless", "locked"]
            .map(|name| self.cloud.seed_server(Seed { status: "off".into(), ..Seed::named(name) }).unwrap())
            .into();
        let on = |server: &str| Rule::on("POST", &format!("/v1/servers/{server}/actions/power_on"));
        // An action that ends when the test moves the cloud's clock, and one that is refused as long as anybody asks.
        let endless = on(&servers[2]).does(Fault { action_ms: Some(600_000), ..Fault::default() });
        self.cloud.set_faults(vec![endless, on(&servers[3]).refuses(423, "locked")]);
        let mut objects = include_str!("objects.yaml").replace("TOKEN", TOKEN);
        for (name, server) in ["plain", "watched", "endless", "locked"].iter().zip(&servers) {
            objects.push_str(&machine(name, server));
        }
        self.apply(&objects);
        self.wait_for("provider/simulated", "--for=jsonpath={.status.state}=Ready");
        // Columns are shown for what exists: one operation that ends, so that there are events too.
        self.apply(&operation("first-off", "plain", "HostPowerOff", ""));
        self.wait_for("mop/first-off", "--for=condition=Completed");
        self.until(&["get", "events", "-n", "holdfast-system"], "an event of the operation", |text| {
            text.contains("machineoperation/first-off")
        });
    }

    /// Wants success; gives the standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.house.kubectl_ok(arguments).unwrap()
    }

    pub fn apply(&self, yaml: &str) -> String {
        self.fed(&["apply", "-f", "-"], yaml)
    }

    /// Wants success with this on the standard input; gives the standard output.
    pub fn fed(&self, arguments: &[&str], input: &str) -> String {
        let output = self.house.kubectl_with(arguments, input).unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Wants failure with this on the standard input; gives the error output.
    pub fn refused(&self, arguments: &[&str], input: &str) -> String {
        let output = self.house.kubectl_with(arguments, input).unwrap();
        assert!(!output.status.success(), "kubectl {arguments:?} was to fail, and said {}", stdout(&output));
        stderr(&output)
    }

    pub fn wait_for(&self, object: &str, what: &str) {
        self.ok(&["wait", object, what, &format!("--timeout={}s", PATIENCE.as_secs())]);
    }

    pub fn json(&self, object: &str) -> Value {
        serde_json::from_str(&self.ok(&["get", object, "-o", "json"])).unwrap()
    }

    /// Asks until the answer is as wanted.
    pub fn until(&self, arguments: &[&str], what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let output = self.house.kubectl(arguments).unwrap();
            let text = stdout(&output);
            if wanted(&text) {
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not come; last: {text}{}", stderr(&output));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn machine(name: &str, server: &str) -> String {
    format!(
        "---\napiVersion: holdfast.dev/v1alpha1\nkind: Machine\nmetadata:\n  name: {name}\n  labels:\n    \
         holdfast.dev/site: lab\nspec:\n  host:\n    external: {{provider: simulated, providerID: 'sim://{server}'}}\n"
    )
}

/// `labels` is the inside of a flow mapping.
pub fn operation(name: &str, machine: &str, kind: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: holdfast.dev/v1alpha1\nkind: MachineOperation\nmetadata:\n  name: {name}\n  labels: \
         {{{labels}}}\nspec:\n  machineRef: {{name: {machine}}}\n  operationKind: {kind}\n"
    )
}
