//! L9: nothing that may hold a secret is read back (hole H6).
//!
//! The scan of replies knows the secrets that the host holds. What a cloud keeps by itself (root passwords, consoles,
//! another tenant's first-boot data) it cannot know, so such places are refused by name.

use super::Grant;
use super::words::{contains, ends_with, words};
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

/// No field's place passes through or ends at one of these names, in any spelling (`userData` = `user_data`).
pub const NEVER_READ: &[&str] = &[
    "userdata",
    "customdata",
    "cloudinit",
    "cloudconfig",
    "startupscript",
    "bootstrapdata",
    "configdrive",
    "password",
    "passwd",
    "passphrase",
    "adminpass",
    "rootpass",
    "defaultpass",
    "secret",
    "privatekey",
    "secretkey",
    "accesskey",
    "apikey",
    "kubeconfig",
    "credential",
    "consolelog",
    "consoleoutput",
    "consoleurl",
    "serialoutput",
    "serialport",
    "serialconsole",
    "screenshot",
];

/// No field's place ends at one of these names; passing through them is harmless (`/metadata/labels/x`).
pub const NEVER_READ_LAST: &[&str] = &[
    "metadata",
    "token",
    "console",
    "output",
    "stdout",
    "stderr",
    "script",
    "pass",
    "pwd",
    "authorization",
    "cookie",
    "setcookie",
    "certificate",
    "sshkey",
    "keydata",
    "vendordata",
    "networkdata",
    "cmdline",
    "ciuser",
    "cicustom",
];

pub(super) fn check(m: &Manifest, r: &mut Report) {
    let leaves = slot_leaves(m);
    for call in m.calls.values() {
        for (name, field) in &call.fields {
            walk(field, &[], &format!("calls.{}.fields.{name}", call.name), &leaves, r);
        }
    }
}

/// Last names of every slot's place, of any call.
fn slot_leaves(m: &Manifest) -> Vec<String> {
    let mut leaves = Vec::new();
    for slot in m.calls.values().flat_map(|call| call.slots.values()) {
        let leaf = match &slot.at {
            Place::Json(pointer) => pointer.leaf().unwrap_or_default(),
            Place::Form(name) => {
                name.rsplit('.').find(|part| !part.bytes().all(|b| b.is_ascii_digit())).unwrap_or(name)
            }
            Place::Path(name) | Place::Query(name) | Place::Header(name) => name,
            Place::Xml(_) | Place::Url => continue,
        };
        leaves.push(leaf.to_owned());
    }
    leaves
}

fn walk(field: &Field, outer: &[Step], path: &str, leaves: &[String], r: &mut Report) {
    for place in &field.at {
        let steps: Vec<Step> = match place {
            Place::Json(pointer) => outer.iter().chain(&pointer.0).cloned().collect(),
            Place::Xml(pointer) => outer.iter().cloned().chain(pointer.0.iter().map(local)).collect(),
            Place::Header(name) => vec![Step::Key(name.clone())],
            _ => continue,
        };
        match &field.each {
            Some(each) => {
                for (name, inner) in each {
                    walk(inner, &steps, &format!("{path}.each.{name}"), leaves, r);
                }
            }
            None => check_steps(&steps, path, leaves, r),
        }
    }
}

/// The step without the prefix that the manifest gave to its namespace.
fn local(step: &Step) -> Step {
    let bare = |key: &String| key.rsplit(':').next().unwrap_or(key).to_owned();
    match step {
        Step::Key(key) => Step::Key(bare(key)),
        Step::Where { key, is } => Step::Where { key: bare(key), is: is.clone() },
        Step::Every => Step::Every,
    }
}

fn check_steps(steps: &[Step], path: &str, leaves: &[String], r: &mut Report) {
    let names: Vec<&str> = steps
        .iter()
        .flat_map(|step| match step {
            Step::Key(key) => vec![key.as_str()],
            Step::Where { key, is } => vec![key.as_str(), is.as_str()],
            Step::Every => Vec::new(),
        })
        .collect();
    if let Some(name) = names.iter().find(|name| contains(name, NEVER_READ)) {
        r.error(
            Rule::L9,
            path,
            format!("`{name}` is a name for secrets or first-boot data; no field reads it"),
        );
        return;
    }
    let Some(last) = Pointer(steps.to_vec()).leaf().map(str::to_owned) else { return };
    if ends_with(&last, NEVER_READ_LAST) {
        r.error(
            Rule::L9,
            path,
            format!("a field cannot end at `{last}`, a name for secrets or first-boot data"),
        );
    } else if leaves.iter().any(|leaf| same(leaf, &last)) {
        r.error(Rule::L9, path, format!("a field cannot end at `{last}`, where a slot puts a secret"));
    }
}

/// The same name in another spelling. One-word names must also be decorated alike: `_value` is not `value`.
fn same(leaf: &str, name: &str) -> bool {
    leaf.eq_ignore_ascii_case(name) || (words(leaf).len() > 1 && words(leaf) == words(name))
}

/// Calls whose constants name such a thing: a path part, or what a form's `Action` or `Attribute` asks for.
pub(super) fn grants(m: &Manifest) -> Vec<Grant> {
    let listed = |text: &str| contains(text, NEVER_READ) || ends_with(text, NEVER_READ_LAST);
    let mut grants = Vec::new();
    for call in m.calls.values().filter(|call| call.effect != EffectKind::Session) {
        let mut grant = |what: String| {
            grants.push(Grant { call: call.name.clone(), why: what, rule: Rule::L9 });
        };
        if let Some(path) = &call.path {
            let bare = path.text.split('?').next().unwrap_or_default();
            let literal = |part: &&str| !part.contains('{');
            for part in bare.split('/').filter(literal).filter(|part| listed(part)) {
                grant(format!(
                    "asks for `{part}` in its path, where secrets or first-boot data may come back"
                ));
            }
            for pair in path.query.iter().flat_map(|query| query.split('&')) {
                if pair.split(['=', ',']).any(listed) {
                    grant(format!("asks for `{pair}`, where secrets or first-boot data may come back"));
                }
            }
        }
        match &call.body {
            Body::Form(pairs) => {
                for (key, value) in pairs.iter().filter(|(key, _)| asks(key)) {
                    if listed(value) {
                        grant(format!(
                            "asks for `{key}={value}`, where secrets or first-boot data may come back"
                        ));
                    }
                }
            }
            Body::Json(skeleton) if !call.has_user_data() => {
                let top = skeleton.as_object().into_iter().flatten();
                for (key, _) in
                    top.filter(|(key, _)| contains(key, NEVER_READ) || ends_with(key, &["console", "output"]))
                {
                    grant(format!(
                        "asks for `{key}` in its body, where secrets or first-boot data may come back"
                    ));
                }
            }
            _ => {}
        }
    }
    grants
}

/// Form keys by which query-style APIs choose what is done or shown.
fn asks(key: &str) -> bool {
    ends_with(key, &["action", "attribute", "operation", "command", "field", "property"])
        || contains(key, &["attribute", "field", "property"])
}
