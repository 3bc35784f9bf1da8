//! A server to test against, and requests without a typed client between.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};

use holdfast_apiserver::store::{Row, RowChange, Storage, StoreError};
use holdfast_apiserver::{ApiServer, Options, ResponseBody, ServerError};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// A store in memory, shared by those who hold it.
#[derive(Clone, Default)]
pub struct Memory {
    pub rows: Arc<Mutex<Vec<Row>>>,
    /// How many writes each commit had, and whether it was durable.
    pub commits: Arc<Mutex<Vec<(usize, bool)>>>,
    /// What each commit waits for, if anything.
    pub gate: Arc<Mutex<Option<std::sync::mpsc::Receiver<()>>>>,
    /// What the next commit fails with.
    pub fails: Arc<Mutex<Option<StoreError>>>,
}

impl Storage for Memory {
    fn load(&mut self, visit: &mut dyn FnMut(Row)) -> Result<u64, ServerError> {
        let rows = self.rows.lock().unwrap().clone();
        let last = rows.iter().map(|r| r.version).max().unwrap_or(0);
        rows.into_iter().for_each(visit);
        Ok(last + 1000)
    }

    fn commit(&mut self, changes: &[RowChange], _: u64, durable: bool) -> Result<(), StoreError> {
        if let Some(gate) = &*self.gate.lock().unwrap() {
            gate.recv().ok();
        }
        if let Some(error) = self.fails.lock().unwrap().take() {
            return Err(error);
        }
        self.commits.lock().unwrap().push((changes.len(), durable));
        let mut rows = self.rows.lock().unwrap();
        for change in changes {
            let place = match change {
                RowChange::Put(row) => (&row.kind, &row.namespace, &row.name),
                RowChange::Delete { kind, namespace, name } => (kind, namespace, name),
            };
            rows.retain(|r| (&r.kind, &r.namespace, &r.name) != place);
            if let RowChange::Put(row) = change {
                rows.push(row.clone());
            }
        }
        Ok(())
    }
}

pub struct Fixture {
    pub server: ApiServer,
    pub memory: Memory,
    _directory: TempDir,
}

/// A server over a store in memory.
pub async fn start() -> Fixture {
    start_on(Memory::default()).await.unwrap()
}

/// A server over what is in memory already.
pub async fn start_on(memory: Memory) -> Result<Fixture, ServerError> {
    let directory = tempfile::tempdir().unwrap();
    let storage = Box::new(memory.clone());
    let server = ApiServer::open_with(storage, directory.path(), Options::default()).await?;
    Ok(Fixture { server, memory, _directory: directory })
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Answer {
    /// The answer's object, which must be a success.
    pub fn ok(self) -> Value {
        assert!(self.code < 300, "{}", self.body);
        self.body
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn version(&self) -> String {
        self.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }
}

impl Fixture {
    pub async fn raw(&self, request: Request<Body>) -> Response<ResponseBody> {
        self.server.service().oneshot(request).await.unwrap()
    }

    /// Sends a request as `METHOD path`, with headers as `name: value`.
    pub async fn send(&self, line: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.raw(request.body(Body::from(body.into())).unwrap()).await;
        let warnings =
            response.headers().get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(&format!("POST {path}"), &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(&format!("PUT {path}"), &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn delete(&self, path: &str, body: Value) -> Answer {
        self.send(&format!("DELETE {path}"), &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> Answer {
        self.patch(path, "application/merge-patch+json", body).await
    }

    pub async fn patch(&self, path: &str, content_type: &str, body: Value) -> Answer {
        self.send(&format!("PATCH {path}"), &[("content-type", content_type)], body.to_string()).await
    }

    /// Begins a watch; its lines come one by one.
    pub async fn watch(&self, path: &str) -> Lines {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = self.raw(request).await;
        assert_eq!(response.status(), 200);
        Lines { body: response.into_body(), rest: Vec::new() }
    }
}

pub struct Lines {
    body: ResponseBody,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` at the end of the watch.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The next event as its type and the name of its object.
    pub async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch ended");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

pub const MACHINES: &str = "/apis/holdfast.dev/v1alpha1/machines";
pub const OPERATIONS: &str = "/apis/holdfast.dev/v1alpha1/machineoperations";
pub const SECRETS: &str = "/api/v1/namespaces/holdfast-system/secrets";

pub fn machine(name: &str) -> Value {
    json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine", "metadata": { "name": name },
            "spec": { "host": { "external": { "provider": "sim", "providerID": "i-1" } } } })
}

pub fn operation(name: &str) -> Value {
    json!({ "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation", "metadata": { "name": name },
            "spec": { "machineRef": { "name": "m" }, "operationKind": "HostReboot" } })
}

pub fn event(type_: &str, name: &str) -> (String, String) {
    (type_.to_owned(), name.to_owned())
}
