//! The cloud's state: servers by number, by name and by label, actions, the account, the ledger.
//! Everything is reached under one lock and no look-up by id, name or label walks a list. Time-driven changes are
//! applied by `sweep` at the start of each request.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use crate::{
    account::Account,
    behaviour::Behaviour,
    clock::{Clock, rfc3339},
    faults::{Fault, Plan},
    ledger::{Effect, EffectKind, Ledger},
    options::Options,
    parts::{Part, PartKind, Parts},
    reply::{Refusal, Reply},
    request::Record,
    server::{Action, Change, Pending, Server, Status, number_of},
};

/// An answer kept under its idempotency key.
#[derive(Debug)]
pub(crate) struct Kept {
    pub fingerprint: String,
    pub reply: Reply,
    pub at: i64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub clock: Clock,
    pub behaviour: Behaviour,
    pub plan: Plan,
    pub account: Account,
    pub record: Record,
    pub kept: HashMap<String, Kept>,
    pub servers: BTreeMap<u64, Server>,
    pub actions: HashMap<u64, Action>,
    effects: Vec<Effect>,
    names: HashMap<String, BTreeSet<u64>>,
    labels: HashMap<String, BTreeSet<u64>>,
    volumes: Parts,
    nics: Parts,
    /// By value of the label `managed-by`.
    managed: HashMap<String, BTreeSet<Owned>>,
    /// Deletes under way and servers that linger in reads, each by the time at which they are due.
    leaving: BTreeSet<(i64, u64)>,
    lingering: BTreeSet<(i64, u64)>,
    /// First-boot data of servers that are gone, for the tests' side only.
    buried: HashMap<u64, Vec<u8>>,
    free_numbers: BTreeSet<u64>,
    next_server: u64,
    next_action: u64,
    pub live: usize,
    /// Live servers by (zone, type).
    live_by_place: HashMap<(String, String), usize>,
}

/// A resource of any kind, in the order of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owned {
    Server(u64),
    Part(PartKind, u64),
}

impl Owned {
    pub fn id(self) -> String {
        match self {
            Owned::Server(number) => format!("srv-{number}"),
            Owned::Part(kind, number) => format!("{}-{number}", kind.prefix()),
        }
    }

    pub fn of_id(id: &str) -> Option<Owned> {
        let part = |kind: PartKind| number_of(id, kind.prefix()).map(|number| Owned::Part(kind, number));
        let server = number_of(id, "srv").map(Owned::Server);
        server.or_else(|| part(PartKind::Volume)).or_else(|| part(PartKind::Nic))
    }
}

/// What a request is about, for the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause<'a> {
    pub request: u64,
    pub key: Option<&'a str>,
    pub fault: &'a Fault,
    pub now: i64,
}

/// What the ledger keeps of first-boot data.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserDataSeen {
    pub received_sha256: Option<String>,
    pub decoded_sha256: Option<String>,
}

impl State {
    pub fn new(options: &Options) -> State {
        State {
            clock: Clock::default(),
            behaviour: options.behaviour.clone(),
            plan: Plan::default(),
            account: Account::new(&options.api_token, &options.user, &options.password),
            record: Record::new(options.record_limit, options.record_bodies),
            kept: HashMap::new(),
            servers: BTreeMap::new(),
            actions: HashMap::new(),
            effects: Vec::new(),
            names: HashMap::new(),
            labels: HashMap::new(),
            leaving: BTreeSet::new(),
            volumes: Parts::default(),
            nics: Parts::default(),
            managed: HashMap::new(),
            lingering: BTreeSet::new(),
            buried: HashMap::new(),
            free_numbers: BTreeSet::new(),
            next_server: 1000,
            next_action: 0,
            live: 0,
            live_by_place: HashMap::new(),
        }
    }

    /// Applies deletes that are due and buries servers that no read shows any more.
    pub fn sweep(&mut self, now: i64) {
        while let Some((due, number)) = self.leaving.first().copied().filter(|(due, _)| *due <= now) {
            self.leaving.pop_first();
            let lag = &self.behaviour.visibility;
            let until = due.saturating_add_unsigned(lag.deleted_get_ms.max(lag.deleted_list_ms));
            if let Some(server) = self.servers.get_mut(&number) {
                server.settle(now);
                self.lingering.insert((until, number));
            }
            self.volumes.detach(number);
            self.nics.detach(number);
        }
        while let Some((_, number)) = self.lingering.first().copied().filter(|(until, _)| *until <= now) {
            self.lingering.pop_first();
            self.bury(number);
        }
        for part in [self.volumes.sweep(now), self.nics.sweep(now)].into_iter().flatten() {
            if let Some(owned) = part.manager().and_then(|name| self.managed.get_mut(name)) {
                owned.remove(&Owned::Part(part.kind, part.number));
            }
        }
    }

    fn bury(&mut self, number: u64) {
        let Some(server) = self.servers.remove(&number) else { return };
        unindex(&mut self.names, &server.name, number);
        if let Some(label) = server.label() {
            unindex(&mut self.labels, label, number);
        }
        if let Some(owned) = server.manager().and_then(|name| self.managed.get_mut(name)) {
            owned.remove(&Owned::Server(number));
        }
        self.buried.insert(number, server.user_data);
        self.free_numbers.insert(number);
    }

    /// A number for a new server.
    pub fn take_number(&mut self) -> u64 {
        if self.behaviour.reuse_ids
            && let Some(number) = self.free_numbers.pop_first()
        {
            return number;
        }
        self.next_server += 1;
        self.next_server
    }

    pub fn insert(&mut self, server: Server) {
        self.names.entry(server.name.clone()).or_default().insert(server.number);
        if let Some(label) = server.label() {
            self.labels.entry(label.to_owned()).or_default().insert(server.number);
        }
        if let Some(manager) = server.manager() {
            self.managed.entry(manager.to_owned()).or_default().insert(Owned::Server(server.number));
        }
        self.live += 1;
        *self.live_by_place.entry((server.zone.clone(), server.kind.clone())).or_default() += 1;
        self.servers.insert(server.number, server);
    }

    pub fn parts(&mut self, kind: PartKind) -> &mut Parts {
        match kind {
            PartKind::Volume => &mut self.volumes,
            PartKind::Nic => &mut self.nics,
        }
    }

    pub fn insert_part(&mut self, part: Part) {
        if let Some(manager) = part.manager() {
            let owned = Owned::Part(part.kind, part.number);
            self.managed.entry(manager.to_owned()).or_default().insert(owned);
        }
        self.parts(part.kind).insert(part);
    }

    /// The next of what bears this `managed-by`.
    pub fn owned_by(&self, manager: &str, start: Bound<Owned>, most: usize) -> Vec<Owned> {
        let all = self.managed.get(manager).into_iter();
        all.flat_map(|owned| owned.range((start, Bound::Unbounded))).take(most).copied().collect()
    }

    /// A server that is not gone, with its due change applied.
    pub fn server(&mut self, number: u64, now: i64) -> Option<&mut Server> {
        let server = self.servers.get_mut(&number)?;
        server.settle(now);
        server.gone_ms.is_none().then_some(server)
    }

    pub fn numbers_named(&self, name: &str) -> Vec<u64> {
        self.names.get(name).into_iter().flatten().copied().collect()
    }

    pub fn numbers_labelled(&self, label: &str) -> Vec<u64> {
        self.labels.get(label).into_iter().flatten().copied().collect()
    }

    /// Starts a change on a server: the action, the status meanwhile, and the entry of the ledger.
    pub fn start(
        &mut self,
        number: u64,
        (command, kind): (&'static str, EffectKind),
        (meanwhile, change): (Status, Change),
        seen: UserDataSeen,
        cause: Cause<'_>,
    ) -> Action {
        let action = self.open_action(command, number, cause);
        if cause.fault.no_effect || (action.error.is_some() && !matches!(change, Change::Fail)) {
            return action;
        }
        let deletes = matches!(change, Change::Delete);
        let Some(server) = self.servers.get_mut(&number) else { return action };
        if let Some(superseded) =
            server.pending.replace(Pending { change, due: action.due, action: action.number })
            && let Some(old) = self.actions.get_mut(&superseded.action)
        {
            old.error = Some("superseded".into());
            old.due = cause.now;
        }
        server.status = meanwhile;
        server.version += 1;
        server.settle(cause.now);
        let place = (server.zone.clone(), server.kind.clone());
        if deletes {
            self.leaving.insert((action.due, number));
            self.live -= 1;
            if let Some(count) = self.live_by_place.get_mut(&place) {
                *count -= 1;
            }
        }
        self.enter(kind, number, seen, None, cause);
        action
    }

    /// An action that changes nothing, or whose change the caller has made.
    pub fn open_action(&mut self, command: &'static str, number: u64, cause: Cause<'_>) -> Action {
        self.next_action += 1;
        let ms = cause.fault.action_ms.unwrap_or(self.behaviour.action_ms);
        let action = Action {
            number: self.next_action,
            command,
            server: format!("srv-{number}"),
            started: cause.now,
            due: cause.now.saturating_add_unsigned(ms),
            error: cause.fault.action_error.clone(),
            shown_as: cause.fault.action_status.clone(),
        };
        self.actions.insert(action.number, action.clone());
        action
    }

    /// Writes an effect into the ledger.
    pub fn enter(
        &mut self,
        kind: EffectKind,
        number: u64,
        seen: UserDataSeen,
        replaces: Option<String>,
        cause: Cause<'_>,
    ) {
        let Some(server) = self.servers.get(&number) else { return };
        let about = (server.id(), server.name.clone(), server.label().map(str::to_owned));
        self.record_effect(kind, about, seen, replaces, cause);
    }

    /// `about`: id, name and label of the resource.
    pub fn record_effect(
        &mut self,
        kind: EffectKind,
        (server, name, label): (String, String, Option<String>),
        seen: UserDataSeen,
        replaces: Option<String>,
        cause: Cause<'_>,
    ) {
        self.effects.push(Effect {
            seq: self.effects.len() as u64 + 1,
            at: rfc3339(cause.now),
            at_ms: cause.now,
            kind,
            server,
            name,
            label,
            idempotency_key: cause.key.map(str::to_owned),
            user_data_sha256: seen.received_sha256,
            user_data_decoded_sha256: seen.decoded_sha256,
            replaces,
            request: cause.request,
        });
    }

    /// Refuses a new server for which the account has no quota or the place no room.
    pub fn check_room(&self, zone: &str, kind: &str, now: i64) -> Result<(), Refusal> {
        let limits = &self.behaviour.limits;
        if limits.servers.is_some_and(|most| self.live >= most) {
            return Err(Refusal::new(limits.quota_status, &limits.quota_code, "the server limit is reached"));
        }
        if self.room(zone, kind, now) == Some(0) {
            let code = &limits.capacity_code;
            return Err(Refusal::new(limits.capacity_status, code, "no room for this type in this zone"));
        }
        Ok(())
    }

    /// Room left for a type in a zone; none if unbounded.
    pub fn room(&self, zone: &str, kind: &str, now: i64) -> Option<usize> {
        let entry = self.behaviour.limits.capacity.iter().find(|entry| {
            entry.until_ms.is_none_or(|until| now < until)
                && entry.zone.as_deref().is_none_or(|it| it == zone)
                && entry.kind.as_deref().is_none_or(|it| it == kind)
        })?;
        Some(entry.max.saturating_sub(self.live_in(zone, kind)))
    }

    fn live_in(&self, zone: &str, kind: &str) -> usize {
        self.live_by_place.get(&(zone.to_owned(), kind.to_owned())).copied().unwrap_or(0)
    }

    pub fn ledger(&mut self) -> Ledger {
        let now = self.clock.now();
        self.sweep(now);
        self.account.sweep_sessions(now);
        let alive = |server: &&Server| {
            server.gone_ms.is_none()
                && !server.pending.as_ref().is_some_and(|pending| matches!(pending.change, Change::Delete))
        };
        Ledger {
            effects: self.effects.clone(),
            live: self.servers.values().filter(alive).map(Server::id).collect(),
            live_parts: self.volumes.live_ids().chain(self.nics.live_ids()).collect(),
            sessions: self.account.session_ids(),
            auth: self.account.counters.clone(),
        }
    }

    pub fn count(&self, kind: EffectKind) -> usize {
        self.effects.iter().filter(|effect| effect.kind == kind).count()
    }

    /// First-boot data of a server, as received; also after it is gone.
    pub fn user_data(&self, number: u64) -> Option<Vec<u8>> {
        self.servers
            .get(&number)
            .map(|server| &server.user_data)
            .or_else(|| self.buried.get(&number))
            .cloned()
    }
}

fn unindex(index: &mut HashMap<String, BTreeSet<u64>>, key: &str, number: u64) {
    if let Some(numbers) = index.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}
