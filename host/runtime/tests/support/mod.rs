//! Hostile and harmless modules out of a few lines of text, and a port that only listens.
#![allow(dead_code, reason = "each test file uses its own part")]

use holdfast_effects::{
    Allocation, CallError, CallOutcome, CallReply, CallRequest, Callback, ClassOffering, ClassRequest, Lend,
    LogLine, Machine, OperationRequest, PlanRequest, Port, Violation,
};
use holdfast_runtime::{Engine, EngineOptions, MANIFEST_SECTION, Module};
use jiff::{SignedDuration, Timestamp};
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A small manifest; `name` may be changed by the caller.
pub const MANIFEST: &str = r#"
[provider]
name = "tiny"
version = "0.1.0"
contract = "0.1"

[operations]
HostPowerOn = { mode = "long-running" }

[endpoints.api]
about = "A service."
auth = "none"

[calls.look]
endpoint = "api"
effect = "read"
method = "GET"
path = "/v1/status"

[calls.look.fields]
state = { at = "json:/state", type = "word" }
"#;

/// The same module as one that also allocates hosts.
pub fn capacity_manifest() -> String {
    let kinds = "HostAllocate = { mode = \"long-running\" }\nHostRelease = { mode = \"long-running\" }\n";
    MANIFEST.replace("[operations]\n", &format!("[operations]\n{kinds}"))
}

pub fn wit() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))
}

/// A whole module whose callbacks all run `body`, which leaves an `i32`: the address of the answer. Zeroed memory is
/// the plain success of every callback; 1024 is free for it.
pub fn guest(imports: &str, body: &str) -> Vec<u8> {
    with_manifest(&component(imports, body), MANIFEST)
}

/// The same, exporting `capacity` too.
pub fn capacity_guest(imports: &str, body: &str) -> Vec<u8> {
    with_manifest(&capacity_component(imports, body), &capacity_manifest())
}

/// The same without a manifest.
pub fn component(imports: &str, body: &str) -> Vec<u8> {
    of_world("operations-provider", imports, body)
}

pub fn capacity_component(imports: &str, body: &str) -> Vec<u8> {
    of_world("capacity-provider", imports, body)
}

fn of_world(world: &str, imports: &str, body: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit()).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    encode(resolve, world, imports, body)
}

/// A module that also imports a function of WASI: the interface's name and WIT text of the function.
pub fn wasi_guest(package: &str, interface: &str, function: &str, imports: &str, body: &str) -> Vec<u8> {
    let component = wasi_component("operations-provider", package, interface, function, imports, body);
    with_manifest(&component, MANIFEST)
}

/// The same of any world, without a manifest.
pub fn wasi_component(
    world: &str,
    package: &str,
    interface: &str,
    function: &str,
    imports: &str,
    body: &str,
) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_path(wit()).unwrap();
    let wasi = format!("package wasi:{package}@0.2.6; interface {interface} {{ {function}; }}");
    resolve.push_str("wasi.wit", &wasi).unwrap();
    let world = format!(
        "package test:guest; world guest {{ include holdfast:provider/{world}@0.1.0;
         import wasi:{package}/{interface}@0.2.6; }}"
    );
    let package = resolve.push_str("guest.wit", &world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    encode(resolve, world, imports, body)
}

fn encode(resolve: Resolve, world: wit_parser::WorldId, imports: &str, body: &str) -> Vec<u8> {
    let exports = resolve.worlds[world].exports.keys();
    let allocates = exports.into_iter().any(|key| resolve.name_world_key(key).contains("/capacity@"));
    let operations = ["execute", "begin", "poll", "cancel", "cleanup"].map(|name| ("operations", name));
    let capacity = ["plan-allocation", "begin-allocate", "poll-allocate", "begin-release", "poll-release"];
    // More than 16 words are passed in memory; a class resolution has fewer.
    let mut callbacks: Vec<String> = operations
        .into_iter()
        .chain(capacity.map(|name| ("capacity", name)).into_iter().filter(|_| allocates))
        .map(|(interface, name)| callback(interface, name, "i32", body))
        .collect();
    if allocates {
        callbacks.push(callback(
            "capacity",
            "resolve-class",
            "i32 i32 i32 i32 i32 i32 i32 i32 i32 i32",
            body,
        ));
    }
    let callbacks = callbacks.concat();
    let text = format!(
        r#"(module
             {imports}
             (memory (export "memory") 1)
             (global $heap (mut i32) (i32.const 8192))
             (func $deep (param i32) (result i32)
               (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))
             (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
               (local $at i32)
               (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
               (global.set $heap (i32.add (local.get $at) (local.get 3)))
               (local.get $at))
             {callbacks})"#
    );
    let mut module = wat::parse_str(text).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

fn callback(interface: &str, name: &str, parameters: &str, body: &str) -> String {
    format!(
        r#"(func (export "holdfast:provider/{interface}@0.1.0#{name}") (param {parameters}) (result i32)
             (local $n i32) {body})"#
    )
}

pub fn with_manifest(component: &[u8], text: &str) -> Vec<u8> {
    with_section(component, MANIFEST_SECTION, text.as_bytes())
}

pub fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    CustomSection { name: Cow::Borrowed(name), data: Cow::Borrowed(data) }.append_to_component(&mut bytes);
    bytes
}

/// A component by its outer shape alone: names without content.
pub fn outline(imports: &[&str], exports: &[&str]) -> Vec<u8> {
    let imports: String = imports.iter().map(|name| format!("(import \"{name}\" (instance))\n")).collect();
    let exports: String =
        exports.iter().map(|name| format!("(export \"{name}\" (instance $empty))\n")).collect();
    wat::parse_str(format!("(component {imports} (instance $empty) {exports})")).unwrap()
}

pub fn engine() -> Engine {
    Engine::new(EngineOptions { concurrent_calls: 4, ..EngineOptions::default() }).unwrap()
}

pub fn load(engine: &Engine, bytes: &[u8]) -> Arc<Module> {
    engine.load(bytes).unwrap_or_else(|error| panic!("{error}"))
}

pub fn soon(milliseconds: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_millis(milliseconds)
}

pub fn begin(lend: Lend) -> Callback {
    Callback::Begin { request: request(), lend }
}

pub fn offering() -> ClassOffering {
    let text = str::to_owned;
    ClassOffering {
        name: text("small"),
        instance_type: text("s"),
        zone: Some(text("z")),
        resources: vec![(text("cpu"), text("4"))],
        available: true,
        valid_until: text("2026-01-01T00:10:00Z"),
        attributes: vec![(text("a"), text("b"))],
    }
}

pub fn plan() -> Callback {
    let text = str::to_owned;
    Callback::PlanAllocation {
        request: PlanRequest {
            allocation_name: text("claim"),
            allocation_uid: text("uid-3"),
            host_name: text("m"),
            config: vec![(text("image"), text("i"))],
            offering: offering(),
        },
    }
}

pub fn resolve(lend: Lend) -> Callback {
    let text = str::to_owned;
    let request = ClassRequest {
        class_name: text("class"),
        class_uid: text("uid-4"),
        site_name: text("s"),
        config: vec![(text("image"), text("i"))],
    };
    Callback::ResolveClass { request, lend }
}

pub fn allocation() -> Allocation {
    let text = str::to_owned;
    Allocation {
        name: text("claim"),
        uid: text("uid-3"),
        class_name: text("class"),
        class_uid: text("uid-4"),
        host_name: text("m"),
        offering: offering(),
        planned_provider_id: text("tiny://planned"),
        host_image: text("i"),
    }
}

pub fn request() -> OperationRequest {
    let text = str::to_owned;
    OperationRequest {
        name: text("op"),
        uid: text("uid-1"),
        kind: text("HostPowerOn"),
        parameters: vec![(text("a"), text("b"))],
        machine: Machine {
            name: text("m"),
            uid: text("uid-2"),
            generation: 1,
            provider_ref: None,
            provider_id: Some(text("tiny://1")),
            host_image: None,
        },
        site: text("s"),
        started_at: text("2026-01-01T00:00:00Z"),
        accepted_at: None,
        deadline: None,
        attempt: 1,
    }
}

/// Records what reaches it and answers as it was told.
#[derive(Default)]
pub struct Listener {
    pub lines: Mutex<Vec<LogLine>>,
    pub requests: Mutex<Vec<(Option<String>, CallRequest)>>,
    /// The phase that reaches nothing.
    pub pure: bool,
    /// Every call is refused with this.
    pub refusal: Option<CallError>,
    /// Calls are answered only once this is told to.
    pub gate: Option<Arc<tokio::sync::Notify>>,
    /// Added to the seed.
    pub seed: u8,
    /// A read spawns a task and waits for it.
    pub spawn: bool,
    pub spawned_on: Mutex<Option<std::thread::ThreadId>>,
}

impl Listener {
    fn answer(&self, key: Option<String>, request: CallRequest) -> Result<CallReply, CallError> {
        self.requests.lock().unwrap().push((key, request));
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(CallReply { status: 200, fields: "{}".to_owned() }),
        }
    }

    fn allowed(&self) -> Result<(), Violation> {
        if !self.pure {
            return Ok(());
        }
        Err(Violation { reason: "WrongPhase".to_owned(), message: "this phase reaches nothing".to_owned() })
    }
}

#[async_trait::async_trait]
impl Port for Listener {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError> {
        let answer = self.answer(None, request);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        if self.spawn {
            let on = tokio::spawn(async { std::thread::current().id() }).await.unwrap();
            *self.spawned_on.lock().unwrap() = Some(on);
        }
        answer
    }

    async fn perform(&self, key: String, request: CallRequest) -> Result<CallOutcome, CallError> {
        self.answer(Some(key), request).map(CallOutcome::Done)
    }

    fn recorded(&self, _key: &str) -> Result<Option<CallOutcome>, Violation> {
        Ok(None)
    }

    fn token(&self, key: &str) -> Result<String, Violation> {
        Ok(format!("hf{key}"))
    }

    fn now(&self) -> Result<String, Violation> {
        self.allowed().map(|()| "2026-01-01T00:00:00Z".to_owned())
    }

    fn log(&self, line: LogLine) -> Result<(), Violation> {
        self.allowed()?;
        self.lines.lock().unwrap().push(line);
        Ok(())
    }

    fn seed(&self) -> [u8; 32] {
        [self.seed; 32]
    }
}
