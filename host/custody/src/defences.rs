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

#[cfg(any(test, feature = "harness"))]
impl Defences {
    /// All defences but the named ones (`"scan,address"`), for a harness that starts a whole daemon. `None` for a name
    /// that there is not: a typo must not let a harness believe that it turned something off.
    pub fn without(names: &str) -> Option<Defences> {
        let mut defences = Defences::default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let defence = match name {
                "scan" => &mut defences.scan,
                "grammar" => &mut defences.grammar,
                "seal" => &mut defences.seal,
                "address" => &mut defences.address,
                _ => return None,
            };
            *defence = false;
        }
        Some(defences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harness_names_what_it_turns_off() {
        assert_eq!(Defences::without(""), Some(Defences::default()));
        assert_eq!(
            Defences::without("scan, address"),
            Some(Defences { scan: false, address: false, ..Defences::default() })
        );
        assert_eq!(Defences::without("scam"), None);
    }
}
