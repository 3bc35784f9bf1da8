//! Reads typed keys out of a table, and refuses the unknown ones by name.

use crate::error::{Rule, Syntax};
use crate::report::{Node, Report, join};
use std::collections::BTreeMap;

/// A table of the manifest together with its path.
#[derive(Debug, Clone)]
pub(crate) struct Tab<'a> {
    pub(crate) path: String,
    map: &'a BTreeMap<String, Node>,
}

impl<'a> Tab<'a> {
    /// Opens a node as a table in which only `known` keys may stand.
    pub(crate) fn open(node: &'a Node, path: &str, known: &[&str], r: &mut Report) -> Option<Tab<'a>> {
        let tab = Tab::any(node, path, r)?;
        tab.only(known, r);
        Some(tab)
    }

    /// Opens a node as a table whose keys are names of the author's choice.
    pub(crate) fn any(node: &'a Node, path: &str, r: &mut Report) -> Option<Tab<'a>> {
        match node {
            Node::Table(map) => Some(Tab { path: path.to_owned(), map }),
            other => {
                r.error(Rule::Grammar, path, format!("expected a table, found {}", other.kind()));
                None
            }
        }
    }

    pub(crate) fn root(map: &'a BTreeMap<String, Node>) -> Tab<'a> {
        Tab { path: String::new(), map }
    }

    pub(crate) fn only(&self, known: &[&str], r: &mut Report) {
        for key in self.map.keys().filter(|key| !known.contains(&key.as_str())) {
            r.unknown(Rule::Grammar, &self.at(key), format!("unknown key `{key}`"), key, known);
        }
    }

    /// Path of a key of this table.
    pub(crate) fn at(&self, key: &str) -> String {
        join(&self.path, key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.map.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, String, &'a Node)> + use<'a> {
        let path = self.path.clone();
        self.map.iter().map(move |(key, node)| (key.as_str(), join(&path, key), node))
    }

    pub(crate) fn need(&self, key: &str, r: &mut Report) -> Option<&'a Node> {
        let node = self.get(key);
        if node.is_none() {
            r.error(Rule::Grammar, &self.path, format!("`{key}` is required here"));
        }
        node
    }

    pub(crate) fn str(&self, key: &str, r: &mut Report) -> Option<&'a str> {
        self.get(key).and_then(|node| text(node, &self.at(key), r))
    }

    pub(crate) fn need_str(&self, key: &str, r: &mut Report) -> Option<&'a str> {
        self.need(key, r).and_then(|node| text(node, &self.at(key), r))
    }

    pub(crate) fn bool(&self, key: &str, default: bool, r: &mut Report) -> bool {
        match self.get(key) {
            None => default,
            Some(Node::Bool(truth)) => *truth,
            Some(other) => {
                let message = format!("expected a boolean, found {}", other.kind());
                r.allowed(Rule::Grammar, &self.at(key), message, "true, false");
                default
            }
        }
    }

    /// A whole number within bounds, both included.
    pub(crate) fn int(&self, key: &str, low: u64, high: u64, r: &mut Report) -> Option<u64> {
        let path = self.at(key);
        match self.get(key)? {
            Node::Int(number) => match u64::try_from(*number).ok().filter(|n| (low..=high).contains(n)) {
                Some(number) => return Some(number),
                None => r.allowed(
                    Rule::Grammar,
                    &path,
                    format!("{number} is out of range"),
                    &format!("{low} to {high}"),
                ),
            },
            other => r.error(Rule::Grammar, &path, format!("expected an integer, found {}", other.kind())),
        }
        None
    }

    /// A string parsed by a small grammar of its own.
    pub(crate) fn parsed<T>(
        &self,
        key: &str,
        r: &mut Report,
        parse: impl Fn(&str) -> Result<T, Syntax>,
    ) -> Option<T> {
        let value = self.str(key, r)?;
        ok(parse(value), &self.at(key), r)
    }

    /// A list of strings; a single string where `single` allows it. Empty where the key is absent.
    pub(crate) fn strings(&self, key: &str, single: bool, r: &mut Report) -> Vec<&'a str> {
        let path = self.at(key);
        match self.get(key) {
            None => Vec::new(),
            Some(Node::List(items)) => items.iter().filter_map(|item| text(item, &path, r)).collect(),
            Some(Node::Str(one)) if single => vec![one],
            Some(other) => {
                r.error(Rule::Grammar, &path, format!("expected a list of strings, found {}", other.kind()));
                Vec::new()
            }
        }
    }

    /// One of the listed words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)], r: &mut Report) -> Option<T> {
        let word = self.str(key, r)?;
        choose(word, &self.at(key), words, r)
    }

    /// A table below this one, empty where absent.
    pub(crate) fn below(&self, key: &str, r: &mut Report) -> Option<Tab<'a>> {
        self.get(key).and_then(|node| Tab::any(node, &self.at(key), r))
    }

    /// Named entries of a table below this one; names follow the grammar's name rule.
    pub(crate) fn named(&self, key: &str, r: &mut Report) -> Vec<(String, String, &'a Node)> {
        let Some(tab) = self.below(key, r) else { return Vec::new() };
        let mut entries = Vec::new();
        for (name, path, node) in tab.iter() {
            if check_name(name, &path, r) {
                entries.push((name.to_owned(), path, node));
            }
        }
        entries
    }
}

pub(crate) fn ok<T>(result: Result<T, Syntax>, path: &str, r: &mut Report) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            r.syntax(path, error);
            None
        }
    }
}

pub(crate) fn text<'a>(node: &'a Node, path: &str, r: &mut Report) -> Option<&'a str> {
    match node {
        Node::Str(text) => Some(text),
        other => {
            r.error(Rule::Grammar, path, format!("expected a string, found {}", other.kind()));
            None
        }
    }
}

pub(crate) fn choose<T: Copy>(word: &str, path: &str, words: &[(&str, T)], r: &mut Report) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        r.unknown(Rule::Grammar, path, format!("unknown word `{word}`"), word, &known);
    }
    found
}

/// `[a-z][a-z0-9-]{0,39}`
pub fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

pub(crate) fn check_name(name: &str, path: &str, r: &mut Report) -> bool {
    let fits = is_name(name);
    if !fits {
        let message = format!("`{name}` is not a name");
        r.allowed(Rule::Grammar, path, message, "a lower-case letter, then up to 39 of a-z, 0-9 and `-`");
    }
    fits
}
