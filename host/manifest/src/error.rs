//! Why a manifest was refused: always with the place in the file, the rule, and what would be allowed instead.
//!
//! The audience is the author of a provider, then the operator who was given its file. Nothing here ever holds a secret,
//! since a manifest has none.

use crate::printable::shown;
use std::fmt;

/// The rule of the grammar that a manifest broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Not TOML, an unknown key, a missing key, a value of the wrong kind.
    Grammar,
    /// Part of the grammar that this version does not implement.
    NotYet,
    /// Everything named is used, once, and typed; places are disjoint.
    L1,
    /// Mutations say how a lost answer is settled, and a refusal is one.
    L2,
    /// What changes or destroys has a target.
    L3,
    /// Beside first-boot data nothing is the guest's text.
    L4,
    /// Tokens name things; a PUT create is named by the host.
    L5,
    /// Credentials fill logins and `auth` only.
    L6,
    /// Session calls are the host's alone.
    L7,
    /// Sealed values name where they come from.
    L8,
    /// Nothing that may hold a secret is read.
    L9,
    /// Calls name calls that exist, without circles.
    L10,
    /// Operations, exports and manifest agree.
    L11,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Grammar => f.write_str("grammar"),
            Rule::NotYet => f.write_str("not yet"),
            other => write!(f, "rule {other:?}"),
        }
    }
}

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1. 0 where the fault is in no line of the file (exports of the module).
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// Dotted key path, for example `calls.create.args.name`.
    pub path: String,
    pub rule: Rule,
    /// What was refused, in one sentence without a full stop.
    pub message: String,
    /// What may stand there instead.
    pub allowed: Option<String>,
    /// The known word nearest to the unknown one.
    pub nearest: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "provider.toml")?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        // Path and message may quote the author's words, which an operator reads in a terminal (attack 62).
        if !self.path.is_empty() {
            write!(f, ": {}", shown(&self.path))?;
        }
        write!(f, ": {}", shown(&self.message))?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        write!(f, " ({})", self.rule)
    }
}

/// All refusals of one manifest, in the order of the file. Never empty. Displayed one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub Vec<Problem>);

impl Errors {
    /// Does one of them cite this rule?
    pub fn cite(&self, rule: Rule) -> bool {
        self.0.iter().any(|problem| problem.rule == rule)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Why a small text of the manifest (a place, a pattern, a duration) was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Syntax {
    #[error("{0}")]
    Bad(String),
    #[error("{0} not yet supported by this version")]
    NotYet(String),
}

impl Syntax {
    pub(crate) fn bad(message: impl Into<String>) -> Syntax {
        Syntax::Bad(message.into())
    }
}
