//! The certificates of one run: a CA that exists only in memory, and one server certificate under it.
//! Callers get the CA as PEM; its key is dropped here, so nothing else can ever be signed by it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::StartError;

/// Server configuration and the CA's PEM, for `localhost`, the loopback addresses and further names.
pub(crate) fn make(names: &[String]) -> Result<(Arc<ServerConfig>, String), StartError> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "simulated cloud CA of one run");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);

    let mut sans: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
    sans.extend(names.iter().cloned());
    let mut leaf = CertificateParams::new(sans)?;
    leaf.distinguished_name.push(DnType::CommonName, "simulated cloud");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), ca_pem))
}
