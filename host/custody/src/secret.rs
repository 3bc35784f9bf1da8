//! Bytes that must never be seen: exact buffers, wiped when dropped, without any way to print, copy or serialise them.
//!
//! Every secret of the process lives in one of these types. Growth is the enemy (a `Vec` that grows leaves its old
//! bytes behind, attack 67), so lengths are computed first and buffers are allocated once.

use bytes::Bytes;
use std::io;
use zeroize::Zeroize;

/// Secret bytes of exactly their own capacity, wiped when dropped.
///
/// There is no `Debug` of the content, no `Display`, `Clone` or `Serialize` (attack 69).
///
/// ```compile_fail
/// fn copied(secret: &holdfast_custody::SecretBytes) -> holdfast_custody::SecretBytes {
///     secret.clone()
/// }
/// ```
/// ```compile_fail
/// fn shown(secret: &holdfast_custody::SecretBytes) -> String {
///     secret.to_string()
/// }
/// ```
/// ```compile_fail
/// fn serialised(secret: &holdfast_custody::SecretBytes) -> String {
///     serde_json::to_string(secret).unwrap()
/// }
/// ```
/// ```compile_fail
/// fn read(secret: &holdfast_custody::SecretBytes) -> &[u8] {
///     secret.as_ref()
/// }
/// ```
pub struct SecretBytes(Box<[u8]>);

impl SecretBytes {
    /// Copies bytes that somebody else owns and wipes.
    pub fn copy_of(bytes: &[u8]) -> SecretBytes {
        SecretBytes(bytes.into())
    }

    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are UTF-8.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Hands the bytes to the HTTP library without another copy; the last holder wipes them.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Owner(self))
    }
}

/// What [`Bytes`] holds on to; private, so that nothing outside can read a secret.
struct Owner(SecretBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl From<Vec<u8>> for SecretBytes {
    /// Takes the allocation when it is exact; otherwise copies and wipes the source.
    fn from(mut source: Vec<u8>) -> SecretBytes {
        if source.capacity() == source.len() {
            return SecretBytes(source.into_boxed_slice());
        }
        let exact = SecretBytes::copy_of(&source);
        source.zeroize();
        exact
    }
}

impl From<String> for SecretBytes {
    fn from(source: String) -> SecretBytes {
        SecretBytes::from(source.into_bytes())
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for SecretBytes {
    /// Constant, so that a struct which holds one can be shown without its content or length.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

/// Where encoders write: once to count, once to fill.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

/// Counts what an encoder would write.
#[derive(Default)]
pub(crate) struct Counter(pub usize);

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// A buffer of a capacity that was computed before; it never grows.
pub(crate) struct ExactBuffer {
    bytes: Box<[u8]>,
    filled: usize,
    overflow: bool,
}

impl ExactBuffer {
    pub fn with_capacity(capacity: usize) -> ExactBuffer {
        ExactBuffer { bytes: vec![0; capacity].into_boxed_slice(), filled: 0, overflow: false }
    }

    /// The content, if exactly the announced number of bytes was written.
    pub fn finish(mut self) -> Option<SecretBytes> {
        if self.overflow || self.filled != self.bytes.len() {
            return None;
        }
        Some(SecretBytes(std::mem::take(&mut self.bytes)))
    }
}

impl Sink for ExactBuffer {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if end > self.bytes.len() {
            self.overflow = true;
            return;
        }
        self.bytes[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }
}

impl Drop for ExactBuffer {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// Runs an encoder twice: to learn the length, then into one buffer of that length.
pub(crate) fn write_exactly(encode: impl Fn(&mut dyn Sink)) -> Option<SecretBytes> {
    let mut counter = Counter::default();
    encode(&mut counter);
    let mut buffer = ExactBuffer::with_capacity(counter.0);
    encode(&mut buffer);
    buffer.finish()
}

/// A buffer for bytes whose number isn't known before (replies, compressors): growth wipes what it leaves behind.
#[derive(Default)]
pub(crate) struct GrowBuffer(Vec<u8>);

impl GrowBuffer {
    pub fn with_capacity(capacity: usize) -> GrowBuffer {
        GrowBuffer(Vec::with_capacity(capacity))
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            let mut larger = Vec::with_capacity(needed.max(self.0.capacity() * 2).max(256));
            larger.extend_from_slice(&self.0);
            self.0.zeroize();
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub fn into_secret(mut self) -> SecretBytes {
        SecretBytes::from(std::mem::take(&mut self.0))
    }
}

impl io::Write for GrowBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for GrowBuffer {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_neither_content_nor_length() {
        assert_eq!(format!("{:?}", SecretBytes::from(b"hunter2hunter2".to_vec())), "SecretBytes(..)");
    }

    #[test]
    fn an_exact_buffer_refuses_to_hold_more_or_less_than_announced() {
        let mut more = ExactBuffer::with_capacity(2);
        more.put(b"abc");
        assert!(more.finish().is_none());
        let mut less = ExactBuffer::with_capacity(4);
        less.put(b"abc");
        assert!(less.finish().is_none());
        let mut exact = ExactBuffer::with_capacity(3);
        exact.put(b"ab");
        exact.put(b"c");
        assert_eq!(exact.finish().unwrap().expose(), b"abc");
    }

    #[test]
    fn a_growing_buffer_keeps_its_bytes() {
        let mut buffer = GrowBuffer::with_capacity(1);
        for chunk in [&b"a"[..], &[b'b'; 500], b"c"] {
            buffer.push(chunk);
        }
        assert_eq!(buffer.as_slice().len(), 502);
        assert_eq!(buffer.into_secret().expose()[501], b'c');
    }
}
