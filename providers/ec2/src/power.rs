//! Start, stop and reboot: steps that are asked for in order, each seen before the next.

use crate::{SOON, calls};
use holdfast_guest_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// What an operation will do, frozen when it is accepted.
#[derive(Serialize, Deserialize)]
struct Begun {
    instance: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Start,
    /// The service asks the operating system first, unless `force`.
    Stop {
        force: bool,
    },
    /// Asks the operating system; the service resets an instance that has not obeyed after four minutes. It shows
    /// neither: what can be seen is that the request was accepted and that the instance runs (R2.36).
    Reboot,
}

impl Step {
    /// The key of its effect.
    fn key(self) -> &'static str {
        match self {
            Step::Start => "start",
            Step::Stop { .. } => "stop",
            Step::Reboot => "reboot",
        }
    }

    /// The state in which an instance is once the step is done.
    fn goal(self) -> &'static str {
        match self {
            Step::Start | Step::Reboot => "running",
            Step::Stop { .. } => "stopped",
        }
    }
}

pub fn begin(request: &OperationRequest, credentials: Credentials<'_>) -> Result<BeginResult, Error> {
    let instance = calls::ProviderId::of(&request.machine)?.instance;
    let mut steps = steps(request)?;
    // A stopped instance cannot be rebooted: to run anew it is started. Once a reboot was sent it is one.
    if steps == [Step::Reboot] && !is_sent(Step::Reboot.key()) {
        match calls::instance(credentials, &instance)?.state.as_str() {
            "running" => {}
            "stopped" => steps = vec![Step::Start],
            state => {
                return Err(Error::wait("InstanceBusy", format!("the instance is {state}"), SOON));
            }
        }
    }
    let begun = Begun { instance, steps };
    go_on(request, &begun, credentials)?;
    Ok(BeginResult::accepted(begun.instance.clone(), &begun)?.poll_after(SOON))
}

pub fn poll(
    request: &OperationRequest,
    operation: &ProviderOperation,
    credentials: Credentials<'_>,
) -> Result<Poll, Error> {
    go_on(request, &ResumeToken::decode(&operation.resume_token)?, credentials)
}

/// Parameter `force = true` of HostPowerOff stops without asking the operating system; graceful never becomes forced
/// here (R2.35). Parameter `power-cycle = true` of HostReboot stops and starts instead: each is seen, and the instance
/// may move to other hardware and another public address.
fn steps(request: &OperationRequest) -> Result<Vec<Step>, Error> {
    let kind = request.kind.as_str();
    let known: &[&str] = match kind {
        "HostPowerOff" => &["force"],
        "HostReboot" => &["power-cycle", "force"],
        "HostPowerOn" => &[],
        _ => return Err(Error::unsupported(kind)),
    };
    if let Some((unknown, _)) = request.parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(Error::invalid_input("InvalidParameter", format!("{kind} has no parameter {unknown}")));
    }
    let force = flag(request, "force")?;
    let cycle = flag(request, "power-cycle")?;
    if kind == "HostReboot" && force && !cycle {
        let message = "a reboot is forced only as a power cycle: power-cycle = true belongs to force = true";
        return Err(Error::invalid_input("InvalidParameter", message));
    }
    Ok(match kind {
        "HostPowerOn" => vec![Step::Start],
        "HostPowerOff" => vec![Step::Stop { force }],
        _ if cycle => vec![Step::Stop { force }, Step::Start],
        _ => vec![Step::Reboot],
    })
}

fn flag(request: &OperationRequest, name: &str) -> Result<bool, Error> {
    match request.parameter(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Error::invalid_input("InvalidParameter", format!("{name} is true or false"))),
    }
}

/// Takes the first step that is not behind us, or says that all are.
fn go_on(request: &OperationRequest, begun: &Begun, credentials: Credentials<'_>) -> Result<Poll, Error> {
    let seen = calls::instance(credentials, &begun.instance)?.state;
    if matches!(seen.as_str(), "terminated" | "shutting-down") {
        return Ok(Poll::failed("InstanceEnded", format!("the instance is {seen}")));
    }
    for (n, step) in begun.steps.iter().enumerate() {
        let key = step.key();
        // Seen running, an instance may be not yet stopped or started again: what was sent tells.
        if begun.steps[n + 1..].iter().any(|later| is_sent(later.key())) {
            continue;
        }
        // One in doubt is asked for again, whatever is seen: that settles it.
        let behind = seen == step.goal() && !is_sent(key) && *step != Step::Reboot;
        if !is_done(key) && !behind {
            ask(*step, credentials, &begun.instance)?;
            return Ok(Poll::in_progress(format!("the instance is {seen}; asked for {key}")).after(SOON));
        }
        if seen == step.goal() {
            continue;
        }
        // A timeout is no proof that it stopped (R2.38).
        if request.is_given_up() {
            let message = format!("the instance is {seen}; {key} was accepted and may still take effect");
            return Ok(Poll::canceled(message));
        }
        return Ok(
            Poll::in_progress(format!("the instance is {seen}, waiting for {}", step.goal())).after(SOON)
        );
    }
    Ok(Poll::succeeded(OperationResult::unchanged()))
}

fn ask(step: Step, credentials: Credentials<'_>, instance: &str) -> Result<(), Error> {
    let key = step.key();
    match step {
        Step::Start => calls::start(key, credentials, instance)?.done().map(|_| ()),
        Step::Stop { force } => calls::stop(key, credentials, force, instance)?.done().map(|_| ()),
        Step::Reboot => calls::reboot(key, credentials, instance)?.done().map(|_| ()),
    }?;
    info!("asked for {key}"; instance = instance);
    Ok(())
}
