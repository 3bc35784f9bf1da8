//! Identities: what a result may make of a machine (hole H8).

use crate::failure::violation;
use crate::message::Violation;
use crate::session::Room;
use std::collections::BTreeMap;

/// Longest identity, in bytes.
const MAX_IDENTITY: usize = 2048;

impl Room {
    /// The parts of an identity, if the manifest's pattern fits it.
    pub(crate) fn parts(&self, identity: Option<&str>) -> Option<BTreeMap<String, String>> {
        let identity = identity.filter(|text| text.len() <= MAX_IDENTITY)?;
        self.manifest.provider.provider_id.as_ref()?.parse(identity)
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

    /// Judges what the machine of an allocation is from now on: the given identity, or the planned locator that stays
    /// (hole H8). Parts are owned, or words of the plan that name nothing which anybody makes, such as a zone.
    pub(crate) fn judge_host(&self, given: Option<&str>) -> Result<(), Violation> {
        let planned = self.context.frozen_provider_id.as_deref();
        let parts = match (given, self.parts(given.or(planned))) {
            (_, Some(parts)) => parts,
            (Some(_), None) if self.manifest.provider.provider_id.is_some() => {
                return Err(foreign("the provider ID does not fit `provider-id` of provider.toml"));
            }
            // A locator without parts is nobody's, and gives no right to anything.
            (_, None) => return Ok(()),
        };
        let (owned, planned) = (self.owned(), self.parts(planned).unwrap_or_default());
        let mut ours = false;
        for (kind, part) in &parts {
            let made = owned.iter().any(|one| one.kind == *kind && one.id == *part);
            ours |= made;
            let worded = planned.get(kind) == Some(part) && self.names_nothing_made(kind, part);
            if !made && !worded {
                return Err(foreign(&format!("its `{kind}` was not made by an effect of this allocation")));
            }
        }
        match ours {
            true => Ok(()),
            false => Err(foreign("the provider ID names nothing that this allocation made")),
        }
    }

    /// A part of a locator that is no resource: no call makes its kind, and where a call may be aimed at it, the host
    /// knows the word itself.
    fn names_nothing_made(&self, kind: &str, part: &str) -> bool {
        let calls = || self.manifest.calls.values();
        if calls().any(|call| call.creates.contains_key(kind) || call.adopts.contains_key(kind)) {
            return false;
        }
        let context = &self.context;
        let offering = context.offering.as_ref();
        let known = [
            offering.and_then(|one| one.zone.as_deref()),
            offering.map(|one| one.instance_type.as_str()),
            context.host_name.as_deref(),
            Some(context.site.as_str()),
        ];
        let aimed = calls()
            .filter(|call| call.effect.mutates())
            .flat_map(|call| call.args.values())
            .any(|arg| arg.on.as_deref() == Some(kind));
        !aimed || known.contains(&Some(part)) || context.config.values().any(|value| value == part)
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
