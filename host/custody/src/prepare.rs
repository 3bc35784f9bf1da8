//! From an exchange to a prepared request: binding, arguments, sealed values, slots, fingerprint. Nothing is sent.

use crate::custody::Inner;
use crate::errors::{bad_argument, broken, refusal};
use crate::message::{Exchange, Refusal, Scope, Selector};
use crate::registry::{Bound, Provider};
use crate::reply::types;
use crate::request::args::{Filled, fill};
use crate::request::build::{Built, Draft, build, fingerprint};
use crate::request::slots;
use crate::scan::Kind;
use crate::scan::live::Counts;
use crate::seal::{SealScope, resolve};
use crate::secret::SecretBytes;
use crate::vault::Credentials;
use holdfast_manifest::{Arg, Auth, Call, EffectKind, Encoding, Endpoint, Place, SlotKind, Source, Type};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// Longest exchange.
const LONGEST: Duration = Duration::from_secs(600);

/// A request that is ready to be sent once. It holds spliced secrets, so it can be neither shown, copied nor
/// serialised (attack 56).
///
/// ```compile_fail
/// fn shown(prepared: &holdfast_custody::Prepared) -> String {
///     format!("{prepared:?}")
/// }
/// ```
/// ```compile_fail
/// fn copied(prepared: &holdfast_custody::Prepared) -> holdfast_custody::Prepared {
///     prepared.clone()
/// }
/// ```
/// ```compile_fail
/// fn serialised(prepared: &holdfast_custody::Prepared) -> String {
///     serde_json::to_string(prepared).unwrap()
/// }
/// ```
pub struct Prepared {
    pub(crate) provider: Arc<Provider>,
    pub(crate) call: String,
    pub(crate) selector: Selector,
    pub(crate) bound: Bound,
    pub(crate) credentials: Option<Arc<Credentials>>,
    pub(crate) args: BTreeMap<String, Filled>,
    pub(crate) slots: BTreeMap<String, SecretBytes>,
    pub(crate) url: Option<Url>,
    pub(crate) built: Built,
    pub(crate) scope: Scope,
    pub(crate) timeout: Duration,
    /// Set when it is sent.
    pub(crate) deadline: Instant,
    pub(crate) fingerprint: String,
    /// Whose secrets are spliced into it.
    pub(crate) spliced: Vec<Arc<Counts>>,
}

impl Prepared {
    /// Keyed digest of the exact request without its authentication, in lower-case base32.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// `endpoint/site[/value]` or `endpoint/site/address`.
    pub fn binding(&self) -> &str {
        &self.bound.name
    }

    /// Where its binding points (`https://host/base?variable=value`), and the same under each alias of it.
    pub fn places(&self) -> &[String] {
        &self.bound.places
    }

    pub(crate) fn call(&self) -> Result<&Call, Refusal> {
        self.provider.manifest.calls.get(&self.call).ok_or_else(|| unknown_call(&self.call))
    }

    pub(crate) fn endpoint(&self) -> Result<&Endpoint, Refusal> {
        self.provider.endpoint(&self.bound)
    }

    /// The credentials that authenticate it; none where the endpoint asks for none, whatever was lent.
    pub(crate) fn auth_credentials(&self) -> Result<Option<&Credentials>, Refusal> {
        let auth = self.provider.auth(&self.bound)?;
        Ok(self.credentials.as_deref().filter(|_| *auth != Auth::None))
    }
}

pub(crate) fn unknown_call(call: &str) -> Refusal {
    let message = format!("call `{call}` is not declared; declare it under [calls.{call}] of the manifest");
    refusal("invalid-input", "CallNotDeclared", message)
}

impl Inner {
    pub(crate) fn prepare(&self, exchange: Exchange) -> Result<Prepared, Refusal> {
        let provider = self.provider(&exchange.revision)?;
        let manifest = provider.manifest.clone();
        let call = manifest.calls.get(&exchange.call).ok_or_else(|| unknown_call(&exchange.call))?;
        if call.effect == EffectKind::Session || exchange.scope.provider != provider.name() {
            return Err(unknown_call(&exchange.call));
        }
        let mut bound = provider.bind(&call.endpoint, &exchange.selector)?;
        let credentials = self.credentials_of(&provider, &bound, &exchange)?;
        let known = |name: &&String| !call.args.contains_key(*name);
        if let Some(name) = exchange.args.keys().find(known) {
            return Err(bad_argument(&call.name, name, "is not declared"));
        }
        self.scan_arguments(provider.name(), call, &exchange.args)?;
        let mut args = BTreeMap::new();
        let mut url = None;
        for (name, arg) in &call.args {
            let given = exchange.args.get(name).filter(|value| !value.is_null());
            let Some(value) = self.argument(&bound, call, name, arg, given)? else { continue };
            if let Some(source) = sealed_source(&manifest.calls, arg) {
                let opened = self.open(&provider, &exchange, call, (name, arg), &value, source)?;
                if arg.at.contains(&Place::Url) {
                    let within = source.1.within.as_deref();
                    let target = resolve(&bound.origin, &opened.base, &opened.text, &bound.aliases, within);
                    url = Some(target.ok_or_else(|| foreign(call, name))?);
                } else {
                    args.insert(name.clone(), Filled::One(opened.text));
                }
            } else if arg.at.contains(&Place::Url) {
                return Err(broken(&call.name, "only a sealed value may be a target (rule L8)"));
            } else {
                args.insert(name.clone(), fill(&call.name, name, arg, &value)?);
            }
        }
        if let Some(url) = url.as_ref().filter(|url| url.origin() != bound.origin.origin()) {
            bound.origin = url.join("/").map_err(|_| broken(&call.name, "the target has no origin"))?;
        }
        let (slots, spliced) = self.slots(&provider, call, &exchange, credentials.as_deref(), &args)?;
        let endpoint = provider.endpoint(&bound)?;
        let draft = Draft {
            call,
            endpoint,
            bound: &bound,
            user_agent: &self.user_agent,
            args: &args,
            slots: &slots,
            url: url.as_ref(),
            page: None,
        };
        let built = build(&draft).map_err(|why| broken(&call.name, &why))?;
        let digest = fingerprint(&self.fingerprint_key, &bound.name, &built);
        let fingerprint = data_encoding::BASE32_NOPAD.encode(&digest).to_ascii_lowercase();
        // Spliced once: only pages are built again from the slots, and pages are reads.
        let slots = if call.pages.is_some() { slots } else { BTreeMap::new() };
        let timeout = Duration::from_millis(exchange.timeout_ms.max(1)).min(LONGEST);
        Ok(Prepared {
            provider,
            call: exchange.call,
            selector: exchange.selector,
            bound,
            credentials,
            args,
            slots,
            url,
            built,
            scope: exchange.scope,
            timeout,
            deadline: Instant::now() + timeout,
            fingerprint,
            spliced,
        })
    }

    /// Credentials of this provider and nobody else's (attacks 49, 85); missing ones send nothing (attack 87).
    fn credentials_of(
        &self,
        provider: &Provider,
        bound: &Bound,
        exchange: &Exchange,
    ) -> Result<Option<Arc<Credentials>>, Refusal> {
        let Some(id) = exchange.credentials else {
            return match provider.auth(bound)? {
                Auth::None => Ok(None),
                _ => Err(missing_credentials(&exchange.call, &bound.endpoint)),
            };
        };
        let credentials = self.vault().credentials(id).filter(|c| c.provider == provider.name());
        credentials.map(Some).ok_or_else(|| missing_credentials(&exchange.call, &bound.endpoint))
    }

    /// The value of an argument: the operator's for binding variables, else the given one.
    fn argument(
        &self,
        bound: &Bound,
        call: &Call,
        name: &str,
        arg: &Arg,
        given: Option<&Value>,
    ) -> Result<Option<Value>, Refusal> {
        if let Source::Binding(var) = &arg.from {
            let value = bound.vars.get(var).map(|value| Value::String(value.clone()));
            return match (value, given) {
                (Some(value), Some(given)) if value != *given => {
                    Err(bad_argument(&call.name, name, "differs from the operator's binding"))
                }
                (Some(value), _) => Ok(Some(value)),
                (None, _) => {
                    Err(bad_argument(&call.name, name, "is not a variable of the operator's binding"))
                }
            };
        }
        match given {
            Some(value) => Ok(Some(value.clone())),
            None if arg.optional => Ok(None),
            None => Err(bad_argument(&call.name, name, "is missing")),
        }
    }

    /// Does what a guest says hold a live secret? Refused in the words of a misfit (attack 15).
    fn scan_arguments(
        &self,
        provider: &str,
        call: &Call,
        args: &BTreeMap<String, Value>,
    ) -> Result<(), Refusal> {
        if !self.defences.scan {
            return Ok(());
        }
        let live = self.live(provider);
        let mut joined = String::new();
        let mut last = None;
        for (name, value) in args {
            let Some(arg) = call.args.get(name) else { continue };
            // Tokens and host data are no words of the guest; a service that echoes a token must not stop its repeat.
            if !matches!(arg.from, Source::Guest | Source::Field { .. }) {
                continue;
            }
            let mut text = String::new();
            texts(value, &mut text);
            if live.holds_secret(&text) {
                return Err(bad_argument(&call.name, name, &format!("is not {}", types::describe(arg.ty))));
            }
            joined.push_str(&text);
            last = Some((name, arg));
        }
        match last {
            Some((name, arg)) if live.holds_secret(&joined) => {
                Err(bad_argument(&call.name, name, &format!("is not {}", types::describe(arg.ty))))
            }
            _ => Ok(()),
        }
    }

    fn open(
        &self,
        provider: &Provider,
        exchange: &Exchange,
        call: &Call,
        (name, arg): (&String, &Arg),
        value: &Value,
        (source, _): (&Call, &holdfast_manifest::Field),
    ) -> Result<crate::seal::Opened, Refusal> {
        let Source::Field { field, .. } = &arg.from else { return Err(foreign(call, name)) };
        let binding = provider.bind(&source.endpoint, &exchange.selector)?;
        let scope = SealScope {
            provider: &exchange.scope.provider,
            owner: &exchange.scope.owner,
            binding: &binding.name,
            field: &format!("{}.{field}", source.name),
        };
        let text = value.as_str().ok_or_else(|| foreign(call, name))?;
        self.sealer.open(&scope, text).ok_or_else(|| foreign(call, name))
    }

    /// Encodes every slot, each secret exactly once.
    fn slots(
        &self,
        provider: &Provider,
        call: &Call,
        exchange: &Exchange,
        credentials: Option<&Credentials>,
        args: &BTreeMap<String, Filled>,
    ) -> Result<Spliced, Refusal> {
        let wanted =
            |name: &&String| call.slots.get(*name).is_none_or(|slot| slot.kind != SlotKind::UserData);
        if let Some(name) = exchange.user_data.keys().find(wanted) {
            return Err(bad_argument(&call.name, name, "is not a slot for first-boot data"));
        }
        let live = self.live(provider.name());
        let mut out = BTreeMap::new();
        let mut spliced = Vec::new();
        for (name, slot) in &call.slots {
            let refuse = |why: &str| bad_argument(&call.name, name, why);
            let encoded = match &slot.kind {
                SlotKind::UserData => {
                    let id = exchange.user_data.get(name).ok_or_else(|| refuse("needs first-boot data"))?;
                    let data = self.vault().user_data(*id).filter(|data| data.provider == provider.name());
                    let data = data.ok_or_else(|| refuse("names first-boot data that is not deposited"))?;
                    if data.bytes.len() == 0 {
                        // There is none, and the place is left unwritten.
                        continue;
                    }
                    let encoded = slots::encode(slot, &data.bytes).map_err(|why| refuse(&why))?;
                    if slot.encode != [Encoding::Utf8] {
                        live.also(data.watched, &encoded);
                    }
                    spliced.push(data.counts.clone());
                    encoded
                }
                SlotKind::Credential(format) => {
                    let credentials =
                        credentials.ok_or_else(|| missing_credentials(&call.name, &call.endpoint))?;
                    spliced.extend(counts_of(credentials, &slots::holes(&format.0)));
                    let plain = slots::format(format, &|key| credentials.value(key))
                        .ok_or_else(|| refuse("needs a credential key that is not deposited"))?;
                    slots::encode(slot, &plain).map_err(|why| refuse(&why))?
                }
                SlotKind::Generated { length, alphabet } => {
                    let plain = slots::generated(&self.seed(exchange, call, name, args), *length, *alphabet);
                    let counts = self.vault().counts(format!("generated {}.{name}", call.name));
                    live.retire(live.watch(&counts, Kind::Value, &plain, ""), self.grace);
                    spliced.push(counts);
                    slots::encode(slot, &plain).map_err(|why| refuse(&why))?
                }
            };
            out.insert(name.clone(), encoded);
        }
        Ok((out, spliced))
    }

    /// What a generated secret depends on: the owner, the slot and the effect's token, so that a repeat sends the same.
    fn seed(
        &self,
        exchange: &Exchange,
        call: &Call,
        slot: &str,
        args: &BTreeMap<String, Filled>,
    ) -> [u8; 32] {
        let scope = &exchange.scope;
        let mut parts: Vec<&[u8]> =
            vec![scope.provider.as_bytes(), scope.owner.as_bytes(), call.name.as_bytes(), slot.as_bytes()];
        for (name, filled) in args.iter().filter(|(name, _)| call.args[*name].from == Source::Token) {
            parts.push(name.as_bytes());
            parts.extend(filled.texts().iter().map(String::as_bytes));
        }
        self.keys.keyed("custody/generated", &parts)
    }
}

/// Encoded slots by name, and whose secrets they hold.
type Spliced = (BTreeMap<String, SecretBytes>, Vec<Arc<Counts>>);

/// The counters of the credential values that a format splices.
pub(crate) fn counts_of(credentials: &Credentials, holes: &[&str]) -> Vec<Arc<Counts>> {
    holes.iter().filter_map(|hole| credentials.values.get(*hole)).map(|value| value.counts.clone()).collect()
}

/// The call and field that a sealed argument comes from.
fn sealed_source<'m>(
    calls: &'m BTreeMap<String, Call>,
    arg: &Arg,
) -> Option<(&'m Call, &'m holdfast_manifest::Field)> {
    let Source::Field { call, field } = &arg.from else { return None };
    let call = calls.get(call)?;
    let mut steps = field.split('/');
    let mut found = call.fields.get(steps.next()?)?;
    for step in steps {
        found = found.each.as_ref()?.get(step)?;
    }
    (found.ty == Type::Sealed && found.each.is_none()).then_some((call, found))
}

fn texts(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Number(number) => {
            out.push_str(&number.to_string());
            out.push('\n');
        }
        Value::Array(list) => list.iter().for_each(|value| texts(value, out)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            out.push_str(key);
            out.push('\n');
            texts(value, out);
        }),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Strings of a projected reply, for the scan.
pub(crate) fn texts_of(value: &Value) -> String {
    let mut out = String::new();
    texts(value, &mut out);
    out
}

fn foreign(call: &Call, arg: &str) -> Refusal {
    let message = format!(
        "call `{}`: argument `{arg}` is not a value that this operation's own call sealed for it (rule L8)",
        call.name
    );
    refusal("invalid-input", "SealedValueForeign", message)
}

fn missing_credentials(call: &str, endpoint: &str) -> Refusal {
    let message = format!(
        "call `{call}`: endpoint `{endpoint}` authenticates and no credentials of this provider were lent"
    );
    refusal("unauthenticated", "CredentialsMissing", message)
}
