//! Encryption at rest of whole objects: ChaCha20-Poly1305 under a key in a file beside the store.
//!
//! The additional data is the object's key, so that a sealed body can't be moved under another name.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::ServerError;

/// Bytes of the key.
const KEY_LEN: usize = 32;
/// First byte of a sealed body: the format's version.
const FORMAT: u8 = 1;

/// The key, ready for use.
pub(super) struct Sealer {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealer {
    /// Reads the key from its file; makes both if `may_create`.
    pub(super) fn open(path: &Path, may_create: bool) -> Result<Option<Self>, ServerError> {
        let bytes = match read_private(path)? {
            Some(bytes) => bytes,
            None if may_create => create(path)?,
            None => return Ok(None),
        };
        if bytes.len() != KEY_LEN {
            return Err(ServerError::PrivateFile {
                path: path.into(),
                what: format!("holds no key of {KEY_LEN} bytes"),
            });
        }
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| ServerError::Random)?;
        Ok(Some(Self { key: LessSafeKey::new(key), random: SystemRandom::new() }))
    }

    /// Encrypts a body under its object's key.
    pub(super) fn seal(&self, place: &[u8], body: &[u8]) -> Result<Vec<u8>, ServerError> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| ServerError::Random)?;
        let mut out = Vec::with_capacity(1 + NONCE_LEN + body.len() + CHACHA20_POLY1305.tag_len());
        out.push(FORMAT);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(body);
        let (_, text) = out.split_at_mut(1 + NONCE_LEN);
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), text)
            .map_err(|_| ServerError::Random)?;
        out.extend_from_slice(tag.as_ref());
        Ok(out)
    }

    /// Decrypts a body; `None` if it was not sealed with this key for this place.
    pub(super) fn open_body(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (&format, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_at_checked(NONCE_LEN)?;
        if format != FORMAT {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// Reads a private file whole. `None` if there is none; an error if others may read it or it is no plain file.
fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, ServerError> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ServerError::io("can't open", path)(e)),
    };
    let meta = file.metadata().map_err(ServerError::io("can't inspect", path))?;
    if !meta.is_file() || meta.mode() & 0o077 != 0 {
        let what = format!("is open to others (mode {:04o})", meta.mode() & 0o7777);
        return Err(ServerError::PrivateFile { path: path.into(), what });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_LEN + 1));
    (&mut file)
        .take(KEY_LEN as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(ServerError::io("can't read", path))?;
    Ok(Some(bytes))
}

/// Makes the key and its file, durably: a store must not outlive its key by a power failure.
fn create(path: &Path) -> Result<Zeroizing<Vec<u8>>, ServerError> {
    let mut bytes = Zeroizing::new(vec![0; KEY_LEN]);
    SystemRandom::new().fill(&mut bytes).map_err(|_| ServerError::Random)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(ServerError::io("can't create", path))?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(ServerError::io("can't write", path))?;
    if let Some(folder) = path.parent() {
        let sync = std::fs::File::open(folder).and_then(|f| f.sync_all());
        sync.map_err(ServerError::io("can't write", folder))?;
    }
    Ok(bytes)
}
