//! L2: a refusal is a refusal, and every mutation says how a lost answer is settled.

use super::Grant;
use super::words::{ends_with, words};
use crate::error::Rule;
use crate::model::*;
use crate::report::Report;

/// Words by which services say "something went wrong": nobody knows whether anything happened.
pub const GENERIC_WORDS: &[&str] = &[
    "internalerror",
    "internalservererror",
    "internalfailure",
    "internal",
    "servererror",
    "serverfault",
    "unknown",
    "unknownerror",
    "unexpected",
    "unexpectederror",
    "generalerror",
    "error",
    "fault",
    "failure",
    "serviceerror",
    "serviceunavailable",
    "unavailable",
    "timeout",
    "requesttimeout",
    "gatewaytimeout",
    "badgateway",
];

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        let path = format!("calls.{}", call.name);
        rejects(call, &format!("{path}.rejects"), r);
        for key in &call.answers.gone {
            if key.word.is_none() && matches!(key.status, Some(401 | 403)) {
                let message =
                    format!("`{key}` is a lost permission; taken for `gone`, it would call a leak a release");
                r.error(Rule::L2, &format!("{path}.gone"), message);
            }
        }
        let tokens: Vec<&Arg> = call.args.values().filter(|arg| arg.from == Source::Token).collect();
        if matches!(call.replay, Some(Replay::Token { .. })) && tokens.len() != 1 {
            let message = format!(
                "`replay = \"token\"` needs exactly one argument `from = \"token\"`; there are {}",
                tokens.len()
            );
            r.error(Rule::L2, &format!("{path}.replay"), message);
        }
        if matches!(call.replay, Some(Replay::Lookup(_))) && tokens.is_empty() {
            let message = "`replay = \"lookup\"` finds the effect by its token: an argument `from = \"token\"` must leave it there";
            r.error(Rule::L2, &format!("{path}.replay"), message);
        }
    }
}

fn rejects(call: &Call, path: &str, r: &mut Report) {
    // A repeat that the service knows again cures a wrong refusal. After a refusal nothing is looked up: a call with a
    // lookup starts over and makes a twin.
    if matches!(call.replay, None | Some(Replay::Token { .. } | Replay::Idempotent)) {
        return;
    }
    for key in call.answers.rejects.keys() {
        let bare_5xx = key.word.is_none() && key.status.is_some_and(|status| status >= 500);
        if bare_5xx || key.word.as_deref().is_some_and(is_generic) {
            let message = format!(
                "`{key}` does not prove that nothing happened, and a repeat of this call would be a new effect"
            );
            r.allowed(Rule::L2, path, message, "`fails`, or a replay by token or idempotent");
        }
    }
}

/// Is the word, or its last part (`Base.1.8.InternalError`), one of those that say nothing?
fn is_generic(word: &str) -> bool {
    let last = word.rsplit('.').next().unwrap_or(word);
    let flat: String =
        last.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    GENERIC_WORDS.contains(&flat.as_str())
}

/// `gone` by a word that may also mean "you may not see it" needs the operator's eye.
pub(super) fn grants(m: &Manifest) -> Vec<Grant> {
    let mut grants = Vec::new();
    for call in m.calls.values() {
        for key in &call.answers.gone {
            let Some(word) = &key.word else { continue };
            let flat = words(word).join("");
            let forbidden =
                ["notauthorized", "unauthorized", "forbidden", "accessdenied", "permissiondenied"];
            if forbidden.iter().any(|bad| flat.contains(bad)) || ends_with(word, &["denied"]) {
                let why = format!("takes `{key}`, which may be a lost permission, for \"it is gone\"");
                grants.push(Grant { call: call.name.clone(), why, rule: Rule::L2 });
            }
        }
    }
    grants
}
