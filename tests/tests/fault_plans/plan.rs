//! Fault plans: a small world, a cloud with bad manners, deaths of the daemon, and what operators do meanwhile.
//!
//! Every part shrinks: fewer things, fewer faults, kinder knobs. A plan never asks for what no client can survive, such as
//! a service that says "refused" and does it all the same; what it may do is what the manifest admits.

use holdfast_simulated_cloud::{Behaviour, Capacity, Fault, Idempotency, Moment, Rate, RetryAfter, Rule};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::disk::WriteCrash;
use crate::wire::ExchangeCrash;

#[derive(Debug, Clone)]
pub struct Plan {
    pub replays: Replays,
    pub cloud: Manners,
    pub rules: Vec<Bad>,
    pub things: Vec<Thing>,
    pub crashes: Vec<Crash>,
    pub acts: Vec<Act>,
}

/// How a create whose answer was lost goes on, and what the cloud's tokens are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replays {
    /// By its token, which the cloud keeps for an hour at least; then by lookup.
    Token = 0,
    /// By lookup alone: the cloud ignores tokens.
    Lookup = 1,
}

/// The standing knobs.
#[derive(Debug, Clone)]
pub struct Manners {
    pub action_ms: u64,
    pub get_ms: u64,
    pub list_ms: u64,
    pub deleted_get_ms: u64,
    pub deleted_list_ms: u64,
    /// Tokens end after just the hour that the manifest says.
    pub tokens_end: bool,
    /// Room for so many servers in a zone, for so many seconds.
    pub full: Option<(usize, usize, i64)>,
    /// What "no capacity" is carried by.
    pub capacity_status: u16,
    pub quota: Option<usize>,
    /// Requests in so many seconds, and whether `Retry-After` is said.
    pub rate: Option<(u64, u64, bool)>,
    pub lock_while_busy: bool,
    pub date_offset_s: i64,
    /// How long offerings are worth knowing.
    pub offers_valid_s: u64,
    /// No credentials are taken in this window of virtual seconds: from, for.
    pub refuses: Option<(u64, u64)>,
}

/// A fault at some requests of one route.
#[derive(Debug, Clone)]
pub struct Bad {
    pub route: Route,
    pub nth: u64,
    pub times: u64,
    pub how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Create,
    Replace,
    Delete,
    Power,
    Parts,
    DeleteParts,
    Server,
    Lists,
    Action,
    Offers,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub enum How {
    /// A status, without effect.
    Status(u16),
    /// The effect is done, and a gateway says this.
    Committed(u16),
    Reset(Moment),
    /// So many bytes of the body, and then nothing.
    Truncated(usize),
    Delayed(u64),
    /// 429 with so many seconds.
    Throttled(u64),
    /// The action ends in error, or the cloud says done and does nothing.
    Failing,
    Idle,
}

#[derive(Debug, Clone)]
pub enum Thing {
    /// A machine that is there, and operations on it: kind, and virtual second of its creation.
    Machine(Vec<(Kind, u64)>),
    Allocation(Claim),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    PowerOn,
    PowerOff,
    Reboot,
    Replace,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::PowerOn => "HostPowerOn",
            Kind::PowerOff => "HostPowerOff",
            Kind::Reboot => "HostReboot",
            Kind::Replace => "HostReplace",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Claim {
    /// Which of the two classes: bare servers, or servers with volumes and an interface.
    pub with_parts: bool,
    pub user_data: bool,
    pub deadline: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub enum Crash {
    Write(WriteCrash),
    Exchange(ExchangeCrash),
}

/// Something that a person does before a step of the controllers.
#[derive(Debug, Clone)]
pub struct Act {
    pub before: u32,
    pub what: What,
}

#[derive(Debug, Clone, Copy)]
pub enum What {
    Cancel(usize),
    DeleteOperation(usize),
    DeleteAllocation(usize),
    DeleteMachine(usize),
    /// The cloud takes another token from now on, and the Secret says so that many steps later.
    Rotate(u32),
    /// Another revision of the module serves.
    Replace,
    /// The module is away for that many steps.
    Withdraw(u32),
    /// An operation of the same allocation kind made by hand: it must not reach anything.
    Forge(usize),
}

/// All plans.
pub fn plans() -> impl Strategy<Value = Plan> {
    let replays = prop_oneof![3 => Just(Replays::Token), 2 => Just(Replays::Lookup)];
    (
        replays,
        manners(),
        vec(bad(), 0..5),
        vec(thing(), 1..4),
        vec(crash(), 0..4),
        vec((0_u32..60, what()).prop_map(|(before, what)| Act { before, what }), 0..4),
    )
        .prop_map(|(replays, cloud, rules, things, crashes, acts)| Plan {
            replays,
            cloud,
            rules,
            things,
            crashes,
            acts,
        })
}

fn manners() -> impl Strategy<Value = Manners> {
    let lags = (0_u64..4_000, 0_u64..8_000, 0_u64..6_000, 0_u64..60_000);
    let limits = (
        weighted(0.25, (0_usize..2, 0_usize..2, 1_i64..7200)),
        prop::sample::select(vec![409_u16, 412, 500, 503]),
        weighted(0.15, 0_usize..3),
        weighted(0.15, (3_u64..12, 5_u64..120, any::<bool>())),
    );
    let rest = (
        prop::sample::select(vec![0_u64, 50, 1_500, 6_000]),
        prop::sample::select(vec![86_400_u64, 3_600, 600, 60]),
        any::<bool>(),
        weighted(0.2, Just(())),
        -200_i64..200,
        weighted(0.15, (0_u64..200, 1_u64..3600)),
    );
    (weighted(0.6, lags), limits, rest).prop_map(|(lags, limits, rest)| {
        let (get_ms, list_ms, deleted_get_ms, deleted_list_ms) = lags.unwrap_or_default();
        let (full, capacity_status, quota, rate) = limits;
        let (action_ms, offers_valid_s, tokens_end, lock, date_offset_s, refuses) = rest;
        Manners {
            action_ms,
            get_ms,
            // What is not there by id is in no list.
            list_ms: (get_ms + list_ms).min(8_000),
            deleted_get_ms,
            deleted_list_ms,
            tokens_end,
            full,
            capacity_status,
            quota,
            rate,
            lock_while_busy: lock.is_some(),
            date_offset_s,
            offers_valid_s,
            refuses,
        }
    })
}

fn bad() -> impl Strategy<Value = Bad> {
    let route = prop::sample::select(vec![
        Route::Create,
        Route::Create,
        Route::Replace,
        Route::Delete,
        Route::Power,
        Route::Parts,
        Route::DeleteParts,
        Route::Server,
        Route::Lists,
        Route::Action,
        Route::Offers,
        Route::Any,
    ]);
    let status = prop::sample::select(vec![400_u16, 404, 408, 409, 423, 500, 502, 503, 504]);
    let gateway = prop::sample::select(vec![500_u16, 502, 503, 504]);
    let moment = prop::sample::select(vec![Moment::Before, Moment::After]);
    let how = prop_oneof![
        2 => status.prop_map(How::Status),
        2 => gateway.prop_map(How::Committed),
        4 => moment.prop_map(How::Reset),
        2 => (0_usize..60).prop_map(How::Truncated),
        1 => (1_u64..15).prop_map(How::Delayed),
        1 => (1_u64..120).prop_map(How::Throttled),
        1 => Just(How::Failing),
        1 => Just(How::Idle),
    ];
    (route, 1_u64..5, 1_u64..4, how).prop_map(|(route, nth, times, how)| Bad { route, nth, times, how })
}

fn thing() -> impl Strategy<Value = Thing> {
    let kind = prop::sample::select(vec![Kind::PowerOff, Kind::PowerOn, Kind::Reboot, Kind::Replace]);
    let machine = vec((kind, 0_u64..120), 1..3).prop_map(Thing::Machine);
    let claim = (any::<bool>(), any::<bool>(), weighted(0.1, 30_i64..600)).prop_map(
        |(with_parts, user_data, deadline)| Thing::Allocation(Claim { with_parts, user_data, deadline }),
    );
    prop_oneof![2 => machine, 3 => claim]
}

fn crash() -> impl Strategy<Value = Crash> {
    let write = (0_u32..30, any::<bool>());
    let exchange = (0_u32..16, any::<bool>());
    prop_oneof![
        write.prop_map(|(left, lands)| Crash::Write(WriteCrash { left, lands })),
        exchange.prop_map(|(left, after)| Crash::Exchange(ExchangeCrash { left, after })),
    ]
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        (0_usize..4).prop_map(What::Cancel),
        (0_usize..4).prop_map(What::DeleteOperation),
        (0_usize..3).prop_map(What::DeleteAllocation),
        (0_usize..3).prop_map(What::DeleteAllocation),
        (0_usize..3).prop_map(What::DeleteMachine),
        (0_u32..12).prop_map(What::Rotate),
        Just(What::Replace),
        (1_u32..12).prop_map(What::Withdraw),
        (0_usize..3).prop_map(What::Forge),
    ]
}

impl Manners {
    /// `now_ms` is the cloud's clock at the start.
    pub fn put(&self, behaviour: &mut Behaviour, replays: Replays, now_ms: i64) {
        *behaviour = Behaviour { action_ms: self.action_ms, ..Behaviour::default() };
        let seen = &mut behaviour.visibility;
        (seen.get_ms, seen.list_ms) = (self.get_ms, self.list_ms);
        (seen.deleted_get_ms, seen.deleted_list_ms) = (self.deleted_get_ms, self.deleted_list_ms);
        behaviour.idempotency = Idempotency {
            honoured: replays == Replays::Token,
            expire_ms: self.tokens_end.then_some(3_600_000),
        };
        behaviour.lock_while_busy = self.lock_while_busy;
        behaviour.limits.capacity_status = self.capacity_status;
        behaviour.limits.servers = self.quota.map(|room| room + 1);
        if let Some((zone, max, seconds)) = self.full {
            let zone = Some(["zone-a", "zone-b"][zone % 2].to_owned());
            let until_ms = Some(now_ms + seconds * 1000);
            behaviour.limits.capacity = vec![Capacity { zone, kind: None, max, until_ms }];
        }
        behaviour.rate = self.rate.map(|(requests, seconds, said)| Rate {
            requests,
            window_ms: seconds * 1000,
            retry_after: if said { RetryAfter::Seconds } else { RetryAfter::Absent },
            reset_unix: false,
            ..Rate::default()
        });
        behaviour.offers_valid_s = self.offers_valid_s;
        behaviour.date_offset_ms = self.date_offset_s * 1000;
    }
}

impl Bad {
    pub fn rules(&self) -> Vec<Rule> {
        let (method, paths): (&str, &[&str]) = match self.route {
            Route::Create => ("POST", &["/v1/servers"]),
            Route::Replace => ("POST", &["/v1/servers/*/replace"]),
            Route::Delete => ("DELETE", &["/v1/servers/*"]),
            Route::Power => ("POST", &["/v1/servers/*/actions/*"]),
            Route::Parts => ("POST", &["/v1/volumes", "/v1/nics"]),
            Route::DeleteParts => ("DELETE", &["/v1/volumes/*", "/v1/nics/*"]),
            Route::Server => ("GET", &["/v1/servers/*"]),
            Route::Lists => ("GET", &["/v1/servers", "/v1/volumes", "/v1/nics"]),
            Route::Action => ("GET", &["/v1/actions/*"]),
            Route::Offers => ("GET", &["/v1/zones"]),
            Route::Any => ("*", &["/v1/**"]),
        };
        let rule = |path: &&str| {
            let fault = self.how.fault(method);
            // From the nth match on, so many times.
            (0..self.times)
                .map(|n| Rule::on(method, path).nth(self.nth + n).does(fault.clone()))
                .collect::<Vec<_>>()
        };
        paths.iter().flat_map(rule).collect()
    }
}

impl How {
    fn fault(self, method: &str) -> Fault {
        let status = |status: u16| Fault { status: Some(status), ..Fault::default() };
        match self {
            // "Not there" of what is there, and "never like this" of what was fine, are lies that nobody can see through.
            How::Status(400 | 404) if method != "POST" => status(503),
            How::Status(code) => status(code),
            How::Committed(code) => Fault { commit: true, ..status(code) },
            How::Reset(moment) => Fault { drop: Some(moment), ..Fault::default() },
            How::Truncated(bytes) => Fault { truncate: Some(bytes), ..Fault::default() },
            How::Delayed(ms) => Fault { delay_after_ms: ms, ..Fault::default() },
            How::Throttled(seconds) => Fault {
                code: Some("rate_limited".to_owned()),
                headers: [("Retry-After".to_owned(), seconds.to_string())].into(),
                ..status(429)
            },
            How::Failing => Fault { action_error: Some("boot_failed".to_owned()), ..Fault::default() },
            How::Idle => Fault { no_effect: true, ..Fault::default() },
        }
    }
}
