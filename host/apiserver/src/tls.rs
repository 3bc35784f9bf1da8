//! The server's certificate: for loopback alone, signed by a CA that is made with it and whose key is forgotten.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::ServerError;
use crate::files;

/// Names that the certificate is good for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Years that the certificate is good for.
const YEARS: i32 = 10;

/// What clients and the server need.
pub(crate) struct Identity {
    /// The CA's certificate, PEM.
    pub(crate) ca: String,
    /// The server's side.
    pub(crate) config: Arc<ServerConfig>,
}

impl Identity {
    /// Reads the certificates from the state directory; makes them if any part is absent.
    pub(crate) fn open(directory: &Path) -> Result<Self, ServerError> {
        let paths = ["api-ca.crt", "api-server.crt", "api-server.key"].map(|name| directory.join(name));
        let mut found = Vec::new();
        for path in &paths {
            found.extend(files::read_if_there(path)?);
        }
        let parts = match <[Vec<u8>; 3]>::try_from(found) {
            Ok(parts) => parts,
            Err(_) => {
                let parts = generate().map_err(|e| ServerError::Certificate(e.to_string()))?;
                for (path, part) in paths.iter().zip(&parts) {
                    files::write_private(path, part)?;
                }
                parts
            }
        };
        let [ca, certificate, key] = &parts;
        let config = config(certificate, key)?;
        Ok(Self { ca: String::from_utf8_lossy(ca).into_owned(), config: Arc::new(config) })
    }
}

fn config(certificate: &[u8], key: &[u8]) -> Result<ServerConfig, ServerError> {
    let bad = |e: &dyn std::fmt::Display| ServerError::Certificate(e.to_string());
    let certificate = CertificateDer::from_pem_slice(certificate).map_err(|e| bad(&e))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad(&e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(|e| bad(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// CA certificate, server certificate, server key; all PEM.
fn generate() -> Result<[Vec<u8>; 3], rcgen::Error> {
    let year = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year();
    let life = |params: &mut CertificateParams| {
        params.not_before = rcgen::date_time_ymd(i32::from(year) - 1, 1, 1);
        params.not_after = rcgen::date_time_ymd(i32::from(year) + YEARS, 1, 1);
    };
    let mut ca = CertificateParams::new(Vec::<String>::new())?;
    life(&mut ca);
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.distinguished_name.push(DnType::CommonName, "holdfast-embedded-api-ca");
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_key = KeyPair::generate()?;
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

    let mut server = CertificateParams::new(NAMES.map(str::to_owned).to_vec())?;
    life(&mut server);
    server.distinguished_name.push(DnType::CommonName, "holdfast-embedded-api");
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok([ca_certificate.pem(), certificate.pem(), key.serialize_pem()].map(String::into_bytes))
}
