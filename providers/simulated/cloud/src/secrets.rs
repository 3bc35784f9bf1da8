//! Random words and digests: the few things here that touch secrets.

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};

/// Hex SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// An unguessable word: the prefix, a dash, and 160 random bits in lower-case base32.
pub(crate) fn random_word(prefix: &str) -> String {
    let mut bytes = [0u8; 20];
    SystemRandom::new().fill(&mut bytes).expect("the system's random source answers");
    format!("{prefix}-{}", BASE32_NOPAD.encode(&bytes).to_lowercase())
}
