//! Who may ask: one random admin token. The server keeps its hash; the token itself is in the kubeconfig alone.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::ServerError;
use crate::files;
use crate::metadata::random;

/// The hash of the token that is admitted.
pub(crate) struct Tokens {
    /// A key of this process, so that hashes are compared by their tags: in constant time.
    key: hmac::Key,
    admitted: RwLock<Option<hmac::Tag>>,
    path: PathBuf,
}

impl Tokens {
    /// Reads the hash from the state directory, if there is one yet.
    pub(crate) fn open(directory: &Path) -> Result<Self, ServerError> {
        let path = directory.join("admin-token.sha256");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random::<32>());
        let admitted = match files::read_if_there(&path)? {
            None => None,
            Some(text) => {
                let text = String::from_utf8_lossy(&text);
                let hash = data_encoding::HEXLOWER.decode(text.trim().as_bytes()).ok();
                let hash = hash.filter(|h| h.len() == SHA256.output_len());
                let hash =
                    hash.ok_or_else(|| ServerError::Damaged(format!("{} is no hash", path.display())))?;
                Some(hmac::sign(&key, &hash))
            }
        };
        Ok(Self { key, admitted: RwLock::new(admitted), path })
    }

    /// Whether an `Authorization` header carries the token.
    pub(crate) fn admits(&self, header: &str) -> bool {
        let Some((scheme, token)) = header.split_once(' ') else { return false };
        scheme.eq_ignore_ascii_case("bearer") && self.is_token(token.trim())
    }

    /// Whether a text is the token.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        let admitted = self.admitted.read().unwrap_or_else(PoisonError::into_inner);
        let hash = digest(&SHA256, token.as_bytes());
        admitted.as_ref().is_some_and(|tag| hmac::verify(&self.key, hash.as_ref(), tag.as_ref()).is_ok())
    }

    /// Makes a new token; the one before is no longer admitted.
    pub(crate) fn renew(&self) -> Result<zeroize::Zeroizing<String>, ServerError> {
        let token = zeroize::Zeroizing::new(data_encoding::BASE64URL_NOPAD.encode(&random::<32>()));
        let hash = digest(&SHA256, token.as_bytes());
        files::write_private(&self.path, data_encoding::HEXLOWER.encode(hash.as_ref()).as_bytes())?;
        let tag = hmac::sign(&self.key, hash.as_ref());
        *self.admitted.write().unwrap_or_else(PoisonError::into_inner) = Some(tag);
        Ok(token)
    }
}
