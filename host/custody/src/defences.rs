//! Switches that turn one defence off, so that a test can show that the defence matters.
//!
//! They exist in tests and under the feature `harness` only; a daemon is built without, and then every defence is
//! a constant `true`.

/// Which defences are on. All of them, unless a harness says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defences {
    /// Scanning of replies, arguments and texts (attacks 2, 3, 8).
    pub scan: bool,
    /// Typed grammars of projected fields (attack 2).
    pub grammar: bool,
    /// Authentication of sealed values.
    pub seal: bool,
    /// The forbidden address ranges (attacks 28, 29).
    pub address: bool,
}

impl Default for Defences {
    fn default() -> Defences {
        Defences { scan: true, grammar: true, seal: true, address: true }
    }
}
