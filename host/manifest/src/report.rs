//! Collects refusals with their position while a manifest is read and checked.
//!
//! The TOML tree is turned into plain nodes once, and every key's offset is remembered by its dotted path, so that the
//! rules can speak of paths of the checked model and still point at a line.

use crate::error::{Errors, Problem, Rule, Syntax};
use std::collections::{BTreeMap, HashMap};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// At most this many refusals are reported.
const MAX_PROBLEMS: usize = 50;

/// A TOML value without borrowed parts.
#[derive(Debug)]
pub(crate) enum Node {
    Str(String),
    Int(i64),
    Bool(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// A float, a date, or an integer beyond 64 bits: never allowed, named for the message.
    Other(&'static str),
}

impl Node {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Str(_) => "a string",
            Node::Int(_) => "an integer",
            Node::Bool(_) => "a boolean",
            Node::List(_) => "a list",
            Node::Table(_) => "a table",
            Node::Other(name) => name,
        }
    }
}

/// Positions and refusals of one file.
#[derive(Debug, Default)]
pub(crate) struct Report {
    text: String,
    offsets: HashMap<String, usize>,
    problems: Vec<(usize, Problem)>,
}

impl Report {
    /// Parses the text as TOML. `None` with the refusals inside where it is none.
    pub(crate) fn read(text: &str) -> (Report, Option<BTreeMap<String, Node>>) {
        let mut report = Report { text: text.to_owned(), ..Report::default() };
        match DeTable::parse(text) {
            Ok(root) => {
                let table = report.table("", root.get_ref());
                (report, Some(table))
            }
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                let message = error.message().lines().collect::<Vec<_>>().join(", ");
                report.push(offset, "", Rule::Grammar, format!("not TOML: {message}"), None, None);
                (report, None)
            }
        }
    }

    fn table(&mut self, path: &str, table: &DeTable<'_>) -> BTreeMap<String, Node> {
        let mut nodes = BTreeMap::new();
        for (key, value) in table.iter() {
            let inner = join(path, key.get_ref());
            self.offsets.insert(inner.clone(), key.span().start);
            let node = self.node(&inner, value);
            nodes.insert(key.get_ref().to_string(), node);
        }
        nodes
    }

    fn node(&mut self, path: &str, value: &Spanned<DeValue<'_>>) -> Node {
        match value.get_ref() {
            DeValue::String(text) => Node::Str(text.to_string()),
            DeValue::Integer(int) => match i64::from_str_radix(&int.as_str().replace('_', ""), int.radix()) {
                Ok(number) => Node::Int(number),
                Err(_) => Node::Other("an integer out of range"),
            },
            DeValue::Float(_) => Node::Other("a float"),
            DeValue::Boolean(truth) => Node::Bool(*truth),
            DeValue::Datetime(_) => Node::Other("a date"),
            DeValue::Array(list) => Node::List(list.iter().map(|item| self.node(path, item)).collect()),
            DeValue::Table(table) => Node::Table(self.table(path, table)),
        }
    }

    pub(crate) fn error(&mut self, rule: Rule, path: &str, message: impl Into<String>) {
        self.push(self.offset(path), path, rule, message.into(), None, None);
    }

    pub(crate) fn allowed(&mut self, rule: Rule, path: &str, message: impl Into<String>, allowed: &str) {
        self.push(self.offset(path), path, rule, message.into(), Some(allowed.to_owned()), None);
    }

    /// An unknown word where one of `known` belongs.
    pub(crate) fn unknown(&mut self, rule: Rule, path: &str, message: String, word: &str, known: &[&str]) {
        let nearest = nearest(word, known);
        let mut listed: Vec<&str> = known.to_vec();
        listed.sort_unstable();
        let allowed = if listed.is_empty() { "none is declared".to_owned() } else { listed.join(", ") };
        self.push(self.offset(path), path, rule, message, Some(allowed), nearest);
    }

    pub(crate) fn syntax(&mut self, path: &str, error: Syntax) {
        let rule = if matches!(error, Syntax::NotYet(_)) { Rule::NotYet } else { Rule::Grammar };
        self.error(rule, path, error.to_string());
    }

    pub(crate) fn not_yet(&mut self, path: &str, what: &str) {
        self.error(Rule::NotYet, path, format!("{what} not yet supported by this version"));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The refusals in the order of the file.
    pub(crate) fn finish(mut self) -> Result<(), Errors> {
        if self.problems.is_empty() {
            return Ok(());
        }
        self.problems.sort_by_key(|(offset, _)| *offset);
        self.problems.truncate(MAX_PROBLEMS);
        Err(Errors(self.problems.into_iter().map(|(_, problem)| problem).collect()))
    }

    /// Offset of the key at a path, or of the nearest one above it.
    fn offset(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(offset) = self.offsets.get(path) {
                return *offset;
            }
            match path.rfind('.') {
                Some(dot) => path = &path[..dot],
                None => return 0,
            }
        }
    }

    fn push(
        &mut self,
        offset: usize,
        path: &str,
        rule: Rule,
        message: String,
        allowed: Option<String>,
        nearest: Option<String>,
    ) {
        let (line, column) = position(&self.text, offset);
        let problem = Problem { line, column, path: path.to_owned(), rule, message, allowed, nearest };
        if !self.problems.iter().any(|(_, known)| *known == problem) {
            self.problems.push((offset, problem));
        }
    }
}

/// `path.key`, or `key` at the root.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The known word nearest to another, if it is near enough to be a slip.
pub(crate) fn nearest(word: &str, known: &[&str]) -> Option<String> {
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
    (line, column)
}
