//! The way to a daemon's API that its kubeconfig describes: over TLS, with the token, one connection per request.

use crate::{client::Client, tls};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::{path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

pub(super) struct Access {
    origin: String,
    ca_pem: String,
    token: String,
}

impl Access {
    pub(super) fn read(kubeconfig: &Path) -> Result<Access> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
                .with_context(|| format!("the kubeconfig has no {key}"))
        };
        let ca = STANDARD.decode(value("certificate-authority-data")?)?;
        Ok(Access { origin: value("server")?, ca_pem: String::from_utf8(ca)?, token: value("token")? })
    }

    pub(super) async fn ready(&self) -> bool {
        match self.https() {
            Ok(client) => client.get("/readyz").await.is_ok_and(|reply| reply.status.is_success()),
            Err(_) => false,
        }
    }

    pub(super) fn https(&self) -> Result<Client> {
        let bearer = format!("Bearer {}", self.token);
        Ok(Client::new(&self.origin, &self.ca_pem)?.with_header("authorization", &bearer))
    }

    pub(super) fn kube(&self) -> kube::Client {
        let way = Arc::new(Way {
            origin: Url::parse(&self.origin).expect("a kubeconfig names a URL"),
            tls: tls::trusting(&self.ca_pem).expect("a kubeconfig holds a CA"),
            bearer: format!("Bearer {}", self.token),
        });
        kube::Client::new(
            tower::service_fn(move |request| {
                let way = way.clone();
                async move { way.send(request).await }
            }),
            "holdfast-system",
        )
    }
}

struct Way {
    origin: Url,
    tls: Arc<rustls::ClientConfig>,
    bearer: String,
}

impl Way {
    async fn send(&self, mut request: Request<kube::client::Body>) -> Result<Response<Incoming>> {
        let host = self.origin.host_str().context("no host")?.to_owned();
        let port = self.origin.port_or_known_default().context("no port")?;
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        let name = ServerName::try_from(host.clone())?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&format!("{host}:{port}"))?);
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&self.bearer)?);
        Ok(sender.send_request(request).await?)
    }
}
