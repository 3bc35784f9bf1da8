//! What the host lends for the length of one callback: authority and first-boot data, as handles without a way to
//! their bytes.

use crate::bindings::holdfast::provider::custody;
use crate::error::Error;
use std::fmt;

/// Authority to make calls to endpoints that authenticate.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))] // natively nobody looks at the handle
pub struct Credentials<'a>(pub(crate) Option<&'a custody::Credentials>);

/// First-boot data of one machine. Fills one declared slot of one declared call.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
pub struct UserData<'a>(pub(crate) Option<&'a custody::UserData>);

impl<'a> Credentials<'a> {
    pub(crate) fn lent(handle: &'a custody::Credentials) -> Credentials<'a> {
        Credentials(Some(handle))
    }
}

impl<'a> UserData<'a> {
    pub(crate) fn lent(handle: &'a custody::UserData) -> UserData<'a> {
        UserData(Some(handle))
    }
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl fmt::Debug for UserData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserData")
    }
}

/// Turns a handle that a callback may come without into one that it needs.
pub trait Required {
    /// The handle.
    type Handle;

    /// The handle, or a permanent error that says which one the operator did not give.
    ///
    /// # Errors
    /// `invalid-input` where the host lent none.
    fn required(self) -> Result<Self::Handle, Error>;
}

impl<'a> Required for Option<Credentials<'a>> {
    type Handle = Credentials<'a>;

    fn required(self) -> Result<Credentials<'a>, Error> {
        self.ok_or_else(|| {
            Error::invalid_input(
                "CredentialsMissing",
                "this operation needs credentials, and none were given",
            )
        })
    }
}

impl<'a> Required for Option<UserData<'a>> {
    type Handle = UserData<'a>;

    fn required(self) -> Result<UserData<'a>, Error> {
        self.ok_or_else(|| {
            Error::invalid_input(
                "UserDataMissing",
                "this operation needs first-boot data, and none was given",
            )
        })
    }
}
