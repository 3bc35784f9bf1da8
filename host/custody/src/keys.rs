//! Keys by purpose, derived from the host's master key, so that no key is ever used for two things.

use crate::secret::SecretBytes;
use ring::{digest, hmac};
use zeroize::Zeroizing;

/// Derives everything from one 32-byte master key.
pub(crate) struct Keys {
    master: hmac::Key,
}

impl Keys {
    pub fn new(master: &Zeroizing<[u8; 32]>) -> Keys {
        Keys { master: hmac::Key::new(hmac::HMAC_SHA256, &master[..]) }
    }

    /// A key for one purpose: HMAC of the purpose under the master key.
    pub fn raw(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let tag = hmac::sign(&self.master, format!("holdfast/1/{purpose}").as_bytes());
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(tag.as_ref());
        key
    }

    pub fn hmac(&self, purpose: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.raw(purpose)[..])
    }

    /// HMAC under the purpose's key over length-prefixed parts, so that no two lists of parts are the same bytes.
    pub fn keyed(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        tag(&self.hmac(purpose), parts)
    }
}

/// HMAC over length-prefixed parts.
pub(crate) fn tag(key: &hmac::Key, parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.sign().as_ref());
    out
}

/// SHA-256 of public bytes (tokens as UUID or number, certificate keys).
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

/// A stream of secret bytes for generated values: HMAC in counter mode under a seed.
pub(crate) fn stream(seed: &[u8; 32], length: usize) -> SecretBytes {
    let key = hmac::Key::new(hmac::HMAC_SHA256, seed);
    let mut out = Vec::with_capacity(length);
    let mut block = 0u64;
    while out.len() < length {
        let tag = hmac::sign(&key, &block.to_be_bytes());
        let take = (length - out.len()).min(tag.as_ref().len());
        out.extend_from_slice(&tag.as_ref()[..take]);
        block += 1;
    }
    SecretBytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_length_prefixed_and_purposes_are_separate() {
        let keys = Keys::new(&Zeroizing::new([7; 32]));
        assert_ne!(keys.keyed("a", &[b"xy", b"z"]), keys.keyed("a", &[b"x", b"yz"]));
        assert_ne!(keys.keyed("a", &[b"x"]), keys.keyed("b", &[b"x"]));
        assert_eq!(keys.keyed("a", &[b"x"]), keys.keyed("a", &[b"x"]));
    }

    #[test]
    fn a_stream_is_stable_and_as_long_as_asked() {
        assert_eq!(stream(&[1; 32], 70).expose(), stream(&[1; 32], 70).expose());
        assert_eq!(stream(&[1; 32], 70).len(), 70);
    }
}
