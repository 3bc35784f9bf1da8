//! What operations write to their `Machine`: the new identity, and what it owns.
//!
//! Every write is a compare-and-swap and re-reads on a conflict; a machine made anew under the same name (edge case
//! 15 of 2(e)) is never written to.

use holdfast_api::{Machine, OwnedResource};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// How often a conflict is met by reading again.
const TRIES: usize = 10;

/// Reads and writes machines.
#[derive(Clone)]
pub struct Machines {
    api: Api<Machine>,
}

/// A change of a machine's status.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Name of the operation that holds the machine from now on.
    pub taken_by: Option<String>,
    /// Name of the operation that holds it no longer.
    pub left_by: Option<String>,
    /// Resources that the machine owns.
    pub owned: Vec<OwnedResource>,
    /// Resources, by kind and id, that are no more.
    pub released: Vec<(String, String)>,
}

/// Why a machine was not written.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// There is no machine of this name and uid any more.
    #[error("machine {0} is gone, or was made anew under the same name")]
    Gone(String),
    /// The API refuses this identity for good.
    #[error("the API refuses the new identity of machine {name}: {message}")]
    Refused {
        /// Name of the machine.
        name: String,
        /// The API's words.
        message: String,
    },
    /// The API did not answer, or conflicts did not end.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Machines {
    /// Machines behind a client.
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client) }
    }

    /// A machine by name.
    ///
    /// # Errors
    /// When the API doesn't answer.
    pub async fn get(&self, name: &str) -> Result<Option<Machine>, kube::Error> {
        self.api.get_opt(name).await
    }

    async fn of(&self, name: &str, uid: &str) -> Result<Machine, MachineError> {
        let machine = self.api.get_opt(name).await?;
        machine
            .filter(|machine| machine.metadata.uid.as_deref() == Some(uid))
            .ok_or_else(|| MachineError::Gone(name.to_owned()))
    }

    /// Writes a new identity and returns the machine's generation after that. An equal identity is not written
    /// (edge case 12).
    ///
    /// # Errors
    /// See [`MachineError`].
    pub async fn set_provider_id(
        &self,
        name: &str,
        uid: &str,
        id: Option<&str>,
    ) -> Result<i64, MachineError> {
        let mut tries = 0;
        loop {
            let machine = self.of(name, uid).await?;
            let current = machine.spec.host.external.provider_id.as_deref();
            let Some(id) = id.filter(|id| Some(*id) != current) else {
                return Ok(machine.metadata.generation.unwrap_or_default());
            };
            let patch = json!({
                "metadata": { "resourceVersion": machine.resource_version(), "uid": uid },
                "spec": { "host": { "external": { "providerID": id } } },
            });
            match self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(written) => return Ok(written.metadata.generation.unwrap_or_default()),
                Err(error) if crate::is_status(&error, 409) && tries < TRIES => tries += 1,
                Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                    return Err(MachineError::Refused {
                        name: name.to_owned(),
                        message: status.message.clone(),
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Changes what the machine's status says of operations and of what it owns. Writes nothing that is there already.
    ///
    /// # Errors
    /// See [`MachineError`].
    pub async fn record(&self, name: &str, uid: &str, change: &Change) -> Result<(), MachineError> {
        let mut tries = 0;
        loop {
            let mut machine = self.of(name, uid).await?;
            let mut status = machine.status.clone().unwrap_or_default();
            if change.taken_by.is_some() {
                status.current_operation.clone_from(&change.taken_by);
            }
            if change.left_by.is_some() && status.current_operation == change.left_by {
                status.current_operation = None;
            }
            for resource in &change.owned {
                if !status.owned_resources.iter().any(|have| have.is(resource)) {
                    status.owned_resources.push(resource.clone());
                }
            }
            status.owned_resources.retain(|owned| {
                !change.released.iter().any(|(kind, id)| owned.kind == *kind && owned.id == *id)
            });
            if status == machine.status.clone().unwrap_or_default() {
                return Ok(());
            }
            machine.status = Some(status);
            match self.api.replace_status(name, &PostParams::default(), &machine).await {
                Ok(_) => return Ok(()),
                Err(error) if crate::is_status(&error, 409) && tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
