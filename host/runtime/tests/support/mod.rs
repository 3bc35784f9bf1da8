//! Hostile and harmless modules out of a few lines of text, and a port that only listens.
#![allow(dead_code, reason = "each test file uses its own part")]

use holdfast_effects::{
    CallError, CallOutcome, CallReply, CallRequest, Callback, Lend, LogLine, Machine, OperationRequest, Port,
    Violation,
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

pub fn wit() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))
}

/// A whole module whose callbacks all run `body`, which leaves an `i32`: the address of the answer. Zeroed memory is
/// the plain success of every callback; 1024 is free for it.
pub fn guest(imports: &str, body: &str) -> Vec<u8> {
    with_manifest(&component(imports, body), MANIFEST)
}

/// The same without a manifest.
pub fn component(imports: &str, body: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit()).unwrap();
    let world = resolve.select_world(&[package], Some("operations-provider")).unwrap();
    encode(resolve, world, imports, body)
}

/// A module that also imports a function of WASI: the interface's name and WIT text of the function.
pub fn wasi_guest(package: &str, interface: &str, function: &str, imports: &str, body: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_path(wit()).unwrap();
    let wasi = format!("package wasi:{package}@0.2.6; interface {interface} {{ {function}; }}");
    resolve.push_str("wasi.wit", &wasi).unwrap();
    let world = format!(
        "package test:guest; world guest {{ include holdfast:provider/operations-provider@0.1.0;
         import wasi:{package}/{interface}@0.2.6; }}"
    );
    let package = resolve.push_str("guest.wit", &world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    with_manifest(&encode(resolve, world, imports, body), MANIFEST)
}

fn encode(resolve: Resolve, world: wit_parser::WorldId, imports: &str, body: &str) -> Vec<u8> {
    let callbacks: String = ["execute", "begin", "poll", "cancel", "cleanup"]
        .map(|name| {
            format!(
                r#"(func (export "holdfast:provider/operations@0.1.0#{name}") (param $request i32) (result i32)
                     (local $n i32) {body})"#
            )
        })
        .concat();
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
