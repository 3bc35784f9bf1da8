//! Texts of a manifest are shown to operators, in terminals and logs: nothing in them may act there (attack 62).

use crate::error::Rule;
use crate::report::{Node, Report, join};
use std::collections::BTreeMap;

/// Refuses keys and texts with characters that a terminal obeys or an eye does not see. Line breaks may stand in
/// bodies, which are parsed.
pub(crate) fn check(table: &BTreeMap<String, Node>, path: &str, r: &mut Report) {
    for (key, node) in table {
        let path = join(path, key);
        if key.chars().any(acts) {
            r.error(Rule::Grammar, &path, "a key holds a control or invisible character");
        }
        look(node, &path, path.contains(".body"), r);
    }
}

fn look(node: &Node, path: &str, body: bool, r: &mut Report) {
    match node {
        Node::Str(text) if text.chars().any(|c| acts(c) && !(body && c == '\n')) => {
            r.error(Rule::Grammar, path, "the text holds a control or invisible character");
        }
        Node::List(items) => items.iter().for_each(|item| look(item, path, body, r)),
        Node::Table(table) => check(table, path, r),
        _ => {}
    }
}

/// Controls, bidirectional overrides, and what takes no room.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}')
        || matches!(c, '\u{E0000}'..='\u{E007F}')
}

/// The text with such characters written out: what may be shown in a terminal.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}
