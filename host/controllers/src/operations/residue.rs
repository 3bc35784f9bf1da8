//! What an operation that ends badly leaves behind, in words: a person who cancels reads what is still there.

use holdfast_api::{EffectState, MAX_MESSAGE_BYTES, MachineOperationStatus, truncate_message};

use crate::events::MAX_NOTE;

/// Most things that are named.
const NAMED: usize = 8;
const MARK: &str = "; residual: ";

/// The message with what is left said after it. The provider's words are cut before that is.
pub(super) fn with_residue(status: &MachineOperationStatus, message: &str) -> String {
    let Some(residue) = residue(status) else { return message.to_owned() };
    let room = MAX_MESSAGE_BYTES.saturating_sub(residue.len());
    let message = truncate_message(message);
    format!("{}{residue}", &message[..message.floor_char_boundary(room)])
}

/// `; residual: server srv-12, volume vol-3`.
fn residue(status: &MachineOperationStatus) -> Option<String> {
    let owned = status.owned_resources.iter().map(|one| format!("{} {}", one.kind, one.id));
    let unsettled = |state| matches!(state, EffectState::Intended | EffectState::Abandoned);
    let doubts = status.effects.iter().filter(|effect| unsettled(effect.state));
    let doubts = doubts.map(|effect| format!("perhaps what the effect {} did", effect.key));
    let mut left: Vec<String> = owned.chain(doubts).map(|one| short(&one)).collect();
    if left.is_empty() {
        return None;
    }
    if left.len() > NAMED {
        let more = left.len() - NAMED;
        left.truncate(NAMED);
        left.push(format!("and {more} more (status.ownedResources)"));
    }
    Some(format!("{MARK}{}", left.join(", ")))
}

/// A message as the note of an event: cut in the middle, so that it still says what is left.
pub(super) fn note(message: &str) -> String {
    let at = message.rfind(MARK).filter(|_| message.len() > MAX_NOTE);
    let Some(at) = at else { return message.to_owned() };
    let (words, left) = message.split_at(at);
    let room = MAX_NOTE.saturating_sub(left.len());
    format!("{}{left}", &words[..words.floor_char_boundary(room)])
}

fn short(text: &str) -> String {
    const LONGEST: usize = 100;
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}
