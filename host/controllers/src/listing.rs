//! What the service lists under our marker, by the manifest's `list-owned`: the host's own read, with no guest in it.
//!
//! Each thing comes with the token that it bears and with the binding that it was listed by: what is taken over is
//! known under that one alone.

use holdfast_api::{MachineClass, OperationInput};
use holdfast_effects::{CallError, CallRequest, Owner, OwnerKind, Phase};
use holdfast_manifest::{Call, Manifest};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::capacity::CapacityDeps;
use crate::rooms::ProviderModule;

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub kind: String,
    pub id: String,
    pub token: String,
    pub binding: String,
    /// Where the binding points.
    pub place: Option<String>,
    /// What tells it from another that is given the same id later, where the manifest names that (A29).
    pub incarnation: Option<String>,
}

/// The call that lists, if the provider has one.
pub(crate) fn list_owned(manifest: &Manifest) -> Option<&Call> {
    manifest.provider.list_owned.as_ref().and_then(|name| manifest.calls.get(name))
}

impl CapacityDeps {
    /// Everything that is listed for a class: all pages or none.
    ///
    /// # Errors
    /// One sentence: there are no credentials, or the service did not answer as declared.
    pub(crate) async fn listed(
        &self,
        class: &MachineClass,
        module: &dyn ProviderModule,
    ) -> Result<Vec<Listed>, String> {
        let (spec, uid) = (&class.spec, class.uid().unwrap_or_default());
        let input = OperationInput {
            provider: spec.provider.clone(),
            site: spec.site_name.clone(),
            ..OperationInput::default()
        };
        let (manifest, revision, now) = (module.manifest(), module.revision(), self.now());
        let call = list_owned(&manifest).cloned().ok_or("the provider's manifest names no `list-owned`")?;
        let lent = self.credentials.resolve(&input, &manifest, &revision, now).await;
        let lent = lent.map_err(|error| error.to_string())?;
        let owner = Owner { kind: OwnerKind::Cluster, uid };
        let timeout = self.settings.poll_timeout;
        let mut context = self.context(module, Phase::Observe, owner, &spec.site_name, timeout);
        context.credentials = lent.id();
        context.config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
        let session = self.effects.open(context, manifest, None);
        let request = CallRequest {
            call: call.name.clone(),
            args: "{}".to_owned(),
            credentials: lent.id().is_some(),
            user_data: Vec::new(),
        };
        let (reply, at) = session.read_at(request).await.map_err(|error| match error {
            CallError::Failure(failure) => failure.message,
            CallError::Violation(violation) => violation.message,
        })?;
        let fields: Value = serde_json::from_str(&reply.fields).map_err(|error| error.to_string())?;
        let mut listed = Vec::new();
        for (kind, adopt) in &call.adopts {
            let incarnation = call.incarnation.get(kind).map(Vec::as_slice);
            pairs(&fields, [&adopt.field, &adopt.proof], incarnation, &mut |id, token, incarnation| {
                let (binding, place) = (at.binding.clone(), at.place.clone());
                listed.push(Listed { kind: kind.clone(), id, token, binding, place, incarnation });
            });
        }
        Ok(listed)
    }
}

/// The id and the token of every item, and its incarnation. The paths go through the same lists; what bears no token is a
/// stranger's.
fn pairs(
    value: &Value,
    [id, token]: [&[String]; 2],
    incarnation: Option<&[String]>,
    found: &mut dyn FnMut(String, String, Option<String>),
) {
    match (id, token) {
        ([a, id @ ..], [b, token @ ..]) if a == b => {
            let incarnation = incarnation.and_then(|path| path.split_first().filter(|(step, _)| *step == a));
            let incarnation = incarnation.map(|(_, rest)| rest);
            if a != "*" {
                return pairs(&value[a.as_str()], [id, token], incarnation, found);
            }
            for item in value.as_array().into_iter().flatten() {
                pairs(item, [id, token], incarnation, found);
            }
        }
        _ => {
            let text = |path: &[String]| {
                let value = path.iter().try_fold(value, |value, step| value.get(step.as_str()))?;
                value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()))
            };
            if let (Some(id), Some(token)) = (text(id), text(token)) {
                found(id, token, incarnation.and_then(text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(path: &str) -> Vec<String> {
        path.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn ids_and_tokens_are_paired_item_by_item_and_strangers_are_left_alone() {
        let fields = json!({ "all": [
            { "servers": [
                { "id": "s1", "token": "t1", "made": { "at": "noon" } },
                { "id": 7, "token": "t2" },
                { "id": "stranger" },
            ] },
            { "servers": [] },
        ] });
        let [id, token, made] =
            ["id", "token", "made/at"].map(|field| steps(&format!("all/*/servers/*/{field}")));
        let found = |incarnation: Option<&[String]>| {
            let mut found = Vec::new();
            pairs(&fields, [&id, &token], incarnation, &mut |id, token, made| found.push((id, token, made)));
            found
        };
        let one = |id: &str, token: &str, made: Option<&str>| {
            (id.to_owned(), token.to_owned(), made.map(str::to_owned))
        };
        assert_eq!(found(Some(&made)), [one("s1", "t1", Some("noon")), one("7", "t2", None)]);
        assert_eq!(found(None), [one("s1", "t1", None), one("7", "t2", None)]);
    }
}
