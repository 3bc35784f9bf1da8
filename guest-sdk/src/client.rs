//! The thin layer below the generated `calls`: on wasm it is the host, natively a fake of `testing`.

use crate::error::{Code, Error, Outcome};
use crate::lent::{Credentials, UserData};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A value that a guest may carry but neither read nor make: encrypted by the host to the operation and the field that
/// it came from. May be kept in a resume token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(pub(crate) String);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed")
    }
}

/// One declared call with its arguments. Built by the generated client.
#[derive(Debug)]
#[doc(hidden)]
pub struct Request<'a> {
    pub(crate) call: &'static str,
    pub(crate) args: Map<String, Value>,
    pub(crate) credentials: Option<Credentials<'a>>,
    pub(crate) user_data: Vec<(&'static str, UserData<'a>)>,
}

#[doc(hidden)]
impl<'a> Request<'a> {
    pub fn new(call: &'static str) -> Request<'a> {
        Request { call, args: Map::new(), credentials: None, user_data: Vec::new() }
    }

    pub fn arg<T: Serialize>(mut self, name: &str, value: T) -> Request<'a> {
        // Only strings, numbers, booleans and lists of them get here: none of them can fail.
        self.args.insert(name.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    pub fn optional<T: Serialize>(self, name: &str, value: Option<T>) -> Request<'a> {
        match value {
            Some(value) => self.arg(name, value),
            None => self,
        }
    }

    pub fn credentials(mut self, credentials: Credentials<'a>) -> Request<'a> {
        self.credentials = Some(credentials);
        self
    }

    pub fn user_data(mut self, slot: &'static str, data: UserData<'a>) -> Request<'a> {
        self.user_data.push((slot, data));
        self
    }

    pub fn read<T: Fields>(self) -> Result<T, Error> {
        let call = self.call;
        decode(call, wire::read(self)?)
    }

    pub fn perform<T: Fields>(self, key: &str) -> Result<Outcome<T>, Error> {
        let call = self.call;
        Ok(match wire::perform(key, self)? {
            Outcome::Done(reply) => Outcome::Done(decode(call, reply)?),
            Outcome::InDoubt(after) => Outcome::InDoubt(after),
        })
    }
}

/// What came back: a status and the declared fields as JSON text.
#[derive(Debug, Clone)]
pub(crate) struct RawReply {
    pub(crate) status: u16,
    pub(crate) fields: String,
}

/// The fields of one call. Implemented by the generated client.
#[doc(hidden)]
pub trait Fields: DeserializeOwned {
    fn set_status(&mut self, status: u16);
}

fn decode<T: Fields>(call: &str, reply: RawReply) -> Result<T, Error> {
    match serde_json::from_str::<T>(&reply.fields) {
        Ok(mut fields) => {
            fields.set_status(reply.status);
            Ok(fields)
        }
        // The host checked the reply against the same manifest: a difference is a fault of one of the two.
        Err(error) => {
            let message = format!("the reply to `{call}` is not what its manifest declares: {error}");
            Err(Error::permanent(Code::Internal, "ReplyMismatch", message))
        }
    }
}

/// The token that the host derives for a key: `hf` and 26 lower-case base32 digits.
pub fn token(key: &str) -> String {
    wire::token(key)
}

/// Whether this operation's effect with the key is done. Sends nothing.
///
/// A resume token never changes once it is stored, so this and [`is_sent`] are how a later step knows which steps are
/// behind it.
pub fn is_done(key: &str) -> bool {
    matches!(wire::recorded(key), Some(Outcome::Done(_)))
}

/// Whether this operation's effect with the key is done or in doubt: it may have taken effect. Sends nothing.
pub fn is_sent(key: &str) -> bool {
    wire::recorded(key).is_some()
}

/// The recorded reply of this operation's effect with the key, as the fields of its call; `None` while it is not done.
/// Sends nothing.
///
/// # Errors
/// Where `T` is not the reply of the call that was made with the key, and where a person settled the effect.
pub fn recorded<T: Fields>(key: &str) -> Result<Option<T>, Error> {
    match wire::recorded(key) {
        Some(Outcome::Done(reply)) => decode(key, reply).map(Some),
        _ => Ok(None),
    }
}

/// The host's wall clock, RFC 3339, whole seconds. Frozen for the length of a callback.
pub fn now() -> String {
    wire::now()
}

#[cfg(target_arch = "wasm32")]
mod wire {
    use super::{RawReply, Request};
    use crate::bindings::holdfast::provider::{calls, clock};
    use crate::error::{Error, Outcome};
    use std::time::Duration;

    fn lower(request: Request<'_>) -> Result<calls::Request<'_>, Error> {
        let mut user_data = Vec::with_capacity(request.user_data.len());
        for (slot, data) in request.user_data {
            user_data.extend(data.0.map(|handle| (slot.to_owned(), handle)));
        }
        Ok(calls::Request {
            call: request.call.to_owned(),
            args: serde_json::Value::Object(request.args).to_string(),
            credentials: request.credentials.and_then(|credentials| credentials.0),
            user_data,
        })
    }

    fn lift(reply: calls::Reply) -> RawReply {
        RawReply { status: reply.status, fields: reply.fields }
    }

    pub(super) fn read(request: Request<'_>) -> Result<RawReply, Error> {
        calls::read(&lower(request)?).map(lift)
    }

    pub(super) fn perform(key: &str, request: Request<'_>) -> Result<Outcome<RawReply>, Error> {
        calls::perform(key, &lower(request)?).map(standing)
    }

    pub(super) fn token(key: &str) -> String {
        calls::token(key)
    }

    pub(super) fn recorded(key: &str) -> Option<Outcome<RawReply>> {
        calls::recorded(key).map(standing)
    }

    fn standing(outcome: calls::Outcome) -> Outcome<RawReply> {
        match outcome {
            calls::Outcome::Done(reply) => Outcome::Done(lift(reply)),
            calls::Outcome::InDoubt(after) => Outcome::InDoubt(after.map(Duration::from_millis)),
        }
    }

    pub(super) fn now() -> String {
        clock::now()
    }
}

#[cfg(not(target_arch = "wasm32"))]
use crate::testing::wire;
