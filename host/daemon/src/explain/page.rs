//! The text of an explanation: lines, times that say how long ago, and nothing that acts in a terminal.

use holdfast_api::{OwnedResource, Time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::fmt;

/// Events that are shown: the latest.
const EVENTS: usize = 10;

/// What is told so far.
pub(super) struct Page {
    now: Timestamp,
    lines: Vec<String>,
}

impl Page {
    pub fn new(now: Timestamp) -> Page {
        Page { now, lines: Vec::new() }
    }

    /// One line, indented by steps. Line breaks and what acts in a terminal are written out.
    pub fn line(&mut self, depth: usize, text: impl AsRef<str>) {
        self.lines.push(format!("{:width$}{}", "", shown(text.as_ref()), width = depth * 2));
    }

    /// `name: text`, if there is a text.
    pub fn field(&mut self, depth: usize, name: &str, text: Option<impl AsRef<str>>) {
        if let Some(text) = text.filter(|text| !text.as_ref().is_empty()) {
            self.line(depth, format!("{name}: {}", text.as_ref()));
        }
    }

    /// An empty line.
    pub fn gap(&mut self) {
        self.lines.push(String::new());
    }

    /// A moment, and how far it is from now.
    pub fn time(&self, at: &Time) -> String {
        let seconds = at.0.as_second() - self.now.as_second();
        let apart = apart(seconds.unsigned_abs());
        if seconds > 0 { format!("{} (in {apart})", at.0) } else { format!("{} ({apart} ago)", at.0) }
    }

    /// What an object waits for, and how that ends.
    pub fn waiting(&mut self, waiting: Option<&holdfast_api::Waiting>) {
        let Some(waiting) = waiting else { return };
        let since = self.time(&waiting.since);
        self.line(1, format!("waits: {}, since {since}", waiting.reason));
        if let Some(until) = &waiting.until {
            let until = self.time(until);
            self.field(1, "until", Some(until));
        }
        self.field(1, "next", Some(&waiting.next_action));
        self.field(1, "way out", Some(&waiting.way_out));
    }

    pub fn conditions(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            let since = self.time(&condition.last_transition_time);
            let why = [condition.reason.as_str(), condition.message.as_str()];
            let why: Vec<&str> = why.into_iter().filter(|text| !text.is_empty()).collect();
            self.line(
                1,
                format!("{}={} since {since}: {}", condition.type_, condition.status, why.join(": ")),
            );
        }
    }

    pub fn owned(&mut self, owned: &[OwnedResource]) {
        if owned.is_empty() {
            return;
        }
        self.line(1, "owns, and may release:");
        for resource in owned {
            let zone = resource.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
            self.line(
                2,
                format!("{} {}{zone}, made through {}", resource.kind, resource.id, resource.binding),
            );
        }
    }

    /// The latest events, oldest first.
    pub fn events(&mut self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        self.line(1, "events:");
        let hidden = events.len().saturating_sub(EVENTS);
        if hidden > 0 {
            self.line(2, format!("({hidden} older ones)"));
        }
        for event in &events[hidden..] {
            let at = event.last_timestamp.as_ref().or(event.first_timestamp.as_ref());
            let at = at.map(|at| self.time(at)).unwrap_or_default();
            let [reason, note] =
                [&event.reason, &event.message].map(|text| text.as_deref().unwrap_or_default());
            let times =
                event.count.filter(|count| *count > 1).map(|n| format!(" ({n} times)")).unwrap_or_default();
            self.line(2, format!("{at} {reason}{times}: {note}"));
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

/// Seconds as people say them.
fn apart(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Texts of services and modules were cleaned on their way in; a person's own objects were not (attack 62).
fn shown(text: &str) -> String {
    holdfast_manifest::printable(text)
}
