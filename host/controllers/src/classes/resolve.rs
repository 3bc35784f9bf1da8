//! The question to the provider, and its answer as offerings.

use holdfast_api::{MachineClass, Offering, OperationInput, Time};
use holdfast_effects::{Callback, ClassOffering, ClassRequest, Lend, Owner, OwnerKind, Phase, Returned};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::Classes;
use crate::capacity::{Flow, Stop, Trouble};
use crate::credentials::AuthError;
use crate::operations::StepError;
use crate::rooms::ProviderModule;

impl Classes {
    /// Asks the provider. The answer was checked by the effects room; its order is the provider's, and is kept.
    pub(super) async fn resolve(
        &self,
        class: &MachineClass,
        module: &dyn ProviderModule,
    ) -> Flow<Result<Vec<Offering>, Trouble>> {
        let (spec, uid) = (&class.spec, class.uid().unwrap_or_default());
        let input = OperationInput {
            provider: spec.provider.clone(),
            site: spec.site_name.clone(),
            ..OperationInput::default()
        };
        let (manifest, revision, now) = (module.manifest(), module.revision(), self.deps.now());
        let lent = match self.deps.credentials.resolve(&input, &manifest, &revision, now).await {
            Ok(lent) => lent,
            Err(AuthError::Api(error)) => return Err(error.into()),
            Err(AuthError::Later(message)) => return Err(Stop::Failed(StepError::Later(message))),
            Err(AuthError::Refused { reason, message }) => {
                let message = format!("{reason}: {message}");
                return Err(self.wait_growing(class, super::status::no_credentials(message)).await);
            }
        };
        let config = class.status.as_ref().and_then(|status| status.config.clone()).unwrap_or_default();
        let owner = Owner { kind: OwnerKind::Cluster, uid: uid.clone() };
        let timeout = self.deps.settings.poll_timeout;
        let mut context = self.deps.context(module, Phase::Observe, owner, &spec.site_name, timeout);
        context.credentials = lent.id();
        context.config.clone_from(&config);
        let request = ClassRequest {
            class_name: class.name_any(),
            class_uid: uid,
            site_name: spec.site_name.clone(),
            config: config.into_iter().collect(),
        };
        let lend = Lend { credentials: lent.id().is_some(), user_data: false };
        let callback = Callback::ResolveClass { request, lend };
        Ok(match self.deps.ask(module, "resolve-class", context, callback).await {
            Ok(Returned::ResolveClass(Ok(offerings))) => offerings.into_iter().map(kept).collect(),
            Ok(Returned::ResolveClass(Err(failure))) => Err(Trouble::told(failure, "ResolveFailed")),
            Ok(_) => Err(Trouble::wrong_answer()),
            Err(trouble) => Err(trouble),
        })
    }
}

/// An offering as objects keep it.
fn kept(offering: ClassOffering) -> Result<Offering, Trouble> {
    let until: Timestamp = offering.valid_until.parse().map_err(|_| Trouble {
        reason: "BadOffering".to_owned(),
        message: format!("valid-until of the offering {} is no time in RFC 3339", offering.name),
        ..Trouble::wrong_answer()
    })?;
    Ok(Offering {
        name: offering.name,
        instance_type: offering.instance_type,
        zone: offering.zone,
        resources: offering.resources.into_iter().collect(),
        available: offering.available,
        // Cut, not rounded: never later than the provider said.
        valid_until: Time(Timestamp::from_second(until.as_second()).unwrap_or(until)),
        attributes: offering.attributes.into_iter().collect(),
    })
}
