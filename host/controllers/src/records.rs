//! Who has a remote resource on record, or may be about to: asked of the API itself, page by page, before something is
//! done that rests on the answer. The indexes may be behind it.
//!
//! It walks everything: for what a person asks for, and no more often.

use std::time::Duration;

use holdfast_api::{EffectKind, Machine, MachineAllocation, MachineOperation, OwnedResource};
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::capacity::{CapacityDeps, HOST_ALLOCATE, HOST_RELEASE, Kind};
use crate::clock::add;
use crate::index::phase;

/// Objects of one page.
const PAGE: u32 = 500;
/// By how much the clocks of two daemons may differ.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// A remote resource that was listed under our marker.
pub(crate) struct Thing<'a> {
    pub provider: &'a str,
    pub kind: &'a str,
    pub id: &'a str,
    /// Since when it has been listed.
    pub first_seen: Timestamp,
}

/// What stands against taking a resource for nobody's. A sentence each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is on record.
    Recorded(String),
    /// Somebody may be about to record it.
    Pending(String),
}

impl Thing<'_> {
    fn is(&self, kind: &str, id: &str) -> bool {
        self.kind == kind && self.id == id
    }

    fn among(&self, owned: &[OwnedResource]) -> bool {
        owned.iter().any(|one| self.is(&one.kind, &one.id))
    }
}

impl CapacityDeps {
    /// Looks at every object of a kind until one answers.
    pub(crate) async fn find_any<K: Kind, T>(
        &self,
        mut look: impl FnMut(&K) -> Option<T>,
    ) -> Result<Option<T>, kube::Error> {
        let (api, mut params) = (self.api::<K>(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await?;
            if let Some(found) = page.items.iter().find_map(&mut look) {
                return Ok(Some(found));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(None),
            }
        }
    }

    /// What operations say of a resource: that they have made it, or that they may have. An operation journals a create
    /// before it is sent, so that only one that was begun before the resource was first seen can be the one that made it.
    pub(crate) async fn claimed_by_operation(&self, thing: &Thing<'_>) -> Result<Option<Claim>, kube::Error> {
        self.find_any(|operation: &MachineOperation| {
            made(operation, thing).or_else(|| may_make(operation, thing))
        })
        .await
    }

    /// Whether a machine owns a resource, or is it: machines that were made by hand have their host on no other record.
    pub(crate) async fn claimed_by_machine(
        &self,
        thing: &Thing<'_>,
        manifest: &Manifest,
    ) -> Result<Option<Claim>, kube::Error> {
        self.find_any(|machine: &Machine| {
            let owned = machine.status.as_ref().is_some_and(|status| thing.among(&status.owned_resources));
            (owned || names(machine, thing, manifest)).then(|| {
                Claim::Recorded(format!("the Machine {} has it; nothing was sent", machine.name_any()))
            })
        })
        .await
    }
}

/// Whether an allocation has a resource on record.
pub(crate) fn claimed_by(allocation: &MachineAllocation, thing: &Thing<'_>) -> Option<Claim> {
    let status = allocation.status.as_ref()?;
    let host = status.result.as_ref().is_some_and(|host| host.provider_resource_id == thing.id);
    let ours = status.provider.as_deref() == Some(thing.provider);
    (thing.among(&status.owned_resources) || (ours && host)).then(|| {
        let name = allocation.name_any();
        Claim::Recorded(format!(
            "the MachineAllocation {name} has it on record, and releases it when it is deleted; nothing was sent"
        ))
    })
}

/// An operation that is not over, or whose end nobody has taken over yet, has made it.
fn made(operation: &MachineOperation, thing: &Thing<'_>) -> Option<Claim> {
    if phase(operation).is_terminal() && operation.finalizers().is_empty() {
        return None;
    }
    let status = operation.status.as_ref()?;
    let mut created = status.effects.iter().flat_map(|effect| &effect.created);
    let has = thing.among(&status.owned_resources) || created.any(|one| thing.is(&one.kind, &one.id));
    has.then(|| {
        Claim::Recorded(format!("the operation {} has it on record; nothing was sent", operation.name_any()))
    })
}

fn may_make(operation: &MachineOperation, thing: &Thing<'_>) -> Option<Claim> {
    let status = operation.status.as_ref().filter(|_| !phase(operation).is_terminal())?;
    let input = status.target.as_ref()?.input.as_ref()?;
    let kind = operation.spec.operation_kind.as_str();
    let creates = kind == HOST_ALLOCATE
        || (kind != HOST_RELEASE && status.effects.iter().any(|effect| effect.effect == EffectKind::Create));
    let before = status.started_at.as_ref().is_none_or(|at| at.0 <= add(thing.first_seen, SKEW));
    (creates && before && input.provider == thing.provider).then(|| {
        Claim::Pending(format!(
            "the operation {} was begun before it was seen, is not over yet, and may have made it",
            operation.name_any()
        ))
    })
}

/// Whether the identity of a machine names a resource.
fn names(machine: &Machine, thing: &Thing<'_>, manifest: &Manifest) -> bool {
    let host = &machine.spec.host.external;
    let pattern = manifest.provider.provider_id.as_ref().filter(|_| host.provider == thing.provider);
    let parts = pattern.zip(host.provider_id.as_deref()).and_then(|(pattern, id)| pattern.parse(id));
    parts.is_some_and(|parts| parts.get(thing.kind).is_some_and(|id| id == thing.id))
}
