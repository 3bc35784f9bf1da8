//! Identities: providerIDs taken apart by the manifest's pattern, and the rule of hole H8.

use crate::failure::violation;
use crate::message::Violation;
use crate::session::Room;
use holdfast_manifest::{PatternPart, ProviderIdPattern};
use std::collections::BTreeMap;

/// Longest identity, in bytes.
const MAX_IDENTITY: usize = 1024;

/// Takes a providerID apart: resource kind to id. A hole ends where the literal behind it first occurs, or for the
/// last literal where it stands at the end; it holds no `/` and is not empty.
pub(crate) fn parse(pattern: &ProviderIdPattern, text: &str) -> Option<BTreeMap<String, String>> {
    if text.len() > MAX_IDENTITY || text.chars().any(char::is_control) {
        return None;
    }
    let mut ids = BTreeMap::new();
    let mut rest = text;
    let mut parts = pattern.parts.iter().peekable();
    while let Some(part) = parts.next() {
        match part {
            PatternPart::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            PatternPart::Hole(kind) => {
                let end = match parts.peek() {
                    None => rest.len(),
                    Some(PatternPart::Literal(literal)) => rest.find(literal.as_str())?,
                    // The grammar separates holes by literals.
                    Some(PatternPart::Hole(_)) => return None,
                };
                let (id, behind) = rest.split_at(end);
                if id.is_empty() || id.contains('/') {
                    return None;
                }
                ids.insert(kind.clone(), id.to_owned());
                rest = behind;
            }
        }
    }
    rest.is_empty().then_some(ids)
}

impl Room {
    /// The parts of an identity, if the manifest's pattern fits it.
    pub(crate) fn parts(&self, identity: Option<&str>) -> Option<BTreeMap<String, String>> {
        parse(self.manifest.provider.provider_id.as_ref()?, identity?)
    }

    /// Judges the identities of a result (hole H8) and gives back what is to be applied: `(new, cleanup)`.
    pub(crate) fn judge(
        &self,
        new: Option<String>,
        cleanup: Option<String>,
    ) -> Result<(Option<String>, Option<String>), Violation> {
        let current = self.context.provider_id.as_deref();
        let new = given(new).filter(|id| Some(id.as_str()) != current);
        if let Some(id) = &new {
            self.believe(id)?;
        }
        let cleanup = given(cleanup);
        if let Some(id) = &cleanup {
            self.believe_cleanup(id, new.as_deref().or(current))?;
        }
        Ok((new, cleanup))
    }

    /// Every part is the frozen current one, or made by an effect of this operation.
    fn believe(&self, id: &str) -> Result<(), Violation> {
        let created = self.created();
        let frozen = self.parts(self.context.frozen_provider_id.as_deref()).unwrap_or_default();
        let Some(parts) = self.parts(Some(id)) else {
            return Err(foreign("the new provider ID does not fit `provider-id` of provider.toml"));
        };
        for (kind, part) in &parts {
            let known = frozen.get(kind) == Some(part)
                || created.iter().any(|owned| owned.kind == *kind && owned.id == *part);
            if !known {
                return Err(foreign(&format!(
                    "its `{kind}` is neither the machine's own nor made by an effect of this operation"
                )));
            }
        }
        Ok(())
    }

    /// The frozen identity, or one that is owned; never what the machine is from now on (2(e) 13).
    fn believe_cleanup(&self, id: &str, becomes: Option<&str>) -> Result<(), Violation> {
        if becomes == Some(id) {
            return Err(foreign("the identity to clean up is the machine's own from now on"));
        }
        if self.context.frozen_provider_id.as_deref() == Some(id) {
            return Ok(());
        }
        let owned = self.owned();
        let frozen = self.parts(self.context.frozen_provider_id.as_deref()).unwrap_or_default();
        let Some(parts) = self.parts(Some(id)) else {
            return Err(foreign("the identity to clean up does not fit `provider-id` of provider.toml"));
        };
        let known = parts.iter().all(|(kind, part)| {
            frozen.get(kind) == Some(part) || owned.iter().any(|one| one.kind == *kind && one.id == *part)
        });
        if known {
            return Ok(());
        }
        Err(foreign("the identity to clean up is neither the machine's old one nor owned"))
    }
}

fn foreign(what: &str) -> Violation {
    violation("ForeignIdentity", format!("the result was refused: {what} (hole H8)"))
}

/// Blank is absent.
fn given(id: Option<String>) -> Option<String> {
    id.filter(|id| !id.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(parts: &[&str]) -> ProviderIdPattern {
        let part = |text: &&str| match text.strip_prefix('@') {
            Some(kind) => PatternPart::Hole(kind.to_owned()),
            None => PatternPart::Literal((*text).to_owned()),
        };
        ProviderIdPattern { text: parts.concat(), parts: parts.iter().map(part).collect() }
    }

    #[test]
    fn a_provider_id_comes_apart_by_its_anchored_pattern() {
        let cloud = pattern(&["cloud://", "@zone", "/", "@server"]);
        let ids = parse(&cloud, "cloud://z1/42").unwrap();
        assert_eq!((ids["zone"].as_str(), ids["server"].as_str()), ("z1", "42"));
        for bad in [
            "cloud://z1/",
            "cloud:///42",
            "cloud://z1/42/7",
            "Cloud://z1/42",
            "cloud://z1",
            "",
            "cloud://z\n/1",
        ] {
            assert_eq!(parse(&cloud, bad), None, "{bad:?}");
        }
        let suffixed = pattern(&["c:", "@server", ".host"]);
        assert_eq!(parse(&suffixed, "c:a.host").unwrap()["server"], "a");
        assert_eq!(parse(&suffixed, "c:a.host.evil"), None);
    }
}
