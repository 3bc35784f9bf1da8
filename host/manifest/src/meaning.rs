//! What a manifest means, in sentences for the operator who is asked to approve it.
//!
//! Each sentence has a key, so that two revisions can be compared by meaning instead of by text.

use crate::model::*;
use std::collections::BTreeMap;

impl Manifest {
    /// Sentences: what it does, what it asks for, where secrets go, what it may make, change and destroy, and which
    /// reads are risky.
    pub fn meaning(&self) -> Vec<String> {
        self.facts().into_iter().map(|(_, sentence)| sentence).collect()
    }

    /// Keyed sentences in the order that an operator reads them.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let provider = &self.provider;
        let head = format!("Provider {} for contract {}.", provider.name, provider.contract);
        facts.push(("provider".to_owned(), head));
        for (kind, operation) in &self.operations {
            facts.push((format!("operation {kind}"), operation_fact(kind, operation)));
        }
        if let Some(pattern) = &provider.provider_id {
            let text =
                format!("A machine's own resources are read out of its provider ID by {}.", pattern.text);
            facts.push(("provider-id".to_owned(), text));
        }
        for (kind, place) in &provider.targets {
            let text = format!("A machine's {kind} is read from {place} of its machine object.");
            facts.push((format!("target {kind}"), text));
        }
        for (name, endpoint) in &self.endpoints {
            facts.push((format!("endpoint {name}"), endpoint_fact(name, endpoint)));
        }
        for (name, key) in &self.credentials {
            facts.push((format!("credential {name}"), self.credential_fact(name, key)));
        }
        facts.extend(self.slot_facts());
        for call in self.calls.values().filter(|call| call.effect.mutates()) {
            facts.push((format!("effect of {}", call.name), effect_fact(call)));
        }
        facts.extend(self.read_facts());
        facts.extend(self.needs_grants().into_iter().map(|grant| {
            let text =
                format!("Needs your grant by name: call {} {} ({}).", grant.call, grant.why, grant.rule);
            (format!("grant {} {} {}", grant.call, grant.rule, grant.why), text)
        }));
        facts
    }

    fn credential_fact(&self, name: &str, key: &CredentialKey) -> String {
        let mut names = vec![name.to_owned()];
        if let CredentialKind::JsonFile { from_file } = &key.kind {
            names.extend(from_file.keys().cloned());
        }
        let mut goes = Vec::new();
        for (endpoint_name, endpoint) in &self.endpoints {
            for (place, format) in endpoint.auth.values().flat_map(puts) {
                if format.holes().iter().any(|hole| names.iter().any(|name| name == hole)) {
                    goes.push(format!(
                        "to {place} of every call to endpoint {endpoint_name}, as \"{}\"",
                        format.text()
                    ));
                }
            }
        }
        for (endpoint_name, endpoint) in &self.endpoints {
            for auth in endpoint.auth.values() {
                let Auth::Sigv4(signed) = auth else { continue };
                let is = |key: &str| names.iter().any(|name| name == key);
                let every = format!("every call to endpoint {endpoint_name}");
                if is(&signed.id) {
                    goes.push(format!("to header:authorization of {every}, as the name of the signer"));
                }
                if is(&signed.secret) {
                    goes.push(format!("into the signature of {every}, and is itself never sent"));
                }
                if signed.session.as_deref().is_some_and(is) {
                    goes.push(format!("to header:x-amz-security-token of {every}"));
                }
            }
        }
        for call in self.calls.values() {
            for slot in call.slots.values() {
                let SlotKind::Credential(format) = &slot.kind else { continue };
                if format.holes().iter().any(|hole| names.iter().any(|name| name == hole)) {
                    goes.push(format!("to {} of call {}, as \"{}\"", slot.at, call.name, format.text()));
                }
            }
        }
        let need = if key.required { "required" } else { "optional" };
        let public = if key.public { ", may be repeated by replies" } else { "" };
        format!(
            "Credential {name} ({need}{public}; {}) goes {}.",
            key.about.trim_end_matches('.'),
            goes.join(", and ")
        )
    }

    fn slot_facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for call in self.calls.values() {
            for (name, slot) in &call.slots {
                let what = match &slot.kind {
                    SlotKind::UserData => "First-boot data".to_owned(),
                    SlotKind::Generated { length, .. } => {
                        format!("A secret of {length} characters that nobody keeps")
                    }
                    SlotKind::Credential(_) => continue,
                };
                let path = call.path.as_ref().map_or("a sealed URL", |path| path.text.as_str());
                let text = format!(
                    "{what} goes to {} of call {} ({} {path} at endpoint {}).",
                    slot.at,
                    call.name,
                    call.method.as_str(),
                    call.endpoint
                );
                facts.push((format!("slot {}.{name}", call.name), text));
            }
            for (name, capture) in call.captures.iter().filter(|(_, capture)| capture.to == CaptureTo::Scan) {
                let text = format!(
                    "The secret that the service returns at {} of call {} is scanned for, then forgotten.",
                    capture.at, call.name
                );
                facts.push((format!("capture {}.{name}", call.name), text));
            }
        }
        facts
    }

    fn read_facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let reads: Vec<&Call> = self.calls.values().filter(|call| call.effect == EffectKind::Read).collect();
        let names: Vec<&str> = reads.iter().map(|call| call.name.as_str()).collect();
        if !names.is_empty() {
            facts.push(("reads".to_owned(), format!("It reads with the calls {}.", names.join(", "))));
        }
        for call in self.calls.values() {
            let mut texts = Vec::new();
            collect_text(&call.fields, "", &mut texts);
            if !texts.is_empty() {
                let text = format!(
                    "Risky: call {} returns free text to the module ({}).",
                    call.name,
                    texts.join(", ")
                );
                facts.push((format!("text of {}", call.name), text));
            }
        }
        for call in reads.iter().filter(|call| call.method == Method::Post) {
            let body = skeleton(&call.body).unwrap_or_else(|| "no body".to_owned());
            let text = format!(
                "Risky: call {} is declared a read but is a POST ({}, with {body}); that it changes nothing is the author's word.",
                call.name,
                call.path.as_ref().map_or("at a sealed URL", |path| path.text.as_str()),
            );
            facts.push((format!("post of {}", call.name), text));
        }
        for call in reads {
            let free: Vec<&str> = call
                .args
                .iter()
                .filter(|(_, arg)| arg.from == Source::Guest && arg.on.is_none() && names_something(arg))
                .map(|(name, _)| name.as_str())
                .collect();
            if !free.is_empty() {
                let text = format!(
                    "Call {} may look at anything in the account: the module chooses {} ({} {}).",
                    call.name,
                    free.join(", "),
                    call.method.as_str(),
                    call.path.as_ref().map_or("at a sealed URL", |path| path.text.as_str()),
                );
                facts.push((format!("reach of {}", call.name), text));
            }
        }
        facts
    }
}

/// The constant body as an operator reads it; none if the call has none.
fn skeleton(body: &Body) -> Option<String> {
    match body {
        Body::None => None,
        Body::Json(skeleton) => Some(skeleton.to_string()),
        Body::Form(pairs) => {
            Some(pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&"))
        }
    }
}

/// Does the module choose its value out of more than a list, with no target to hold it to?
fn is_free(arg: &Arg) -> bool {
    arg.from == Source::Guest && arg.on.is_none() && arg.one_of.is_empty()
}

fn names_something(arg: &Arg) -> bool {
    arg.one_of.is_empty() && !matches!(arg.ty, Type::Int | Type::Bool)
}

fn collect_text(fields: &BTreeMap<String, Field>, prefix: &str, into: &mut Vec<String>) {
    for (name, field) in fields {
        match &field.each {
            Some(each) => collect_text(each, &format!("{prefix}{name}/"), into),
            None if matches!(field.ty, Type::Text(_)) => into.push(format!("{prefix}{name}, {}", field.ty)),
            None => {}
        }
    }
}

fn operation_fact(kind: &str, operation: &Operation) -> String {
    let mode = match operation.mode {
        Mode::Immediate => "at once",
        Mode::LongRunning => "as a long-running operation",
    };
    let mut text = format!("It performs {kind} {mode}");
    if operation.replay_safe {
        text.push_str(", and may be run again after a crash");
    }
    if operation.requires_replace_user_data {
        text.push_str(", with new first-boot data");
    }
    if operation.cleanup {
        text.push_str(", and cleans up after its result is applied");
    }
    text + "."
}

fn puts(auth: &Auth) -> impl Iterator<Item = &(Place, Format)> {
    match auth {
        Auth::None | Auth::Sigv4(_) => [].iter(),
        Auth::Put { put } | Auth::Session { put, .. } => put.iter(),
    }
}

fn endpoint_fact(name: &str, endpoint: &Endpoint) -> String {
    let per = match &endpoint.per {
        Per::None => "one address for the site".to_owned(),
        Per::Config(key) => format!("one address for each value of the class's config {key}"),
        Per::Machine { address, .. } => {
            format!("one address per machine, from {address} of its machine object")
        }
    };
    let mut ways = Vec::new();
    for auth in endpoint.auth.values() {
        ways.push(match auth {
            Auth::None => "without credentials".to_owned(),
            Auth::Put { put } => format!("with credentials at {}", places(put)),
            Auth::Sigv4(signed) => {
                let region = match &signed.region {
                    Region::Literal(region) => region.clone(),
                    Region::Binding(var) => format!("out of your {var}"),
                };
                let service = &signed.service;
                format!("with requests signed for service {service} and region {region} (SigV4)")
            }
            Auth::Session { login, put, logout, .. } => {
                let out =
                    logout.as_ref().map_or(String::new(), |logout| format!(" and logs out with {logout}"));
                format!("with a session at {} that the host opens by call {login}{out}", places(put))
            }
        });
    }
    let vars = if endpoint.vars.is_empty() {
        String::new()
    } else {
        format!(" You also give: {}.", endpoint.vars.join(", "))
    };
    format!(
        "Endpoint {name}: {} ({per}), {}.{vars}",
        endpoint.about.trim_end_matches('.'),
        ways.join(", or ")
    )
}

fn places(put: &[(Place, Format)]) -> String {
    put.iter().map(|(place, _)| place.to_string()).collect::<Vec<_>>().join(" and ")
}

fn effect_fact(call: &Call) -> String {
    let target = match &call.path {
        Some(path) => format!("{} {}", call.method.as_str(), path.text),
        None => format!("{} at a sealed URL", call.method.as_str()),
    };
    let verb = match call.effect {
        EffectKind::Create if call.creates.is_empty() => {
            "may make something whose identity a later read tells".to_owned()
        }
        EffectKind::Create => {
            let kinds: Vec<String> = call.creates.iter().map(|(kind, at)| made(call, kind, at)).collect();
            format!("may make: {}", kinds.join(", "))
        }
        EffectKind::Update => format!("may change: {}", aims(call)),
        _ => format!("may DESTROY: {}{}", aims(call), confirmed(call)),
    };
    let replay = match &call.replay {
        Some(Replay::Token { life, lookup }) => {
            let then =
                lookup.as_ref().map_or(String::new(), |l| format!(", after that looked up by {}", l.call));
            format!("sent again with the same token for up to {life} s{then}")
        }
        Some(Replay::Idempotent) => "sent again, which changes nothing more".to_owned(),
        Some(Replay::Lookup(lookup)) => {
            format!("looked up by {}, and sent again if absent after {} s", lookup.call, lookup.absent_after)
        }
        Some(Replay::Never) | None => "never sent again: a person settles it".to_owned(),
    };
    let with = skeleton(&call.body).map_or(String::new(), |body| format!(" It sends {body}."));
    let free: Vec<&str> =
        call.args.iter().filter(|(_, arg)| is_free(arg)).map(|(name, _)| name.as_str()).collect();
    let chosen = if free.is_empty() {
        String::new()
    } else {
        format!(" The module chooses freely: {}.", free.join(", "))
    };
    format!(
        "Call {} {verb} ({target} at endpoint {}). If its answer is lost, it is {replay}.{with}{chosen}",
        call.name, call.endpoint
    )
}

fn confirmed(call: &Call) -> String {
    call.confirm.as_ref().map_or(String::new(), |read| {
        format!(" (if {read} shows that its id was not given to another meanwhile)")
    })
}

/// A kind that a call makes, and how many of it where that is more than one.
fn made(call: &Call, kind: &str, at: &CreatedAt) -> String {
    match at {
        CreatedAt::Field(steps) if call.most_of(steps) > 1 => {
            format!("{kind} (up to {})", call.most_of(steps))
        }
        _ => kind.to_owned(),
    }
}

fn aims(call: &Call) -> String {
    let kinds: Vec<String> = call
        .args
        .values()
        .filter_map(|arg| arg.on.as_ref())
        .map(|kind| format!("{kind} of this machine or owned"))
        .collect();
    kinds.join(", ")
}
