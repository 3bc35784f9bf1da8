//! A tiny HTTPS client: one connection per request, the whole reply in memory, no redirects, one trusted CA.
//! It asks servers directly what is true of them, so it shares no code with what is under test.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

/// Longest wait for one exchange, connection included.
const EXCHANGE: Duration = Duration::from_secs(30);

/// What came back, whole.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A header as text; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A client for one origin, with headers that it sends each time.
#[derive(Clone)]
pub struct Client {
    origin: Url,
    tls: Arc<ClientConfig>,
    headers: HeaderMap,
}

impl Client {
    /// `origin` is `https://host:port`; only the CAs in `ca_pem` are trusted.
    pub fn new(origin: &str, ca_pem: &str) -> Result<Client> {
        let origin = Url::parse(origin).with_context(|| format!("`{origin}` is no origin"))?;
        ensure!(origin.scheme() == "https", "`{origin}` is not https");
        Ok(Client { origin, tls: crate::tls::trusting(ca_pem)?, headers: HeaderMap::new() })
    }

    /// The same client with one more header on each request.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Client {
        let value = HeaderValue::from_str(value).expect("a test's header has no control characters");
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }

    /// The same client with basic authentication on each request.
    pub fn with_basic(self, user: &str, password: &str) -> Client {
        let token = STANDARD.encode(format!("{user}:{password}"));
        self.with_header("authorization", &format!("Basic {token}"))
    }

    /// The same client without credentials.
    pub fn anonymous(mut self) -> Client {
        self.headers.remove(AUTHORIZATION);
        self.headers.remove("x-auth-token");
        self
    }

    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Reply> {
        self.send(Method::DELETE, path, None).await
    }

    /// Sends one request to `path` (with its query) and reads the whole reply.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Reply> {
        let mut headers = self.headers.clone();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map(|json| Bytes::from(json.to_string())).unwrap_or_default();
        self.exchange(method, path, headers, body).await
    }

    /// Sends exactly these headers (and `Host`, unless it is among them) and this body.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply> {
        let what = format!("{method} {}{path}", self.origin.origin().ascii_serialization());
        tokio::time::timeout(EXCHANGE, self.unbounded(method, path, headers, body))
            .await
            .with_context(|| format!("{what}: no whole answer within {} s", EXCHANGE.as_secs()))?
            .with_context(|| what)
    }

    async fn unbounded(&self, method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Result<Reply> {
        let host =
            self.origin.host_str().context("an origin without a host")?.trim_matches(['[', ']']).to_owned();
        let port = self.origin.port_or_known_default().unwrap_or(443);
        let tcp = TcpStream::connect((host.as_str(), port)).await.context("connecting")?;
        let tls = TlsConnector::from(self.tls.clone())
            .connect(ServerName::try_from(host)?, tcp)
            .await
            .context("TLS")?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        let connection = AbortOnDrop(tokio::spawn(async move {
            // The exchange itself reports what went wrong on the connection.
            let _ = connection.await;
        }));
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body))?;
        *request.headers_mut() = headers;
        if !request.headers().contains_key(HOST) {
            let host = self.origin.as_str().trim_start_matches("https://").trim_end_matches('/');
            request.headers_mut().insert(HOST, HeaderValue::from_str(host)?);
        }
        let (head, body) = sender.send_request(request).await.context("sending")?.into_parts();
        let body = body.collect().await.context("the reply broke off")?.to_bytes();
        drop(connection);
        Ok(Reply { status: head.status, headers: head.headers, body })
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
