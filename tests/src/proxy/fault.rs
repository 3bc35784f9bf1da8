//! What goes wrong on the way, and which requests it strikes.

use std::time::Duration;

use http::Method;
use tokio::sync::watch;

/// What happens to a request that is struck.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The connection ends; the server never hears of the request.
    DropBefore,
    /// The server does it and answers; the connection ends without that answer.
    DropReply,
    /// The server does it and answers; the client gets the head and half of the body (nothing, if it has no body).
    Truncate,
    /// It goes on after this time.
    Delay(Duration),
    /// Answered with 503 and `Retry-After: 1`; the server never hears of it.
    Unavailable,
    /// Stops before the server, until the gate opens or refuses.
    HoldBefore(Gate),
    /// The server has done it; its answer stops, until the gate opens or refuses.
    HoldReply(Gate),
}

/// A fault and what it strikes: by default every request, each time.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: Kind,
    method: Option<Method>,
    path: String,
    /// Paths that are no matches although they fit.
    beside: &'static [&'static str],
    first: u64,
    times: u64,
    matched: u64,
    /// Of equal requests one after the other, only the first is a match.
    turns: bool,
    last: Option<(Method, String)>,
}

impl Fault {
    pub fn new(kind: Kind) -> Fault {
        Fault {
            kind,
            method: None,
            path: "**".to_owned(),
            beside: &[],
            first: 1,
            times: u64::MAX,
            matched: 0,
            turns: false,
            last: None,
        }
    }

    /// Only this method.
    pub fn on_method(mut self, method: Method) -> Fault {
        self.method = Some(method);
        self
    }

    /// Only places ([`Record::place`]) that fit: `*` is anything but a slash, `**` anything.
    ///
    /// [`Record::place`]: super::Record::place
    pub fn on_path(mut self, glob: &str) -> Fault {
        self.path = glob.to_owned();
        self
    }

    /// Not these places, as globs too: they are neither struck nor counted.
    pub fn but(mut self, beside: &'static [&'static str]) -> Fault {
        self.beside = beside;
        self
    }

    /// Only the `n`th match, counted from 1 when the fault is set.
    pub fn nth(mut self, n: u64) -> Fault {
        assert!(n > 0, "matches are counted from 1");
        (self.first, self.times) = (n, 1);
        self
    }

    /// Only the first request of the `n`th turn, counted from 1. Requests with the same method and place one after the
    /// other are one turn: how often a client polls is a matter of time, what it does after it is not.
    pub fn turn(self, n: u64) -> Fault {
        Fault { turns: true, ..self.nth(n) }
    }

    /// Only the first `n` matches.
    pub fn first(mut self, n: u64) -> Fault {
        (self.first, self.times) = (1, n);
        self
    }

    /// Counts a match; the kind, if it strikes.
    pub(super) fn strikes(&mut self, method: &Method, place: &str) -> Option<Kind> {
        if self.method.as_ref().is_some_and(|wanted| wanted != method) || !fits(&self.path, place) {
            return None;
        }
        if self.beside.iter().any(|beside| fits(beside, place)) {
            return None;
        }
        let this = Some((method.clone(), place.to_owned()));
        if self.turns && self.last == this {
            return None;
        }
        self.last = this;
        self.matched += 1;
        let after_first = self.matched.checked_sub(self.first)?;
        (after_first < self.times).then(|| self.kind.clone())
    }
}

/// Holds exchanges at a point of their way, so that a test can do something exactly there. Clones are one gate.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: watch::Sender<u64>,
    verdict: watch::Sender<Option<bool>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { arrived: watch::Sender::new(0), verdict: watch::Sender::new(None) }
    }
}

impl Gate {
    /// A closed gate.
    pub fn closed() -> Gate {
        Gate::default()
    }

    /// Returns once `count` exchanges have come to the gate in all.
    pub async fn until_arrived(&self, count: u64) {
        let mut arrived = self.arrived.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = arrived.wait_for(|number| *number >= count).await;
    }

    /// What waits, and all that comes later, goes on.
    pub fn open(&self) {
        self.verdict.send_replace(Some(true));
    }

    /// What waits, and all that comes later, goes no further, and its connection ends.
    pub fn refuse(&self) {
        self.verdict.send_replace(Some(false));
    }

    pub(super) async fn pass(&self) -> bool {
        let mut verdict = self.verdict.subscribe();
        self.arrived.send_modify(|number| *number += 1);
        let open = verdict.wait_for(Option::is_some).await.map(|verdict| *verdict == Some(true));
        open.unwrap_or(false)
    }
}

/// `*` is any run of characters but slashes, `**` any run.
fn fits(glob: &str, path: &str) -> bool {
    match glob.split_once('*') {
        None => glob == path,
        Some((literal, rest)) => {
            let Some(tail) = path.strip_prefix(literal) else { return false };
            let (rest, crosses) = match rest.strip_prefix('*') {
                Some(rest) => (rest, true),
                None => (rest, false),
            };
            let mut ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            ends.any(|end| (crosses || !tail[..end].contains('/')) && fits(rest, &tail[end..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        let reset = "/redfish/v1/Systems/7/Actions/ComputerSystem.Reset";
        for (glob, path, expected) in [
            ("**", reset, true),
            ("/redfish/v1/Systems/*/Actions/*", reset, true),
            ("/redfish/v1/Systems/*", reset, false),
            ("/redfish/v1/Systems/**", reset, true),
            ("**/ComputerSystem.Reset", reset, true),
            ("**/Oem/*", reset, false),
            ("/redfish/v1", "/redfish/v1/", false),
            ("/redfish/v1*", "/redfish/v1", true),
        ] {
            assert_eq!(fits(glob, path), expected, "{glob} against {path}");
        }
    }

    #[test]
    fn only_the_nth_match_is_struck_and_other_methods_do_not_count() {
        let mut fault = Fault::new(Kind::DropReply).on_method(Method::POST).on_path("/a/*").nth(2);
        let struck: Vec<bool> =
            [("POST", "/a/1"), ("GET", "/a/1"), ("POST", "/b"), ("POST", "/a/2"), ("POST", "/a/3")]
                .into_iter()
                .map(|(method, path)| fault.strikes(&method.parse().unwrap(), path).is_some())
                .collect();
        assert_eq!(struck, [false, false, false, true, false]);
    }

    #[test]
    fn what_is_beside_is_neither_struck_nor_counted() {
        let mut fault = Fault::new(Kind::DropReply).but(&["/b/*"]).turn(2);
        let struck: Vec<bool> =
            [("GET", "/a"), ("GET", "/b/1"), ("GET", "/a"), ("GET", "/b/2"), ("GET", "/c")]
                .into_iter()
                .map(|(method, path)| fault.strikes(&method.parse().unwrap(), path).is_some())
                .collect();
        assert_eq!(struck, [false, false, false, false, true]);
    }

    #[test]
    fn polls_are_one_turn_of_which_only_the_first_is_struck() {
        let mut fault = Fault::new(Kind::DropReply).turn(3);
        let struck: Vec<bool> =
            [("GET", "/a"), ("GET", "/a"), ("POST", "/a"), ("GET", "/a"), ("GET", "/a"), ("GET", "/b")]
                .into_iter()
                .map(|(method, path)| fault.strikes(&method.parse().unwrap(), path).is_some())
                .collect();
        assert_eq!(struck, [false, false, false, true, false, false]);
    }
}
