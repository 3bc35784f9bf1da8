//! What was sent, and what came back: the effect journal in sentences.

use super::page::Page;
use holdfast_api::{Effect, EffectState, SettledBy};
use serde_json::{Map, Value};

/// One paragraph per effect, in the order in which they were first meant.
pub(super) fn tell(page: &mut Page, effects: &[Effect]) {
    if effects.is_empty() {
        page.line(1, "nothing was sent that changes anything");
        return;
    }
    page.line(1, "what was sent, and what came back:");
    let mut effects: Vec<&Effect> = effects.iter().collect();
    effects.sort_by_key(|effect| effect.first_intended_at.0);
    for effect in effects {
        one(page, effect);
    }
}

fn one(page: &mut Page, effect: &Effect) {
    let kind = format!("{:?}", effect.effect).to_lowercase();
    let sent = page.time(&effect.intended_at);
    let times = match effect.attempts {
        // What it would have destroyed was gone: its id is another's now.
        0 => "not sent".to_owned(),
        1 => format!("sent once, last {sent}"),
        more => format!("sent {more} times, last {sent}"),
    };
    page.line(
        2,
        format!("{}: call {} ({kind}) through {}, {times}", effect.key, effect.call, effect.binding),
    );
    let settled = effect.settled_at.as_ref().map(|at| format!(", known since {}", page.time(at)));
    page.line(3, format!("{}{}", outcome(effect), settled.unwrap_or_default()));
    if let Some(since) = &effect.absent_since {
        let since = page.time(since);
        page.line(3, format!("looked up and not found since {since}"));
    }
    for made in &effect.created {
        page.line(3, format!("made {} {}", made.kind, made.id));
    }
}

fn outcome(effect: &Effect) -> String {
    let by = match effect.settled_by {
        Some(SettledBy::Answer) => "by its answer",
        Some(SettledBy::Lookup) => "by looking it up",
        Some(SettledBy::Repeat) => "by the answer to a repeat that the service recognised",
        Some(SettledBy::Operator) => "by a person's word",
        None => "",
    };
    match effect.state {
        EffectState::Intended => "in doubt: nobody knows yet what became of it".to_owned(),
        EffectState::Abandoned => "given up by a person: it counts as neither done nor refused".to_owned(),
        EffectState::Done => match &effect.reply {
            Some(reply) => format!("happened, {by}: status {}, {}", reply.status, fields(&reply.fields)),
            None => format!("happened, {by}"),
        },
        EffectState::Rejected => match &effect.refusal {
            Some(refusal) => {
                let word = refusal.native.as_ref().map(|word| format!(" ({word})")).unwrap_or_default();
                format!("refused, {by}: {}{word}: {}", refusal.code, refusal.message)
            }
            None => format!("refused, {by}"),
        },
    }
}

/// The declared fields of a reply. Sealed ones are for the host alone and long.
fn fields(fields: &Map<String, Value>) -> String {
    if fields.is_empty() {
        return "no fields".to_owned();
    }
    let shown = fields.iter().map(|(name, value)| {
        let text = value.to_string();
        if text.len() > 120 { format!("{name}=({} bytes)", text.len()) } else { format!("{name}={text}") }
    });
    shown.collect::<Vec<_>>().join(", ")
}
