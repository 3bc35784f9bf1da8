//! One connection: the name is resolved once, all its addresses are checked, and a checked one is connected to.

use super::address;
use super::pool::Sender;
use crate::registry::Bound;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

/// For one address and for the handshake on it.
const STEP: Duration = Duration::from_secs(10);

/// Stands in for DNS in tests of rebinding (attack 28).
pub type Resolver = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// How to reach things: the resolver, and whether addresses are checked (always, outside a harness).
#[derive(Clone)]
pub(crate) struct Connector {
    pub resolver: Option<Resolver>,
    pub check_addresses: bool,
}

impl Connector {
    /// Connects. The error is half a sentence that names neither address nor secret.
    pub async fn connect(&self, bound: &Bound) -> Result<Sender, String> {
        let addresses = self.resolve(bound).await?;
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            match timeout(STEP, open(bound, address)).await {
                Ok(Ok(sender)) => return Ok(sender),
                Ok(Err(why)) => last = why,
                Err(_) => last = "the connection was not made in time".into(),
            }
        }
        Err(last)
    }

    async fn resolve(&self, bound: &Bound) -> Result<Vec<SocketAddr>, String> {
        let port = bound.port();
        let addresses: Vec<SocketAddr> = match bound.host() {
            Host::Ipv4(v4) => vec![SocketAddr::new(v4.into(), port)],
            Host::Ipv6(v6) => vec![SocketAddr::new(v6.into(), port)],
            Host::Domain(name) => match &self.resolver {
                Some(resolver) => resolver(&name).into_iter().map(|ip| SocketAddr::new(ip, port)).collect(),
                None => lookup_host((name.as_str(), port))
                    .await
                    .map_err(|_| "the name could not be resolved".to_owned())?
                    .collect(),
            },
        };
        // All of them, not the first: a name with one inner address is not to be trusted with any.
        let allowed = |at: &SocketAddr| address::allowed(at.ip(), &bound.ranges, bound.only_ranges);
        if self.check_addresses && !addresses.iter().all(allowed) {
            return Err(format!(
                "an address of the endpoint is not allowed (attack 29); grant it by `ranges` of the binding {}",
                bound.name
            ));
        }
        Ok(addresses)
    }
}

async fn open(bound: &Bound, address: SocketAddr) -> Result<Sender, String> {
    let tcp = TcpStream::connect(address).await.map_err(|_| "the connection was refused".to_owned())?;
    // Requests are written whole; waiting to fill segments only adds delay.
    tcp.set_nodelay(true).map_err(|_| "the connection broke".to_owned())?;
    let name = match bound.host() {
        Host::Domain(name) => {
            ServerName::try_from(name).map_err(|_| "the name is not a TLS name".to_owned())?
        }
        Host::Ipv4(v4) => ServerName::from(IpAddr::V4(v4)),
        Host::Ipv6(v6) => ServerName::from(IpAddr::V6(v6)),
    };
    let tls = TlsConnector::from(bound.tls.clone())
        .connect(name, tcp)
        .await
        .map_err(|error| not_accepted(&error).to_owned())?;
    let (sender, connection) = http1::Builder::new()
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .handshake(TokioIo::new(tls))
        .await
        .map_err(|_| "the connection broke".to_owned())?;
    // Ends when the sender is dropped or the peer closes.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// A certificate out of its time is told apart: as often as not a clock is wrong, here or there.
fn not_accepted(error: &std::io::Error) -> &'static str {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => {
            "the server's certificate is not valid yet: compare the server's clock and this host's"
        }
        Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => {
            "the server's certificate has expired, or this host's clock is wrong"
        }
        _ => "the server's certificate or TLS was not accepted",
    }
}
