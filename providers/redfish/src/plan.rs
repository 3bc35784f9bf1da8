//! What an operation will do, step by step: frozen in the resume token when it is accepted.

use holdfast_guest_sdk::{Code, Error, is_sent};
use serde::{Deserialize, Serialize};

/// The steps of one operation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Ask for a power state and wait until it is seen.
    Bring { key: String, to: Power, by: Reset },
    /// Ask for a restart, once, and wait until the system is seen on.
    Restart { key: String, by: Reset },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    On,
    Off,
}

impl Power {
    /// `PowerState` of the schema; the transitional values are neither.
    pub fn read(word: Option<&str>) -> Option<Power> {
        match word {
            Some("On") => Some(Power::On),
            Some("Off") => Some(Power::Off),
            _ => None,
        }
    }

    pub fn told(self) -> &'static str {
        match self {
            Power::On => "on",
            Power::Off => "off",
        }
    }
}

/// `ResetType` of the schema, as far as it is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reset {
    On,
    ForceOn,
    ForceOff,
    GracefulShutdown,
    GracefulRestart,
    ForceRestart,
    PowerCycle,
}

impl Reset {
    pub fn word(self) -> &'static str {
        match self {
            Reset::On => "On",
            Reset::ForceOn => "ForceOn",
            Reset::ForceOff => "ForceOff",
            Reset::GracefulShutdown => "GracefulShutdown",
            Reset::GracefulRestart => "GracefulRestart",
            Reset::ForceRestart => "ForceRestart",
            Reset::PowerCycle => "PowerCycle",
        }
    }

    /// The type to send to a service that offers these (N03). A service that lists none offers what it likes. Only
    /// `On` has a stand-in: from off, `ForceOn` does the same. Graceful is never turned into forced (R2.35).
    pub fn offered(self, allowed: &[String]) -> Result<Reset, Error> {
        let has = |reset: Reset| allowed.is_empty() || allowed.iter().any(|word| word == reset.word());
        match self {
            reset if has(reset) => Ok(reset),
            Reset::On if has(Reset::ForceOn) => Ok(Reset::ForceOn),
            reset => Err(Error::permanent(
                Code::Unsupported,
                "ResetTypeNotOffered",
                format!("the service does not offer {}; it offers {}", reset.word(), allowed.join(", ")),
            )),
        }
    }
}

impl Steps {
    /// The steps of an operation kind. Parameter `force = true` of HostPowerOff and HostReboot turns the power off
    /// hard; parameter `restart` of HostReboot names a restart action to use instead of off and on.
    pub fn of(kind: &str, parameters: &[(String, String)]) -> Result<Steps, Error> {
        let value =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let known: &[&str] = match kind {
            "HostPowerOn" => &[],
            "HostPowerOff" => &["force"],
            "HostReboot" => &["force", "restart"],
            _ => return Err(Error::unsupported(kind)),
        };
        if let Some((unknown, _)) = parameters.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            return Err(invalid(format!("{kind} has no parameter {unknown}; it has: {}", known.join(", "))));
        }
        let off = match value("force") {
            None | Some("false") => Reset::GracefulShutdown,
            Some("true") => Reset::ForceOff,
            Some(_) => return Err(invalid("force is true or false".to_owned())),
        };
        let bring = |to: Power, by: Reset| Step::Bring { key: to.told().to_owned(), to, by };
        let steps = match (kind, value("restart")) {
            ("HostPowerOn", _) => vec![bring(Power::On, Reset::On)],
            ("HostPowerOff", _) => vec![bring(Power::Off, off)],
            (_, None) => vec![bring(Power::Off, off), bring(Power::On, Reset::On)],
            (_, Some(word)) => vec![Step::Restart { key: "restart".to_owned(), by: restart(word)? }],
        };
        Ok(Steps { steps })
    }

    /// Refuses, before anything happens, a plan of which the service does not offer every step.
    pub fn check(&self, allowed: &[String]) -> Result<(), Error> {
        self.steps.iter().try_for_each(|step| match step {
            Step::Bring { by, .. } | Step::Restart { by, .. } => by.offered(allowed).map(|_| ()),
        })
    }

    /// May a step after the one with this key have taken effect? Then this one is behind us, whatever is seen now.
    pub fn sent_after(&self, key: &str) -> bool {
        let keys = self.steps.iter().map(|step| match step {
            Step::Bring { key, .. } | Step::Restart { key, .. } => key,
        });
        keys.skip_while(|it| *it != key).skip(1).any(|it| is_sent(it))
    }

    /// One line for a person.
    pub fn told(&self) -> String {
        let words = self.steps.iter().map(|step| match step {
            Step::Bring { by, to, .. } => format!("{}, then observed {}", by.word(), to.told()),
            Step::Restart { by, .. } => format!("{}, then observed on", by.word()),
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

fn restart(word: &str) -> Result<Reset, Error> {
    [Reset::GracefulRestart, Reset::ForceRestart, Reset::PowerCycle]
        .into_iter()
        .find(|reset| reset.word() == word)
        .ok_or_else(|| invalid("restart is GracefulRestart, ForceRestart or PowerCycle".to_owned()))
}

fn invalid(message: String) -> Error {
    Error::invalid_input("InvalidParameter", message)
}
