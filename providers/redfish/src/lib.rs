//! Power by Redfish (DSP0266): on, off and reboot, each observed before it counts.
//!
//! What differs by vendor is read from the service: which reset types it offers and where the action lies. The
//! reset target, ETags and task monitors pass through here sealed. Graceful never becomes forced by itself (R2.35).

mod plan;

use holdfast_guest_sdk::prelude::*;
use plan::{Power, Reset, Step, Steps};
use std::time::Duration;

provider!("provider.toml", Redfish);

struct Redfish;

/// BMCs take seconds to tens of seconds, and do not like to be asked often.
const SOON: Duration = Duration::from_secs(2);

impl Operations for Redfish {
    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        let bmc = Bmc::of(&request, credentials)?;
        let steps = Steps::of(&request.kind, &request.parameters)?;
        let seen = bmc.system()?;
        // A plan that the service cannot carry out is refused before anything happens.
        steps.check(&allowed(&seen))?;
        bmc.go_on(&steps, &seen)?;
        Ok(BeginResult::accepted(bmc.id.clone(), &steps)?.message(steps.told()).poll_after(SOON))
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        let bmc = Bmc::of(&request, credentials)?;
        let steps: Steps = ResumeToken::decode(&operation.resume_token)?;
        let seen = bmc.system()?;
        bmc.go_on(&steps, &seen)
    }
}

/// One machine's BMC, for one callback.
struct Bmc<'a> {
    id: String,
    credentials: Credentials<'a>,
    given_up: bool,
}

impl<'a> Bmc<'a> {
    fn of(request: &OperationRequest, credentials: Option<Credentials<'a>>) -> Result<Bmc<'a>, Error> {
        Ok(Bmc {
            id: calls::target_system(&request.machine)?,
            credentials: credentials.required()?,
            given_up: request.is_given_up(),
        })
    }

    fn system(&self) -> Result<calls::System, Error> {
        calls::system(self.credentials, &self.id)
    }

    /// Takes the first step that is not behind us, or says that all are.
    fn go_on(&self, steps: &Steps, seen: &calls::System) -> Result<Poll, Error> {
        let power = Power::read(seen.power.as_deref());
        for step in &steps.steps {
            match step {
                Step::Bring { key, to, by } => {
                    // Seen on, a system may be not yet off or on again: what was sent tells.
                    if steps.sent_after(key) || (power == Some(*to) && is_done(key) == is_sent(key)) {
                        continue;
                    }
                    // For the first time, or again where the answer was lost: asking twice is asking once.
                    if !is_done(key) {
                        self.power(key, *by, seen)?;
                    } else if self.given_up {
                        return Ok(ended_waiting(power, *by));
                    }
                    return self.waiting(power, *to, key);
                }
                Step::Restart { key, by } => {
                    if !is_done(key) {
                        self.restart(key, *by, seen)?;
                        return Ok(Poll::in_progress("the restart was asked for").after(SOON));
                    }
                    let waits = match self.restarting(key)? {
                        None if power == Some(Power::On) => continue,
                        None => self.waiting(power, Power::On, key)?,
                        Some(poll) => poll,
                    };
                    let ends = self.given_up && matches!(waits.state, State::InProgress);
                    return Ok(if ends { ended_waiting(power, *by) } else { waits });
                }
            }
        }
        Ok(Poll::succeeded(OperationResult::unchanged()))
    }

    fn power(&self, key: &str, by: Reset, seen: &calls::System) -> Result<(), Error> {
        let allowed = allowed(seen);
        let by = by.offered(&allowed)?;
        let word = match by {
            Reset::On => calls::PowerType::On,
            Reset::ForceOn => calls::PowerType::ForceOn,
            Reset::ForceOff => calls::PowerType::ForceOff,
            Reset::GracefulShutdown => calls::PowerType::GracefulShutdown,
            other => return Err(Error::unsupported(other.word())),
        };
        info!("reset {}", by.word(); system = self.id);
        calls::power(key, self.credentials, &seen.reset, word, seen.etag.as_ref())?.done()?;
        Ok(())
    }

    fn restart(&self, key: &str, by: Reset, seen: &calls::System) -> Result<(), Error> {
        let word = match by.offered(&allowed(seen))? {
            Reset::ForceRestart => calls::RestartType::ForceRestart,
            Reset::GracefulRestart => calls::RestartType::GracefulRestart,
            Reset::PowerCycle => calls::RestartType::PowerCycle,
            other => return Err(Error::unsupported(other.word())),
        };
        info!("reset {}", by.word(); system = self.id);
        calls::restart(key, self.credentials, &seen.reset, word, seen.etag.as_ref())?.done()?;
        Ok(())
    }

    /// What the task says of a change that the service does in the background. A monitor that is gone says nothing
    /// (N09): the observed state decides.
    fn waiting(&self, power: Option<Power>, to: Power, key: &str) -> Result<Poll, Error> {
        let task = recorded::<calls::Power>(key).ok().flatten().and_then(|made| made.task);
        if let Some(task) = task
            && let Some(poll) = judged(calls::power_task(self.credentials, &task).map(|task| task.state))?
        {
            return Ok(poll);
        }
        Ok(Poll::in_progress(format!("the system is {}, waiting for {}", told(power), to.told())).after(SOON))
    }

    fn restarting(&self, key: &str) -> Result<Option<Poll>, Error> {
        match recorded::<calls::Restart>(key)?.and_then(|made| made.task) {
            Some(task) => match calls::restart_task(self.credentials, &task) {
                Ok(task)
                    if matches!(task.state.as_deref(), Some("New" | "Starting" | "Running" | "Pending")) =>
                {
                    Ok(Some(Poll::in_progress("the restart is running").after(SOON)))
                }
                answer => judged(answer.map(|task| task.state)),
            },
            None => Ok(None),
        }
    }
}

/// A task that ended badly ends the operation; everything else leaves it to the observed state.
fn judged(state: Result<Option<String>, Error>) -> Result<Option<Poll>, Error> {
    match state {
        Ok(Some(state)) if matches!(state.as_str(), "Exception" | "Killed" | "Cancelled" | "Interrupted") => {
            Ok(Some(Poll::failed("TaskFailed", format!("the service's task ended in state {state}"))))
        }
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nobody waits any longer. An operating system that ignored a shutdown may yet obey it (N16, R2.38).
fn ended_waiting(power: Option<Power>, by: Reset) -> Poll {
    let told = told(power);
    Poll::canceled(format!("the system is {told}; {} was accepted and may still take effect", by.word()))
}

fn told(power: Option<Power>) -> &'static str {
    power.map_or("in an unknown state", Power::told)
}

fn allowed(seen: &calls::System) -> Vec<String> {
    seen.allowed.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests;
