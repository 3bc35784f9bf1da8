//! TLS by binding: its own authorities, a pinned key, or the system's roots. No key log, no session tickets.

use crate::errors::CustodyError;
use crate::keys::sha256;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// What a binding trusts.
pub(crate) enum Trust<'t> {
    System,
    Authorities {
        pem: &'t str,
    },
    /// SHA-256 of the server's key, lower-case hex; with authorities both must hold.
    Pin {
        sha256: &'t str,
        pem: Option<&'t str>,
    },
}

/// A client configuration for one binding; the error is half a sentence for the operator.
pub(crate) fn client_config(trust: &Trust<'_>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|_| "TLS 1.2 and 1.3 are not available".to_owned())?;
    let mut config = match trust {
        Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::Authorities { pem } => builder.with_root_certificates(roots(pem)?).with_no_client_auth(),
        Trust::Pin { sha256, pem } => {
            let verifier = Pinned::new(sha256, *pem, provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // No tickets, so that no connection is linked to one of another account (attack 35).
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Checks that this build can make a configuration at all.
pub(crate) fn self_check() -> Result<(), CustodyError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map(|_| ())
        .map_err(|error| CustodyError::Tls(error.to_string()))
}

fn roots(pem: &str) -> Result<Arc<RootCertStore>, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "the authorities are not PEM".to_owned())?;
        store.add(certificate).map_err(|_| "an authority is not a certificate".to_owned())?;
    }
    if store.is_empty() {
        return Err("the PEM holds no certificate".into());
    }
    Ok(Arc::new(store))
}

/// The system's roots, loaded once. Variables of the environment must not choose them (attack 37).
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
    if ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some()) {
        return Err(
            "trusts the system's authorities while SSL_CERT_FILE or SSL_CERT_DIR is set (attack 37)".into()
        );
    }
    ROOTS
        .get_or_init(|| {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                Err("the system has no certificate authorities".into())
            } else {
                Ok(Arc::new(store))
            }
        })
        .clone()
}

/// Accepts one key (attack 50). Without authorities it replaces name and chain checks.
#[derive(Debug)]
struct Pinned {
    sha256: [u8; 32],
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn new(hex: &str, pem: Option<&str>, provider: Arc<CryptoProvider>) -> Result<Pinned, String> {
        let bytes = data_encoding::HEXLOWER.decode(hex.as_bytes()).ok();
        let sha256 = bytes
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or("the pin is not a SHA-256 in lower-case hex")?;
        let chain = match pem {
            None => None,
            Some(pem) => Some(
                WebPkiServerVerifier::builder_with_provider(roots(pem)?, provider.clone())
                    .build()
                    .map_err(|_| "the authorities can't be used".to_owned())?,
            ),
        };
        Ok(Pinned { sha256, chain, provider })
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)?;
        }
        let key = ParsedCertificate::try_from(end_entity)?.subject_public_key_info();
        if sha256(key.as_ref()) != self.sha256 {
            return Err(Error::General("the server's key is not the pinned one".into()));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
