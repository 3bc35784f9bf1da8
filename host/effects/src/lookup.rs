//! Looking up what became of a send: the host makes the declared read and counts what bears the effect's token.

use crate::args::Tokens;
use crate::exchanger::Ready;
use crate::failure::from_refusal;
use crate::journal::{Effect, RecordedReply};
use crate::message::CallError;
use crate::ownership::{select, text_of};
use crate::perform::Attempt;
use crate::session::Room;
use holdfast_custody::Verdict;
use holdfast_manifest::{Call, Lookup};
use serde_json::{Map, Value};

/// What a lookup found: three answers, never two (A04).
pub(crate) enum Seen {
    One(RecordedReply),
    Nothing,
    Several,
    /// It could not be found out; come back after this many milliseconds.
    Unknown(Option<u64>),
}

impl Room {
    /// What became of the effect.
    ///
    /// # Errors
    /// If it would be looked for in another place than it was sent to.
    pub(crate) async fn look_up(
        &self,
        attempt: &Attempt,
        effect: &Effect,
        lookup: &Lookup,
    ) -> Result<Seen, CallError> {
        let Some(call) = self.manifest.calls.get(&lookup.call) else { return Ok(Seen::Unknown(None)) };
        let Ok(ready) = self.lookup_ready(attempt, call) else { return Ok(Seen::Unknown(None)) };
        self.check_sent_here(call, effect, &ready)?;
        let answer = self.shared.custody.send(ready).await;
        let itself = lookup.item == "self";
        let fields = match answer.verdict {
            Verdict::Fits(reply) => reply.fields,
            Verdict::Gone { .. } if itself => return Ok(Seen::Nothing),
            Verdict::Gone { .. } => return Ok(Seen::Unknown(None)),
            Verdict::Rejected(refusal) | Verdict::Unclear(refusal) => {
                return Ok(Seen::Unknown(refusal.retry_after_ms));
            }
        };
        let proofs = self.proofs(effect);
        let items: Vec<Map<String, Value>> = if itself {
            vec![fields]
        } else {
            match fields.get(&lookup.item) {
                Some(Value::Array(items)) => items
                    .iter()
                    .filter(|item| ours(call, &lookup.item, item, &proofs))
                    .map(|item| item.as_object().cloned().unwrap_or_default())
                    .collect(),
                // An absent list is an empty one; anything else is not understood.
                None => Vec::new(),
                Some(_) => return Ok(Seen::Unknown(None)),
            }
        };
        Ok(match items.as_slice() {
            [] => Seen::Nothing,
            [item] => self.as_reply(attempt, item),
            _ => Seen::Several,
        })
    }

    /// The lookup call, ready to be made. Its arguments are the token and host data (rule L10).
    fn lookup_ready(&self, attempt: &Attempt, call: &Call) -> Result<Ready, CallError> {
        let args = self.fill(call, Map::new(), Tokens::Of(attempt.key()))?;
        self.check_targets(call, &args, None)?;
        let mut request = attempt.request.clone();
        request.user_data.clear();
        let exchange = self.exchange(call, args, &request, self.remaining_ms()?)?;
        Ok(self.shared.custody.prepare(exchange).map_err(from_refusal)?)
    }

    /// The reply that the lost answer would have been: the item must have every mandatory field.
    fn as_reply(&self, attempt: &Attempt, item: &Map<String, Value>) -> Seen {
        let mut fields = Map::new();
        for (name, field) in &attempt.call.fields {
            match item.get(name) {
                Some(value) if !value.is_null() => drop(fields.insert(name.clone(), value.clone())),
                _ if field.optional => {}
                _ => return Seen::Unknown(None),
            }
        }
        let status = attempt.call.accept.first().copied().unwrap_or(200);
        Seen::One(RecordedReply { status, fields })
    }
}

/// Does the item bear our token? Asked where it can be: an `adopts` proof, or a field named `token`. A service that
/// ignores a filter lists everything, and a neighbour alone in the list must not become ours (H3).
fn ours(call: &Call, list: &str, item: &Value, proofs: &[String]) -> bool {
    let declared = call.adopts.values().filter_map(|adopt| match adopt.proof.as_slice() {
        [first, star, rest @ ..] if first == list && star == "*" => Some(rest.to_vec()),
        _ => None,
    });
    let each = call.fields.get(list).and_then(|field| field.each.as_ref());
    let named = each.is_some_and(|each| each.contains_key("token")).then(|| vec!["token".to_owned()]);
    let mut evidence = declared.chain(named).peekable();
    evidence.peek().is_some()
        && evidence.all(|path| {
            matches!(select(item, &path).as_slice(), [proof] if text_of(proof).is_some_and(|text| proofs.contains(&text)))
        })
}
