//! A hostile HTTPS service for tests: it hears exact bytes and says exact bytes.

use crate::binding::{Binding, Grants};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// One request as it came over the wire.
#[derive(Debug, Clone)]
pub struct Heard {
    pub method: String,
    pub target: String,
    pub head: String,
    pub body: Vec<u8>,
    /// Number of the connection that it came on.
    pub connection: usize,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// What the service says.
pub enum Reply {
    Bytes(Vec<u8>),
    /// Closes without a word.
    Hang,
    /// Never answers.
    Silence,
}

impl Reply {
    pub fn json(status: u16, body: impl AsRef<str>) -> Reply {
        Reply::with(status, "content-type: application/json\r\n", body.as_ref())
    }

    /// Headers are lines that end with CR LF.
    pub fn with(status: u16, headers: &str, body: &str) -> Reply {
        let length = body.len();
        Reply::Bytes(
            format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes(),
        )
    }
}

pub struct Service {
    pub port: u16,
    pub ca: String,
    pub pin: String,
    pub connections: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Service {
    pub async fn start(answer: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Service {
        Service::dated(1975, 4096, answer).await
    }

    /// With a certificate that is valid from the first day of one year to that of another.
    pub async fn dated(
        from: i32,
        to: i32,
        answer: impl Fn(&Heard) -> Reply + Send + Sync + 'static,
    ) -> Service {
        let names = ["localhost", "127.0.0.1", "api.example"].map(str::to_owned).to_vec();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let signing_key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&signing_key).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let parsed = rustls::server::ParsedCertificate::try_from(cert.der()).unwrap();
        let pin = crate::keys::sha256(parsed.subject_public_key_info().as_ref());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = Service {
            port: listener.local_addr().unwrap().port(),
            ca: cert.pem(),
            pin: data_encoding::HEXLOWER.encode(&pin),
            connections: Arc::default(),
            heard: Arc::default(),
        };
        let (heard, connections) = (service.heard.clone(), service.connections.clone());
        let (acceptor, answer) = (TlsAcceptor::from(Arc::new(config)), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let number = connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(acceptor.clone(), tcp, number, heard.clone(), answer.clone()));
            }
        });
        service
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    pub fn targets(&self) -> Vec<String> {
        self.heard().iter().map(|heard| format!("{} {}", heard.method, heard.target)).collect()
    }

    pub fn connected(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn binding(&self, endpoint: &str) -> Binding {
        Binding {
            endpoint: endpoint.into(),
            site: None,
            value: None,
            origin: Some(format!("https://127.0.0.1:{}", self.port)),
            ca_pem: Some(self.ca.clone()),
            pin_sha256: None,
            ranges: vec!["127.0.0.1/32".parse().unwrap()],
            vars: Default::default(),
            auth: None,
            aliases: Vec::new(),
        }
    }

    pub fn grants(&self, endpoints: &[&str]) -> Grants {
        Grants {
            bindings: endpoints.iter().map(|name| self.binding(name)).collect(),
            calls: Default::default(),
        }
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    connection: usize,
    heard: Arc<Mutex<Vec<Heard>>>,
    answer: Arc<impl Fn(&Heard) -> Reply + Send + Sync>,
) {
    let Ok(mut tls) = acceptor.accept(tcp).await else { return };
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            match tls.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let mut request = Heard { method, target, head, body: Vec::new(), connection };
        let length: usize = request.header("content-length").map_or(0, |text| text.parse().unwrap());
        while buffer.len() < end + length {
            if tls.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        }
        request.body = buffer[end..end + length].to_vec();
        buffer.drain(..end + length);
        heard.lock().unwrap().push(request.clone());
        match answer(&request) {
            Reply::Bytes(bytes) => {
                if tls.write_all(&bytes).await.is_err() || tls.flush().await.is_err() {
                    return;
                }
            }
            Reply::Hang => return,
            Reply::Silence => std::future::pending().await,
        }
    }
}
