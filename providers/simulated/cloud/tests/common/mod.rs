//! A small HTTPS client that trusts only the cloud's own CA, and a cloud to use it on.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use holdfast_simulated_cloud::{Cloud, Options};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An answer with its whole body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    pub fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    pub fn code(&self) -> String {
        self.text("/error/code")
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A client with one credential. Each call makes a connection of its own unless `connect` is used.
#[derive(Clone)]
pub struct Client {
    address: String,
    tls: TlsConnector,
    pub headers: Vec<(String, String)>,
}

impl Client {
    pub fn new(address: &str, ca_pem: &str, token: &str) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
        Client { address: address.to_owned(), tls: TlsConnector::from(Arc::new(config)), headers }
    }

    pub fn of(cloud: &Cloud) -> Client {
        Client::new(&cloud.address().to_string(), cloud.ca_pem(), cloud.api_token())
    }

    pub fn admin(cloud: &Cloud) -> Client {
        Client::new(&cloud.address().to_string(), cloud.ca_pem(), cloud.admin_token())
    }

    pub fn with(&self, name: &str, value: &str) -> Client {
        let mut client = self.clone();
        client.headers.retain(|(present, _)| present != name);
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    pub async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.address).await?;
        let stream = self.tls.connect(ServerName::try_from("localhost")?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    pub async fn send_on(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        method: &str,
        target: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(target)
            .header("host", "localhost");
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        sender.ready().await?;
        let response = sender.send_request(request.body(Full::new(body.into()))?).await.context("no head")?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.context("half a body")?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, bytes })
    }

    pub async fn send(&self, method: &str, target: &str, body: Vec<u8>) -> anyhow::Result<Answer> {
        let mut sender = self.connect().await?;
        self.send_on(&mut sender, method, target, body).await
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, Vec::new()).await.unwrap()
    }

    pub async fn post(&self, target: &str, body: Value) -> Answer {
        self.send("POST", target, body.to_string().into_bytes()).await.unwrap()
    }

    /// A POST without body, as the power actions are.
    pub async fn act(&self, target: &str) -> Answer {
        self.send("POST", target, Vec::new()).await.unwrap()
    }

    pub async fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, Vec::new()).await.unwrap()
    }
}

/// A cloud whose clock stands still, so that nothing depends on how fast a test runs.
pub async fn frozen() -> Cloud {
    let cloud = Cloud::start(Options::default()).await.unwrap();
    cloud.clock(holdfast_simulated_cloud::ClockChange { freeze: Some(true), advance_ms: None });
    cloud
}

pub fn advance(cloud: &Cloud, ms: u64) {
    cloud.clock(holdfast_simulated_cloud::ClockChange { freeze: None, advance_ms: Some(ms) });
}

/// Body of a create.
pub fn server(name: &str) -> Value {
    json!({ "name": name, "image": "image-1", "user_data": "#cloud-config", "labels": { "holdfast": name } })
}
