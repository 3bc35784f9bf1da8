//! Arguments: the guest's few, the host's rest, and the exchange that they make.

use crate::failure::{failure, invalid, violation};
use crate::journal::EffectState;
use crate::message::{CallError, CallRequest, Violation};
use crate::ownership::{select, steps, text_of, texts};
use crate::session::Room;
use crate::targets;
use crate::text::shown;
use holdfast_custody::{Exchange, Place, Scope, Selector};
use holdfast_manifest::{Arg, Auth, Call, Field, Per, Pointer, Source, Step, Type};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest text of arguments that is looked at, in bytes.
const MAX_ARGS: usize = 64 * 1024;

/// Whose token fills `from = "token"`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens<'k> {
    /// That of the `perform` key.
    Of(&'k str),
    /// The guest gives the name of a key (reads).
    Named,
}

/// An exchange before custody has seen it.
pub(crate) type Args = BTreeMap<String, Value>;

impl Room {
    /// Every argument of the call, the host's included. What the guest may not give is refused.
    pub(crate) fn arguments(
        &self,
        call: &Call,
        request: &CallRequest,
        tokens: Tokens<'_>,
    ) -> Result<Args, CallError> {
        let given = self.guest_arguments(request)?;
        self.fill(call, given, tokens)
    }

    /// Arguments of a call from those given, the rest out of frozen host data.
    pub(crate) fn fill(
        &self,
        call: &Call,
        mut given: Map<String, Value>,
        tokens: Tokens<'_>,
    ) -> Result<Args, CallError> {
        let mut args = Args::new();
        for (name, arg) in &call.args {
            let value = match (&arg.from, tokens) {
                (Source::Binding(_), _) => continue,
                (Source::Token, Tokens::Of(key)) => Some(Value::String(self.token_of(key))),
                (Source::Token, Tokens::Named) => self.named_token(name, given.remove(name))?,
                (Source::Guest, _) => given.remove(name).filter(|value| !value.is_null()),
                (Source::Field { call: of, field }, _) => {
                    let value = given.remove(name).filter(|value| !value.is_null());
                    if let Some(value) = &value {
                        self.check_origin(call, name, of, field, value)?;
                    }
                    value
                }
                (source, _) => self.host_value(source).map(|text| shaped(arg, text)),
            };
            match value {
                Some(value) => {
                    check_shape(call, name, arg, &value)?;
                    args.insert(name.clone(), value);
                }
                None if arg.optional => {}
                None => return Err(missing(call, name, arg)),
            }
        }
        match given.keys().next() {
            None => Ok(args),
            Some(unknown) => Err(invalid(
                "UndeclaredArgument",
                format!(
                    "call `{}` was refused: `{}` is not an argument that a guest gives (provider.toml, `[calls.{}.args]`)",
                    call.name,
                    shown(unknown),
                    call.name
                ),
            )),
        }
    }

    /// What the guest wrote. Custody scans it, and refuses a hit in the words of a misfit (attack 15).
    fn guest_arguments(&self, request: &CallRequest) -> Result<Map<String, Value>, CallError> {
        if request.args.len() > MAX_ARGS {
            return Err(invalid("OversizedArguments", "the arguments of a call are limited to 64 KiB"));
        }
        if request.args.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&request.args) {
            Ok(Value::Object(given)) => Ok(given),
            _ => Err(invalid("MalformedArguments", "the arguments of a call must be one JSON object")),
        }
    }

    fn named_token(&self, name: &str, given: Option<Value>) -> Result<Option<Value>, CallError> {
        match given {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(key)) => {
                key_grammar(&key)?;
                Ok(Some(Value::String(self.token_of(&key))))
            }
            Some(_) => Err(invalid("BadArgument", format!("argument `{name}` takes the name of a key"))),
        }
    }

    /// A carried value that is not sealed must be one that this operation's call really returned.
    fn check_origin(
        &self,
        call: &Call,
        name: &str,
        of: &str,
        field: &str,
        value: &Value,
    ) -> Result<(), CallError> {
        if self.field(of, field).is_some_and(|field| field.ty == Type::Sealed) {
            return Ok(());
        }
        let path = steps(field);
        let journaled: Vec<String> = self
            .effects()
            .iter()
            .filter(|effect| effect.state == EffectState::Done && effect.call == of)
            .filter_map(|effect| effect.reply.as_ref())
            .flat_map(|reply| texts(&reply.fields, &path))
            .collect();
        let known = |one: &Value| {
            text_of(one).is_some_and(|text| journaled.contains(&text) || self.has_observed(of, field, &text))
        };
        if select(value, &[]).into_iter().all(known) {
            return Ok(());
        }
        Err(invalid(
            "ForeignValue",
            format!(
                "call `{}` was refused: argument `{name}` must be a value that `{of}` returned as `{field}` to this \
                 operation",
                call.name
            ),
        ))
    }

    /// The declared field at a path of a call's fields.
    pub(crate) fn field(&self, call: &str, path: &str) -> Option<&Field> {
        let mut fields = &self.manifest.calls.get(call)?.fields;
        let mut found = None;
        for step in path.split('/').filter(|step| *step != "*") {
            let field = fields.get(step)?;
            found = Some(field);
            match &field.each {
                Some(each) => fields = each,
                None => return Some(field),
            }
        }
        found
    }

    /// The call that sealed the value which the argument carries.
    pub(crate) fn sealing_call(&self, arg: &Arg) -> Option<&Call> {
        let Source::Field { call, field } = &arg.from else { return None };
        self.field(call, field).filter(|field| field.ty == Type::Sealed)?;
        self.manifest.calls.get(call)
    }

    fn host_value(&self, source: &Source) -> Option<String> {
        let context = &self.context;
        match source {
            Source::HostImage => context.host_image.clone(),
            Source::HostName => context.host_name.clone(),
            Source::OfferingInstanceType => context.offering.as_ref().map(|one| one.instance_type.clone()),
            Source::OfferingZone => context.offering.as_ref().and_then(|one| one.zone.clone()),
            Source::Config(key) => context.config.get(key).cloned(),
            Source::Guest | Source::Token | Source::Binding(_) | Source::Field { .. } => None,
        }
        .filter(|text| !text.is_empty())
    }

    /// Which of the operator's bindings serves the endpoint: from frozen host data, never from the guest.
    fn selector(&self, call: &Call) -> Result<Selector, CallError> {
        let site = self.context.site.clone();
        let per = self.manifest.endpoints.get(&call.endpoint).map(|endpoint| &endpoint.per);
        let absent = |what: &str| {
            invalid(
                "HostValueMissing",
                format!("call `{}` was refused: endpoint `{}` is bound {what}", call.name, call.endpoint),
            )
        };
        match per {
            None | Some(Per::None) => Ok(Selector::Site { site }),
            Some(Per::Config(key)) => {
                let value = self.context.config.get(key).cloned();
                let value = value
                    .ok_or_else(|| absent(&format!("per `config:{key}`, which the class does not give")))?;
                Ok(Selector::Value { site, value })
            }
            Some(Per::Machine { address, .. }) => {
                let object = self.context.machine_object.as_ref();
                let address_text = object.and_then(|object| targets::at(object, address));
                let address_text = address_text
                    .ok_or_else(|| absent("per machine, and the machine object holds no address"))?;
                let auth = object.and_then(|object| targets::at(object, &beside(address, "auth")));
                Ok(Selector::Machine { site, address: address_text, auth })
            }
        }
    }

    /// The exchange that custody is to prepare. `timeout_ms` covers all of it.
    pub(crate) fn exchange(
        &self,
        call: &Call,
        args: Args,
        request: &CallRequest,
        timeout_ms: u64,
    ) -> Result<Exchange, CallError> {
        Ok(Exchange {
            revision: self.context.revision.clone(),
            call: call.name.clone(),
            selector: self.selector(call)?,
            args,
            credentials: self.credentials(call, request)?,
            user_data: self.user_data(call, &request.user_data)?,
            scope: Scope { provider: self.context.provider.clone(), owner: self.context.owner.uid.clone() },
            timeout_ms,
        })
    }

    fn credentials(
        &self,
        call: &Call,
        request: &CallRequest,
    ) -> Result<Option<holdfast_custody::CredentialsId>, CallError> {
        if request.credentials {
            return match self.context.credentials {
                Some(id) => Ok(Some(id)),
                None => Err(unauthenticated(
                    "CredentialsNotLent",
                    call,
                    "no credentials are lent to this callback",
                )),
            };
        }
        // An operator may have bound an endpoint without authentication, where the manifest allows for it.
        let ways = self.manifest.endpoints.get(&call.endpoint).map(|endpoint| &endpoint.auth);
        let open = ways.is_some_and(|ways| ways.values().any(|way| *way == Auth::None));
        if self.manifest.needs_credentials(call) && (self.context.credentials.is_some() || !open) {
            let why = "its endpoint authenticates and the lent credentials were not presented";
            return Err(unauthenticated("CredentialsNotPresented", call, why));
        }
        Ok(None)
    }

    /// The declared user-data slots, each presented once.
    fn user_data(
        &self,
        call: &Call,
        presented: &[String],
    ) -> Result<BTreeMap<String, holdfast_custody::UserDataId>, CallError> {
        let slots = || call.user_data_slots().map(|(name, _)| name);
        let refuse =
            |what: String| Err(invalid("UserDataSlots", format!("call `{}` was refused: {what}", call.name)));
        let mut filled = BTreeMap::new();
        for name in presented {
            if !slots().any(|slot| slot == name) {
                return refuse(format!("`{}` is not a user-data slot of it", shown(name)));
            }
            let Some(id) = self.context.user_data else {
                return refuse("no first-boot data is lent to this callback".to_owned());
            };
            if filled.insert(name.clone(), id).is_some() {
                return refuse(format!("slot `{name}` was filled twice"));
            }
        }
        match slots().find(|slot| !filled.contains_key(*slot)) {
            Some(empty) => refuse(format!("user-data slot `{empty}` was not filled")),
            None => Ok(filled),
        }
    }

    /// A hit says where, and ends the guest.
    pub(crate) fn scan(&self, place: Place, text: &str) -> Result<(), Violation> {
        self.shared
            .custody
            .scan(&self.context.provider, place, text)
            .map_err(|leak| violation("SecretInOutput", leak.to_string()))
    }
}

/// `[a-z0-9-]{1,64}`
pub(crate) fn key_grammar(key: &str) -> Result<(), Violation> {
    let fits = (1..=64).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fits {
        return Ok(());
    }
    Err(violation("BadKey", format!("key `{}` was refused: keys are `[a-z0-9-]{{1,64}}`", shown(key))))
}

/// The same place with another last name: the authentication stands beside the address.
fn beside(address: &Pointer, name: &str) -> Pointer {
    let mut steps = address.0.clone();
    steps.pop();
    steps.push(Step::Key(name.to_owned()));
    Pointer(steps)
}

/// Host values are text; a list is written with commas.
fn shaped(arg: &Arg, text: String) -> Value {
    if !arg.is_list() {
        return Value::String(text);
    }
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(Value::from).collect()
}

fn check_shape(call: &Call, name: &str, arg: &Arg, value: &Value) -> Result<(), CallError> {
    let bad = |what: &str| {
        Err(invalid("BadArgument", format!("call `{}` was refused: argument `{name}` {what}", call.name)))
    };
    let scalars: Vec<&Value> = match (value, arg.is_list()) {
        (Value::Array(items), true) => items.iter().collect(),
        (_, true) => return bad("takes a list"),
        (one, false) => vec![one],
    };
    for one in scalars {
        let Some(text) = text_of(one) else { return bad("takes texts, numbers and truth values only") };
        if !arg.one_of.is_empty() && !arg.one_of.contains(&text) {
            return bad(&format!("must be one of {}", arg.one_of.join(", ")));
        }
    }
    Ok(())
}

fn missing(call: &Call, name: &str, arg: &Arg) -> CallError {
    let (reason, who) = match arg.from {
        Source::Guest | Source::Field { .. } | Source::Token => {
            ("MissingArgument", "the guest did not give it")
        }
        _ => ("HostValueMissing", "this callback's host data does not hold it"),
    };
    invalid(reason, format!("call `{}` was refused: argument `{name}` is mandatory and {who}", call.name))
}

fn unauthenticated(reason: &str, call: &Call, what: &str) -> CallError {
    CallError::Failure(failure(
        true,
        "unauthenticated",
        reason,
        format!("call `{}` was refused: {what}", call.name),
    ))
}
