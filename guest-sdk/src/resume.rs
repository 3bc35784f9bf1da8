//! Resume tokens: what a provider remembers between `begin` and `poll`.
//!
//! A token is stored by the host in the clear, by everybody's eyes. Sealed values may stand in it, secrets cannot.

use crate::error::{Code, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes and decodes resume tokens as JSON.
#[derive(Debug)]
pub struct ResumeToken;

impl ResumeToken {
    /// Longest token that the host stores, in bytes.
    pub const MAX_BYTES: usize = 16 * 1024;

    /// The token of a state.
    ///
    /// # Errors
    /// Permanent `internal`, where the state is no JSON or longer than [`Self::MAX_BYTES`].
    pub fn encode<T: Serialize>(state: &T) -> Result<String, Error> {
        let text = serde_json::to_string(state).map_err(|error| {
            Error::permanent(
                Code::Internal,
                "ResumeToken",
                format!("the resume token cannot be written: {error}"),
            )
        })?;
        if text.len() > Self::MAX_BYTES {
            let message =
                format!("the resume token has {} bytes; at most {} are stored", text.len(), Self::MAX_BYTES);
            return Err(Error::permanent(Code::Internal, "ResumeToken", message));
        }
        Ok(text)
    }

    /// The state of a token, also of one that an older version wrote, if the type still reads it.
    ///
    /// # Errors
    /// Permanent `internal`, where the token does not hold such a state.
    pub fn decode<T: DeserializeOwned>(token: &str) -> Result<T, Error> {
        serde_json::from_str(token).map_err(|error| {
            Error::permanent(
                Code::Internal,
                "ResumeToken",
                format!("the resume token cannot be read: {error}"),
            )
        })
    }
}
