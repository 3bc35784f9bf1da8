//! `Provider` objects: what the daemon knows of its modules, written when it changes and at no other time.

use std::collections::BTreeSet;

use holdfast_api::{ConditionStatus, NewCondition, Provider, ProviderSpec, ProviderState, conditions};
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};

use crate::clock::stamp;
use crate::rooms::ModuleReport;

/// Writes `Provider` objects.
pub struct Publisher {
    api: Api<Provider>,
}

impl Publisher {
    /// A publisher behind a client.
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client) }
    }

    /// Makes the objects say what the reports say. Objects of providers that are gone are deleted.
    ///
    /// # Errors
    /// When the API doesn't answer; what was written stays, the rest is written with the next call.
    pub async fn publish(&self, reports: Vec<ModuleReport>, now: Timestamp) -> Result<(), kube::Error> {
        let there = self.api.list(&ListParams::default()).await?.items;
        let named: BTreeSet<String> = reports.iter().map(|report| report.name.clone()).collect();
        for stale in there.iter().filter(|provider| !named.contains(&provider.name_any())) {
            match self.api.delete(&stale.name_any(), &DeleteParams::default()).await {
                Ok(_) => {}
                Err(error) if crate::is_status(&error, 404) => {}
                Err(error) => return Err(error),
            }
        }
        for report in reports {
            let old = there.iter().find(|provider| provider.name_any() == report.name).cloned();
            self.write(old, report, now).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        old: Option<Provider>,
        report: ModuleReport,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let mut object = match old {
            Some(object) => object,
            None => {
                let new = Provider::new(&report.name, ProviderSpec::default());
                match self.api.create(&PostParams::default(), &new).await {
                    Ok(object) => object,
                    // A file whose name is no name of an object: told in the log, since there's no object to tell it.
                    Err(error) if crate::is_status(&error, 422) => {
                        tracing::warn!(provider = %report.name, %error, "no Provider object can have this name");
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let mut status = report.status;
        status.conditions = object.status.as_ref().map(|old| old.conditions.clone()).unwrap_or_default();
        let ready = matches!(status.state, ProviderState::Ready | ProviderState::Unbound);
        let refusal = status.last_refusal.as_ref();
        let (reason, message) = match status.state {
            ProviderState::Ready => ("Serving", String::new()),
            ProviderState::Unbound => {
                ("EndpointsUnbound", "calls to endpoints that no binding serves fail".to_owned())
            }
            ProviderState::Loading => ("Loading", String::new()),
            ProviderState::PendingApproval => {
                ("PendingApproval", "the operator has not approved its calls".to_owned())
            }
            ProviderState::Refused => {
                ("Refused", refusal.map(|refusal| refusal.reason.clone()).unwrap_or_default())
            }
        };
        let condition = NewCondition {
            type_: "Ready",
            status: ConditionStatus::from(ready),
            reason,
            message: &message,
            observed_generation: object.metadata.generation,
        };
        conditions::set(&mut status.conditions, condition, stamp(now));
        if object.status.as_ref() == Some(&status) {
            return Ok(());
        }
        object.status = Some(status);
        self.api.replace_status(&report.name, &PostParams::default(), &object).await.map(drop)
    }
}
