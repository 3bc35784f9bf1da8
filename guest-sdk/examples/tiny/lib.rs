//! The provider of the crate's documentation, as a module: `cargo build --example tiny --target wasm32-wasip2`.

use holdfast_guest_sdk::prelude::*;
use std::time::Duration;

provider!("examples/tiny/provider.toml", Tiny);

struct Tiny;

impl Operations for Tiny {
    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        let server = calls::ProviderId::of(&request.machine)?.server;
        let made =
            calls::reboot("reboot", credentials.required()?, &server, calls::RebootKind::Soft)?.done()?;
        info!("rebooting {server}"; job = made.job);
        BeginResult::accepted(made.job.clone(), &made.job)
    }

    fn poll(
        _: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        let id: String = ResumeToken::decode(&operation.resume_token)?;
        let job = calls::job(credentials.required()?, &id)?;
        Ok(match job.state.as_str() {
            "done" => Poll::succeeded(OperationResult::unchanged()),
            "failed" => Poll::failed("RebootFailed", "the cloud could not reboot the server"),
            _ => Poll::in_progress(format!("{} %", job.percent.unwrap_or(0))).after(Duration::from_secs(5)),
        })
    }
}
