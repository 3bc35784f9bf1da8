//! One system: its power, the changes that are on their way, and the ledger of what was really done.
//! Changes are applied when the system is next looked at after their time, so hundreds of systems cost nothing.

use std::{collections::VecDeque, time::Instant};

use jiff::Timestamp;

use super::personality::{Etag, OnAfterOff, Personality, ResetType, Soft};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
}

/// What was done to a system, and what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Changes from off to on.
    pub power_ons: u32,
    /// Changes from on to off.
    pub power_offs: u32,
    /// Restarts of a system that was on.
    pub restarts: u32,
    /// Reset requests that were accepted, in their order, whether or not they changed anything.
    pub accepted: Vec<ResetType>,
    /// Reset requests that were refused.
    pub refused: u32,
    /// Writes that were refused because of `If-Match`: 412 and 428.
    pub conflicts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    On,
    Off,
    Restart,
}

/// Why a reset is refused.
pub(super) enum Refused {
    NotOffered,
    /// Power on came too soon after power off.
    TooSoon,
    /// A restart of a system that is off.
    IsOff,
}

pub(super) struct System {
    pub id: String,
    pub personality: Personality,
    pub ledger: Ledger,
    pub asset_tag: String,
    pub last_reset: Option<Timestamp>,
    power: Power,
    version: u64,
    pending: VecDeque<(Change, Instant)>,
    /// Further power-ons to refuse.
    refusals_left: u32,
    refused_until: Option<Instant>,
    /// Writes before which somebody else changes the system.
    changes_behind: u32,
}

impl System {
    pub fn new(id: String, power: Power, personality: Personality) -> System {
        System {
            id,
            personality,
            ledger: Ledger::default(),
            asset_tag: String::new(),
            last_reset: None,
            power,
            version: 1,
            pending: VecDeque::new(),
            refusals_left: 0,
            refused_until: None,
            changes_behind: 0,
        }
    }

    /// Applies what is due.
    pub fn settle(&mut self, now: Instant) {
        while let Some((change, due)) = self.pending.pop_front_if(|(_, due)| *due <= now) {
            self.version += 1;
            match change {
                Change::On => {
                    self.power = Power::On;
                    self.ledger.power_ons += 1;
                    self.last_reset = Some(Timestamp::now());
                }
                Change::Off => {
                    self.power = Power::Off;
                    self.ledger.power_offs += 1;
                    match self.personality.on_after_off {
                        OnAfterOff::Accepted => {}
                        OnAfterOff::RefusedTimes(times) => self.refusals_left = times,
                        OnAfterOff::RefusedFor(time) => self.refused_until = Some(due + time),
                    }
                }
                Change::Restart => {
                    self.ledger.restarts += 1;
                    self.last_reset = Some(Timestamp::now());
                }
            }
        }
    }

    pub fn power(&self) -> Power {
        self.power
    }

    /// When the last pending change is done.
    pub fn quiet_at(&self) -> Option<Instant> {
        self.pending.back().map(|(_, due)| *due)
    }

    pub fn power_word(&self) -> &'static str {
        match (self.pending.front(), self.power) {
            (Some((Change::On, _)), _) if self.personality.transitional_states => "PoweringOn",
            (Some((Change::Off | Change::Restart, _)), _) if self.personality.transitional_states => {
                "PoweringOff"
            }
            (_, Power::On) => "On",
            (_, Power::Off) => "Off",
        }
    }

    /// Accepts or refuses a reset; when accepted, the time at which it is done.
    pub fn reset(&mut self, reset: ResetType, now: Instant) -> Result<Instant, Refused> {
        let change = self.change_for(reset, now).inspect_err(|_| self.ledger.refused += 1)?;
        self.ledger.accepted.push(reset);
        let Some(change) = change else { return Ok(now) };
        let due = self.quiet_at().unwrap_or(now).max(now) + self.personality.power_delay;
        self.pending.push_back((change, due));
        self.version += 1;
        self.settle(now);
        Ok(due)
    }

    /// None: accepted, and there is nothing to do.
    fn change_for(&mut self, reset: ResetType, now: Instant) -> Result<Option<Change>, Refused> {
        use ResetType::*;
        if !self.personality.reset_types.contains(&reset) {
            return Err(Refused::NotOffered);
        }
        let planned = self.planned();
        let obeyed = self.personality.soft == Soft::Obeyed;
        Ok(match (reset, planned) {
            (On | ForceOn, Power::On) => None,
            (On | ForceOn, Power::Off) => {
                self.admit_power_on(now)?;
                Some(Change::On)
            }
            (ForceOff | GracefulShutdown, Power::Off) => None,
            (ForceOff, Power::On) => Some(Change::Off),
            (GracefulShutdown, Power::On) => obeyed.then_some(Change::Off),
            (GracefulRestart | ForceRestart | PowerCycle, Power::Off) => return Err(Refused::IsOff),
            (GracefulRestart, Power::On) => obeyed.then_some(Change::Restart),
            (ForceRestart | PowerCycle, Power::On) => Some(Change::Restart),
        })
    }

    fn admit_power_on(&mut self, now: Instant) -> Result<(), Refused> {
        if self.refusals_left > 0 {
            self.refusals_left -= 1;
            return Err(Refused::TooSoon);
        }
        match self.refused_until {
            Some(until) if now < until => Err(Refused::TooSoon),
            _ => Ok(()),
        }
    }

    /// The power once everything pending is done.
    fn planned(&self) -> Power {
        let mut planned = self.power;
        for (change, _) in &self.pending {
            match change {
                Change::On => planned = Power::On,
                Change::Off => planned = Power::Off,
                Change::Restart => {}
            }
        }
        planned
    }

    /// Power changed by a person at the machine: at once, and in no ledger.
    pub fn set_power(&mut self, power: Power) {
        self.pending.clear();
        self.power = power;
        self.version += 1;
    }

    pub fn change(&mut self) {
        self.version += 1;
    }

    pub fn change_before_writes(&mut self, times: u32) {
        self.changes_behind = times;
    }

    /// To be called before `If-Match` of a write is compared.
    pub fn before_write(&mut self) {
        if self.changes_behind > 0 {
            self.changes_behind -= 1;
            self.version += 1;
        }
    }

    pub fn etag(&self) -> Option<String> {
        match self.personality.etag {
            Etag::Absent => None,
            Etag::Strong => Some(format!("\"{}\"", self.version)),
            Etag::Weak | Etag::WeakNotTakenBack => Some(format!("W/\"{}\"", self.version)),
        }
    }

    pub fn matches(&self, if_match: &str) -> bool {
        let strong = format!("\"{}\"", self.version);
        if_match.split(',').map(str::trim).any(|tag| {
            tag == "*"
                || tag == strong
                || (self.personality.etag == Etag::Weak && tag.strip_prefix("W/") == Some(&strong))
        })
    }
}
