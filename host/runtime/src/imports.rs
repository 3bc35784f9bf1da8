//! The contract's imports: what a guest can reach, each one bounded and passed on to the port.

use crate::bindings::{Credentials, UserData, calls, clock, custody, log, types};
use crate::convert;
use crate::halt::Halt;
use crate::limits;
use crate::shape::{bounded, few};
use crate::state::State;
use holdfast_effects::{CallError, CallRequest, LogLevel, LogLine};
use wasmtime::component::Resource;

/// What a lent handle shows the engine. One callback is lent at most one of each kind, so a constant will do.
pub(crate) const CREDENTIALS: u32 = 1;
pub(crate) const USER_DATA: u32 = 2;

impl types::Host for State {}
impl custody::Host for State {}

// Handles are only ever lent. Dropping a loan never comes here, and there is nothing to free.
impl custody::HostCredentials for State {
    fn drop(&mut self, _handle: Resource<Credentials>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl custody::HostUserData for State {
    fn drop(&mut self, _handle: Resource<UserData>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl calls::Host for State {
    async fn read(
        &mut self,
        request: calls::Request,
    ) -> wasmtime::Result<Result<calls::Reply, types::Error>> {
        let request = self.checked(request)?;
        match self.port.read(request).await {
            Ok(reply) => Ok(Ok(convert::reply(reply))),
            Err(error) => refused(error),
        }
    }

    async fn perform(
        &mut self,
        key: String,
        request: calls::Request,
    ) -> wasmtime::Result<Result<calls::Outcome, types::Error>> {
        bounded("a key", &key, limits::KEY)?;
        let request = self.checked(request)?;
        match self.port.perform(key, request).await {
            Ok(outcome) => Ok(Ok(convert::outcome(outcome))),
            Err(error) => refused(error),
        }
    }

    fn recorded(&mut self, key: String) -> wasmtime::Result<Option<calls::Outcome>> {
        bounded("a key", &key, limits::KEY)?;
        Ok(self.port.recorded(&key).map_err(Halt::Violation)?.map(convert::outcome))
    }

    fn token(&mut self, key: String) -> wasmtime::Result<String> {
        bounded("a key", &key, limits::KEY)?;
        Ok(self.port.token(&key).map_err(Halt::Violation)?)
    }
}

impl log::Host for State {
    fn write(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Debug => LogLevel::Debug,
            log::Level::Info => LogLevel::Info,
            log::Level::Warn => LogLevel::Warn,
            log::Level::Error => LogLevel::Error,
        };
        Ok(self.output.line(LogLine { level, message, fields })?)
    }
}

impl clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<String> {
        Ok(self.port.now().map_err(Halt::Violation)?)
    }
}

impl State {
    /// Bounds a request and turns its handles into facts.
    fn checked(&self, request: calls::Request) -> Result<CallRequest, Halt> {
        bounded("a call's name", &request.call, limits::CALL_NAME)?;
        bounded("arguments", &request.args, limits::ARGS)?;
        few("first-boot data slots", request.user_data.len(), limits::SLOTS)?;
        if let Some(handle) = &request.credentials {
            lent(self.lend.credentials && handle.rep() == CREDENTIALS, "credentials")?;
        }
        let mut slots = Vec::with_capacity(request.user_data.len());
        for (slot, handle) in request.user_data {
            bounded("a slot's name", &slot, limits::CALL_NAME)?;
            lent(self.lend.user_data && handle.rep() == USER_DATA, "user-data")?;
            slots.push(slot);
        }
        Ok(CallRequest {
            call: request.call,
            args: request.args,
            credentials: request.credentials.is_some(),
            user_data: slots,
        })
    }
}

fn lent(is: bool, what: &str) -> Result<(), Halt> {
    if is {
        return Ok(());
    }
    Err(Halt::violation(
        "ForeignHandle",
        format!("a {what} handle was presented that this callback was not lent (attack 85)"),
    ))
}

fn refused<T>(error: CallError) -> wasmtime::Result<Result<T, types::Error>> {
    match error {
        CallError::Failure(failure) => Ok(Err(convert::failure_to_guest(failure))),
        CallError::Violation(violation) => Err(Halt::Violation(violation).into()),
    }
}
