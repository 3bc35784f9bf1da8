//! The certificate authority of one run, and the server certificates under it.
//! The keys never leave the process except into the temporary folder of a server that must read its own.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};

/// A CA that lives as long as the value. Cheap to clone; clones are the same CA.
#[derive(Clone)]
pub struct RunCa {
    pem: Arc<str>,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

/// A certificate for `localhost` and the loopback addresses, with its key.
#[derive(Clone)]
pub struct Issued {
    pub certificate_pem: String,
    pub key_pem: String,
    /// Offers HTTP/1.1 only.
    pub server: Arc<ServerConfig>,
}

impl RunCa {
    pub fn new() -> Result<RunCa> {
        let mut ca = CertificateParams::default();
        ca.distinguished_name.push(DnType::CommonName, "Holdfast tests, CA of one run");
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = ca.self_signed(&key)?.pem();
        Ok(RunCa { pem: pem.into(), issuer: Arc::new(Issuer::new(ca, key)) })
    }

    /// What a client must trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A server certificate for `localhost`, `127.0.0.1`, `::1` and further names.
    pub fn issue(&self, common_name: &str, further_names: &[&str]) -> Result<Issued> {
        let names =
            ["localhost", "127.0.0.1", "::1"].iter().chain(further_names).map(|name| name.to_string());
        let mut leaf = CertificateParams::new(names.collect::<Vec<_>>())?;
        leaf.distinguished_name.push(DnType::CommonName, common_name);
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &self.issuer)?;
        let mut server = ServerConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Issued {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            server: Arc::new(server),
        })
    }
}

/// A client configuration that trusts the CAs of `ca_pem` and nothing else.
pub fn trusting(ca_pem: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.context("a CA certificate that is no PEM")?)?;
    }
    anyhow::ensure!(!roots.is_empty(), "no CA certificate to trust");
    let config = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
