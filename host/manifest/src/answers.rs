//! Section 6: what an answer that is not plain success means.

use crate::model::{AnswerKey, Answers, Call, EffectKind};
use crate::types::ERROR_CODES;

/// What an answer says about the effect of its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// Nothing happened, for this reason (a code of the contract). Says nothing about an earlier send: see
    /// [`Class::settles_a_repeat`].
    Rejected(String),
    /// Nobody knows whether something happened: in doubt on a mutation, a plain failure on a read.
    Unclear(String),
    /// What the call was aimed at is not there.
    Gone,
    /// Nothing in the manifest speaks against it: a success, if the status is an accepted one.
    Plain,
}

impl Class {
    /// Does this answer to a *repeat* under replay token or idempotent also settle the first send (hole H7)?
    /// A conflict or an existing twin may be the very thing that the first send made.
    pub fn settles_a_repeat(&self) -> bool {
        match self {
            Class::Rejected(code) => code != "already-exists" && code != "conflict",
            Class::Unclear(_) => false,
            Class::Gone | Class::Plain => true,
        }
    }
}

impl Answers {
    /// Classifies an answer: `"403 Word"` before `"Word"` before `"403"` before the defaults of section 6. The word is
    /// looked up first, even on a 2xx. A 2xx that nothing lists is [`Class::Plain`]; whether its status is an accepted
    /// one is the call's business ([`Call::classify`]).
    ///
    /// For a create, `gone` speaks of something beside it, so nothing was made: rejected as `not-found`.
    pub fn classify(&self, effect: EffectKind, status: u16, word: Option<&str>) -> Class {
        let both = word.map(|word| AnswerKey { status: Some(status), word: Some(word.to_owned()) });
        let only = word.map(|word| AnswerKey { status: None, word: Some(word.to_owned()) });
        let bare = AnswerKey { status: Some(status), word: None };
        for key in both.iter().chain(&only).chain([&bare]) {
            if let Some(class) = self.listed(key) {
                return match class {
                    Class::Gone if effect == EffectKind::Create => Class::Rejected("not-found".to_owned()),
                    class => class,
                };
            }
        }
        if (200..300).contains(&status) { Class::Plain } else { default_class(status) }
    }

    fn listed(&self, key: &AnswerKey) -> Option<Class> {
        if let Some(code) = self.rejects.get(key) {
            return Some(Class::Rejected(code.clone()));
        }
        if let Some(code) = self.fails.get(key) {
            return Some(Class::Unclear(code.clone()));
        }
        self.gone.contains(key).then_some(Class::Gone)
    }

    /// Every key of the three tables.
    pub fn keys(&self) -> impl Iterator<Item = &AnswerKey> {
        self.rejects.keys().chain(self.fails.keys()).chain(&self.gone)
    }

    /// Is this word listed, and may therefore reach the guest as `native`?
    pub fn lists(&self, word: &str) -> bool {
        self.keys().any(|key| key.word.as_deref() == Some(word))
    }

    /// These answers over the defaults of the endpoint: a key of one's own hides the same key there, in any table.
    pub(crate) fn over(mut self, defaults: &Answers) -> Answers {
        let own: Vec<AnswerKey> = self.keys().cloned().collect();
        let free = |key: &AnswerKey| !own.contains(key);
        let pairs = |table: &std::collections::BTreeMap<AnswerKey, String>| {
            table.iter().filter(|(key, _)| free(key)).map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>()
        };
        self.rejects.extend(pairs(&defaults.rejects));
        self.fails.extend(pairs(&defaults.fails));
        self.gone.extend(defaults.gone.iter().filter(|key| free(key)).cloned());
        self
    }
}

impl Call {
    /// Classifies an answer to this call: [`Class::Plain`] only for an accepted status that nothing speaks against.
    pub fn classify(&self, status: u16, word: Option<&str>) -> Class {
        match self.answers.classify(self.effect, status, word) {
            Class::Plain if !self.accept.contains(&status) => Class::Unclear("unavailable".to_owned()),
            class => class,
        }
    }
}

/// Statuses that the manifest does not list.
fn default_class(status: u16) -> Class {
    let code = match status {
        400 | 405 | 422 => "invalid-input",
        401 => "unauthenticated",
        403 => "permission-denied",
        404 => "not-found",
        409 | 412 => "conflict",
        429 => "throttled",
        _ => return Class::Unclear("unavailable".to_owned()),
    };
    debug_assert!(ERROR_CODES.contains(&code));
    Class::Rejected(code.to_owned())
}
