//! On, off, reboot and rebuild: steps that are asked for in order, each seen before the next.

use crate::{Ended, SOON, action, calls};
use holdfast_guest_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// What an operation will do, frozen when it is accepted.
#[derive(Serialize, Deserialize)]
struct Begun {
    server: String,
    steps: Vec<Step>,
}

/// A step's name is the key of its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    On,
    /// Asks the operating system.
    ShutDown,
    /// Cuts the power.
    Off,
    Rebuild,
}

impl Step {
    fn key(self) -> &'static str {
        match self {
            Step::On => "on",
            Step::ShutDown => "shut-down",
            Step::Off => "off",
            Step::Rebuild => "rebuild",
        }
    }

    /// The status in which a server is once the step is done.
    fn goal(self) -> &'static str {
        match self {
            Step::On | Step::Rebuild => "running",
            Step::ShutDown | Step::Off => "off",
        }
    }

    /// The action that the service carries the step out by, where its answer is known.
    fn action(self) -> Option<String> {
        // An effect that a person settled has no reply; then the server itself tells.
        match self {
            Step::On => recorded::<calls::PowerOn>(self.key()).ok().flatten().map(|made| made.action),
            Step::ShutDown => recorded::<calls::ShutDown>(self.key()).ok().flatten().map(|made| made.action),
            Step::Off => recorded::<calls::PowerOff>(self.key()).ok().flatten().map(|made| made.action),
            Step::Rebuild => recorded::<calls::Rebuild>(self.key()).ok().flatten().map(|made| made.action),
        }
    }
}

pub fn begin(
    request: &OperationRequest,
    credentials: Credentials<'_>,
    user_data: Option<UserData<'_>>,
) -> Result<BeginResult, Error> {
    let server = calls::ProviderId::of(&request.machine)?.server;
    let begun = Begun { server, steps: steps(request)? };
    if begun.steps == [Step::Rebuild] {
        let data = user_data
            .ok_or_else(|| Error::invalid_input("UserDataMissing", "a rebuild needs first-boot data"))?;
        // Only here is there first-boot data: a poll could not ask again.
        calls::rebuild(Step::Rebuild.key(), credentials, data, &begun.server)?.done()?;
        info!("rebuild accepted"; server = begun.server);
    } else {
        go_on(request, &begun, credentials)?;
    }
    Ok(BeginResult::accepted(begun.server.clone(), &begun)?.poll_after(SOON))
}

pub fn poll(
    request: &OperationRequest,
    operation: &ProviderOperation,
    credentials: Credentials<'_>,
) -> Result<Poll, Error> {
    go_on(request, &ResumeToken::decode(&operation.resume_token)?, credentials)
}

/// Parameter `force = true` of HostPowerOff and HostReboot cuts the power; graceful never becomes forced by itself
/// (R2.35).
fn steps(request: &OperationRequest) -> Result<Vec<Step>, Error> {
    let kind = request.kind.as_str();
    let takes_force = matches!(kind, "HostPowerOff" | "HostReboot");
    if let Some((unknown, _)) = request.parameters.iter().find(|(name, _)| !(takes_force && name == "force"))
    {
        return Err(Error::invalid_input("InvalidParameter", format!("{kind} has no parameter {unknown}")));
    }
    let off = match request.parameter("force") {
        None | Some("false") => Step::ShutDown,
        Some("true") => Step::Off,
        Some(_) => return Err(Error::invalid_input("InvalidParameter", "force is true or false")),
    };
    Ok(match kind {
        "HostPowerOn" => vec![Step::On],
        "HostPowerOff" => vec![off],
        // Off, seen off, on, seen on: a reboot that can be proven, of calls that may be repeated.
        "HostReboot" => vec![off, Step::On],
        "HostReplace" => vec![Step::Rebuild],
        _ => return Err(Error::unsupported(kind)),
    })
}

/// Takes the first step that is not behind us, or says that all are.
fn go_on(request: &OperationRequest, begun: &Begun, credentials: Credentials<'_>) -> Result<Poll, Error> {
    let seen = calls::server(credentials, &begun.server)?.state;
    for (n, step) in begun.steps.iter().enumerate() {
        let key = step.key();
        // Seen running, a server may be not yet off or on again: what was sent tells.
        if begun.steps[n + 1..].iter().any(|later| is_sent(later.key())) {
            continue;
        }
        // One in doubt is asked for again, whatever is seen: that settles it.
        let behind = seen == step.goal() && !is_sent(key) && *step != Step::Rebuild;
        if !is_done(key) && !behind {
            ask(*step, credentials, &begun.server)?;
            return Ok(Poll::in_progress(format!("the server is {seen}; asked for {key}")).after(SOON));
        }
        let ended = step.action().map(|id| action(credentials, &id)).transpose()?;
        match ended {
            Some(Ended::Badly(word)) => {
                return Ok(Poll::failed(
                    "ActionFailed",
                    format!("the service could not carry out {key}: {word}"),
                ));
            }
            Some(Ended::Running) => return Ok(Poll::in_progress(format!("{key} is running")).after(SOON)),
            Some(Ended::Well) | None if seen == step.goal() => {}
            // An operating system may ignore a shutdown, and may yet obey it (N16, R2.38).
            Some(Ended::Well) | None if request.is_given_up() => {
                let message = format!("the server is {seen}; {key} was accepted and may still take effect");
                return Ok(Poll::canceled(message));
            }
            Some(Ended::Well) | None => {
                let message = format!("the server is {seen}, waiting for {}", step.goal());
                return Ok(Poll::in_progress(message).after(SOON));
            }
        }
    }
    Ok(Poll::succeeded(OperationResult::unchanged()))
}

fn ask(step: Step, credentials: Credentials<'_>, server: &str) -> Result<(), Error> {
    let key = step.key();
    match step {
        Step::On => calls::power_on(key, credentials, server)?.done().map(|_| ()),
        Step::ShutDown => calls::shut_down(key, credentials, server)?.done().map(|_| ()),
        Step::Off => calls::power_off(key, credentials, server)?.done().map(|_| ()),
        Step::Rebuild => Err(Error::permanent(
            Code::Internal,
            "RebuildNotBegun",
            "a rebuild is asked for when the operation begins, and it was not",
        )),
    }?;
    info!("asked for {key}"; server = server);
    Ok(())
}
