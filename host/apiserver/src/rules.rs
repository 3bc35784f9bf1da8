//! Rules that no schema can say: between fields, and between an object and what it was.
//!
//! In a cluster the CRDs carry the same rules in CEL; here they are code.

use holdfast_api::CREDENTIAL_SECRET_TYPE;
use serde_json::{Value, json};

use crate::registry::Kind;
use crate::status::Cause;

/// Rules of one kind.
pub trait Validator: Send + Sync {
    /// Group and kind that the rules are for.
    fn applies_to(&self) -> (&'static str, &'static str);

    /// Adds to `causes` every rule that `new` breaks, given what it was (`None` for a new object). Both have
    /// passed the schema.
    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>);
}

/// The validators of all kinds that have rules.
pub(crate) fn validators() -> Vec<Box<dyn Validator>> {
    vec![
        Box::new(OperationRules),
        Box::new(MachineRules),
        Box::new(WrittenOnce("MachineClass", "a class is immutable: make a new one")),
        Box::new(WrittenOnce("MachineAllocation", "an allocation is immutable: make a new one")),
        Box::new(OrphanRules),
        Box::new(CredentialRules),
        Box::new(SecretRules),
        Box::new(ConfigMapRules),
    ]
}

/// Runs the validators of a kind.
pub(crate) fn run(
    all: &[Box<dyn Validator>],
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
    causes: &mut Vec<Cause>,
) {
    for validator in all.iter().filter(|v| v.applies_to() == (kind.group.as_str(), kind.kind.as_str())) {
        validator.validate(old, new, causes);
    }
}

const IMMUTABLE: &str = "field is immutable";

fn is_set(value: &Value) -> bool {
    !value.is_null()
}

struct OperationRules;

impl Validator for OperationRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        (holdfast_api::GROUP, "MachineOperation")
    }

    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        let spec = &new["spec"];
        match (is_set(&spec["machineRef"]), is_set(&spec["machineSelector"])) {
            (false, false) => causes.push(Cause::required(
                "spec.machineRef",
                "exactly one of machineRef and machineSelector must be set",
            )),
            (true, true) => causes.push(Cause::forbidden(
                "spec.machineSelector",
                "exactly one of machineRef and machineSelector must be set",
            )),
            _ => {}
        }
        let of_allocation = matches!(spec["operationKind"].as_str(), Some("HostAllocate" | "HostRelease"));
        if is_set(&spec["allocationRef"]) != of_allocation {
            let detail = "allocationRef belongs to HostAllocate and HostRelease, and only to them";
            causes.push(Cause::invalid("spec.allocationRef", &spec["allocationRef"], detail));
        }
        let Some(old) = old else { return };
        for field in [
            "machineRef",
            "machineSelector",
            "allocationRef",
            "operationKind",
            "parameters",
            "ttlSecondsAfterFinished",
            "deadlineSeconds",
        ] {
            if spec[field] != old["spec"][field] {
                causes.push(Cause::invalid(format!("spec.{field}"), &spec[field], IMMUTABLE));
            }
        }
        if old["spec"]["cancel"] == true && spec["cancel"] != true {
            causes.push(Cause::invalid("spec.cancel", &spec["cancel"], "cancel can't be taken back"));
        }
        let (before, after) = (&old["status"]["target"]["input"], &new["status"]["target"]["input"]);
        if is_set(before) && before != after {
            causes.push(Cause::invalid("status.target.input", after, "input is written once"));
        }
    }
}

struct MachineRules;

impl Validator for MachineRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        (holdfast_api::GROUP, "Machine")
    }

    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        let spec = &new["spec"];
        let (host, class) = (is_set(&spec["host"]), is_set(&spec["classRef"]));
        if !host && !class {
            let detail = "host must be set, or classRef for a machine whose host is to be allocated";
            causes.push(Cause::required("spec.host", detail));
        }
        let external = &spec["host"]["external"];
        if host && !is_set(&external["providerID"]) && !is_set(&external["machineRef"]) {
            causes.push(Cause::required(
                "spec.host.external.providerID",
                "at least one of providerID and machineRef must be set",
            ));
        }
        if is_set(&spec["userDataRef"]) && is_set(&spec["userData"]) {
            let detail = "at most one of userDataRef and userData may be set";
            causes.push(Cause::forbidden("spec.userDataRef", detail));
        }
        user_data(&spec["userData"], causes);
        if old.is_some_and(|old| old["spec"]["classRef"] != spec["classRef"]) {
            causes.push(Cause::invalid("spec.classRef", &spec["classRef"], "classRef is immutable"));
        }
    }
}

/// A request to release an orphan asks for no host.
struct OrphanRules;

impl Validator for OrphanRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        (holdfast_api::GROUP, "MachineAllocation")
    }

    fn validate(&self, _: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        let spec = &new["spec"];
        if !is_set(&spec["releaseOrphan"]) {
            return;
        }
        for field in ["machineName", "userData", "deadlineSeconds"] {
            if is_set(&spec[field]) {
                let detail = "releaseOrphan makes no host: it goes with classRef alone";
                causes.push(Cause::forbidden(format!("spec.{field}"), detail));
            }
        }
    }
}

/// A kind whose spec is what it was made with (R2.28), and why.
struct WrittenOnce(&'static str, &'static str);

impl Validator for WrittenOnce {
    fn applies_to(&self) -> (&'static str, &'static str) {
        (holdfast_api::GROUP, self.0)
    }

    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        user_data(&new["spec"]["userData"], causes);
        if old.is_some_and(|old| old["spec"] != new["spec"]) {
            causes.push(Cause::forbidden("spec", self.1));
        }
    }
}

/// First-boot data comes from one place, and so does each value of its template.
fn user_data(source: &Value, causes: &mut Vec<Cause>) {
    if !is_set(source) {
        return;
    }
    if is_set(&source["secretRef"]) == is_set(&source["template"]) {
        let detail = "exactly one of secretRef and template must be set";
        causes.push(Cause::required("spec.userData.secretRef", detail));
    }
    for (i, value) in source["template"]["values"].as_array().into_iter().flatten().enumerate() {
        if is_set(&value["value"]) == is_set(&value["secretRef"]) {
            let field = format!("spec.userData.template.values[{i}].value");
            causes.push(Cause::required(field, "exactly one of value and secretRef must be set"));
        }
    }
}

struct CredentialRules;

impl Validator for CredentialRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        (holdfast_api::GROUP, "ProviderCredential")
    }

    fn validate(&self, _: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        let auth = &new["spec"]["auth"];
        if auth["mode"] == "ExternalPlugin" && !is_set(&auth["secretRef"]) {
            causes.push(Cause::required(
                "spec.auth.secretRef",
                "secretRef is required when mode is ExternalPlugin",
            ));
        }
    }
}

/// Most bytes of a Secret's or ConfigMap's data.
const MAX_DATA: usize = 1 << 20;

struct SecretRules;

impl Validator for SecretRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        ("", "Secret")
    }

    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        validate_data(new, &["data"], causes);
        let Some(old) = old else { return };
        // A type decides who may use a Secret (`holdfast.dev/credential` is lent to providers), so that a
        // change of it would be a change of permission.
        if old["type"] != new["type"] {
            let detail = if old["type"] == CREDENTIAL_SECRET_TYPE || new["type"] == CREDENTIAL_SECRET_TYPE {
                "field is immutable: make another Secret to let a provider use it, or to stop that"
            } else {
                IMMUTABLE
            };
            causes.push(Cause::invalid("type", &new["type"], detail));
        }
        validate_frozen(old, new, &["data"], causes);
    }
}

struct ConfigMapRules;

impl Validator for ConfigMapRules {
    fn applies_to(&self) -> (&'static str, &'static str) {
        ("", "ConfigMap")
    }

    fn validate(&self, old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
        validate_data(new, &["data", "binaryData"], causes);
        if let Some(old) = old {
            validate_frozen(old, new, &["data", "binaryData"], causes);
        }
    }
}

fn validate_data(new: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for field in fields {
        for (key, value) in new[*field].as_object().into_iter().flatten() {
            let good = !key.is_empty()
                && key.len() <= 253
                && !matches!(key.as_str(), "." | "..")
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if !good {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name')";
                causes.push(Cause::invalid(format!("{field}[{key}]"), &json!(key), detail));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
    }
    if bytes > MAX_DATA {
        causes.push(Cause::too_long(fields[0], MAX_DATA as u64));
    }
}

fn validate_frozen(old: &Value, new: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields {
        if old[*field] != new[*field] {
            causes.push(Cause::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}
