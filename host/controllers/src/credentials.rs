//! Credentials (2(b).4): which secret a callback is lent, read freshly each time so that a rotation takes effect.
//! A machine's own reference comes first where endpoints are per machine, then that of (site, provider); at each place
//! the daemon's configuration comes before the store.
//!
//! Values go from the store into the vault and nowhere else, byte for byte (R2.31). A deposit is kept as long as the
//! very same secret is wanted, and revoked when it is replaced or unused.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_api::{
    AuthMode, CREDENTIAL_SECRET_TYPE, Machine, OperationInput, PROVIDER_LABEL, ProviderCredential,
    SITE_LABEL, SYSTEM_NAMESPACE, SecretReference,
};
use holdfast_custody::{CredentialsId, Revision};
use holdfast_manifest::{Manifest, Per, Pointer, Step};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret as CoreSecret;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::clock::add;
use crate::index::CredentialIndex;
use crate::inputs::machine_object;
use crate::rooms::{CredentialOverlay, OverlaySecret, Secret, Vault};

/// How often a secret is read for one callback while others deposit other versions of it.
const READS: u32 = 5;
/// Deposits that nobody asked for this long are revoked.
const UNUSED: Duration = Duration::from_secs(15 * 60);

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Something about the objects must change.
    #[error("{reason}: {message}")]
    Refused {
        /// `AuthInvalid`, `AuthNotFound`, `AuthAmbiguous`, `AuthSecretForbidden` or `AuthSecretNotFound`.
        reason: &'static str,
        /// One sentence.
        message: String,
    },
    /// The API did not answer.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The module is being swapped.
    #[error("{0}")]
    Later(String),
}

fn refused(reason: &'static str, message: impl Into<String>) -> AuthError {
    AuthError::Refused { reason, message: message.into() }
}

/// Credentials that are lent while this lives.
#[derive(Clone)]
pub struct Lent(Option<Arc<Deposit>>);

impl Lent {
    /// The number to lend, or none for workload identity.
    pub fn id(&self) -> Option<CredentialsId> {
        self.0.as_ref().map(|deposit| deposit.id)
    }
}

/// Revoked when the cache and every callback have let it go.
struct Deposit {
    vault: Arc<dyn Vault>,
    id: CredentialsId,
}

impl Drop for Deposit {
    fn drop(&mut self) {
        self.vault.revoke_credentials(self.id);
    }
}

struct Cached {
    /// Uid and resourceVersion of the secret, or the overlay's version.
    version: String,
    deposit: Arc<Deposit>,
    /// Its place in the row of deposits.
    number: u64,
    used: Timestamp,
}

#[derive(Default)]
struct Cache {
    /// By the secret's name.
    entries: HashMap<(String, Revision), Cached>,
    deposits: u64,
}

/// Finds credentials and deposits them. Copies share their deposits.
#[derive(Clone)]
pub struct Credentials {
    client: Client,
    index: Arc<CredentialIndex>,
    overlay: Arc<dyn CredentialOverlay>,
    vault: Arc<dyn Vault>,
    cache: Arc<Mutex<Cache>>,
}

impl Credentials {
    /// Credentials out of a store, under an overlay, into a vault.
    pub fn new(
        client: Client,
        index: Arc<CredentialIndex>,
        overlay: Arc<dyn CredentialOverlay>,
        vault: Arc<dyn Vault>,
    ) -> Self {
        Self { client, index, overlay, vault, cache: Arc::default() }
    }

    /// The credentials of one callback.
    ///
    /// # Errors
    /// See [`AuthError`].
    pub async fn resolve(
        &self,
        input: &OperationInput,
        manifest: &Manifest,
        revision: &Revision,
        now: Timestamp,
    ) -> Result<Lent, AuthError> {
        for _ in 0..READS {
            let before = self.cache().deposits;
            let Some(found) = self.find(input, manifest).await? else { return Ok(Lent(None)) };
            if let Some(lent) = self.deposit(revision, found, before, now)? {
                return Ok(lent);
            }
        }
        Err(AuthError::Later("the secret changed each time that it was read".to_owned()))
    }

    /// The secret as it is now; none for workload identity.
    async fn find(&self, input: &OperationInput, manifest: &Manifest) -> Result<Option<Found>, AuthError> {
        let own = own_reference(input, manifest);
        if own.is_none()
            && let Some(secret) = self.overlay.by_site(&input.provider, &input.site)
        {
            return Ok(Some(Found::from(secret)));
        }
        let reference = match own {
            Some(name) => SecretReference { namespace: None, name },
            None => match self.reference(input).await? {
                Some(reference) => reference,
                None => return Ok(None),
            },
        };
        let namespace = reference.namespace.as_deref().unwrap_or(SYSTEM_NAMESPACE);
        if namespace != SYSTEM_NAMESPACE {
            return Err(refused(
                "AuthSecretForbidden",
                format!(
                    "the secret {namespace}/{} is outside of {SYSTEM_NAMESPACE}; only secrets there may be lent",
                    reference.name
                ),
            ));
        }
        match self.overlay.by_name(&input.provider, &reference.name) {
            Some(secret) => Ok(Some(Found::from(secret))),
            None => self.stored(&reference.name, &input.provider).await.map(Some),
        }
    }

    /// The secret of (site, provider); none for workload identity.
    async fn reference(&self, input: &OperationInput) -> Result<Option<SecretReference>, AuthError> {
        let (site, provider) = (&input.site, &input.provider);
        let mut found = self.index.of(site, provider);
        if found.len() != 1 {
            // The watch may be a moment behind, and this answer may end an operation: ask the API itself.
            let api: Api<ProviderCredential> = Api::all(self.client.clone());
            let all = api.list(&ListParams::default()).await?.items.into_iter();
            let fits = |c: &ProviderCredential| c.spec.site_name == *site && c.spec.provider == *provider;
            found = all.filter(fits).map(Arc::new).collect();
        }
        let [credential] = found.as_slice() else {
            return Err(if found.is_empty() {
                refused(
                    "AuthNotFound",
                    format!("no ProviderCredential has siteName {site} and provider {provider}"),
                )
            } else {
                let names: Vec<String> = found.iter().map(|c| c.name_any()).collect();
                refused(
                    "AuthAmbiguous",
                    format!("several ProviderCredentials are for {provider} at {site}: {}", names.join(", ")),
                )
            });
        };
        let auth = &credential.spec.auth;
        match (auth.mode, &auth.secret_ref) {
            (AuthMode::WorkloadIdentity, _) => Ok(None),
            (AuthMode::ExternalPlugin, Some(reference)) if !reference.name.trim().is_empty() => {
                Ok(Some(reference.clone()))
            }
            (AuthMode::ExternalPlugin, _) => Err(refused(
                "AuthInvalid",
                format!("the ProviderCredential {} needs spec.auth.secretRef", credential.name_any()),
            )),
        }
    }

    async fn stored(&self, name: &str, provider: &str) -> Result<Found, AuthError> {
        let api: Api<CoreSecret> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let Some(secret) = api.get_opt(name).await? else {
            return Err(refused(
                "AuthSecretNotFound",
                format!("there is no secret {SYSTEM_NAMESPACE}/{name}"),
            ));
        };
        let typed = secret.type_.as_deref() == Some(CREDENTIAL_SECRET_TYPE);
        let labelled = secret.labels().get(PROVIDER_LABEL).is_some_and(|allowed| allowed == provider);
        let (uid, version) =
            (secret.uid().unwrap_or_default(), secret.resource_version().unwrap_or_default());
        // Into wiping buffers before anything else can fail.
        let values: BTreeMap<String, Secret> = secret
            .data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, bytes)| (key, Secret::new(bytes.0)))
            .collect();
        if !typed || !labelled {
            return Err(forbidden(name, provider));
        }
        Ok(Found { name: name.to_owned(), version: format!("{uid}/{version}"), account: uid, values })
    }

    /// `before` is how many deposits there were when the secret was about to be read. Another version deposited since
    /// may be the newer one: then there is nothing to lend, and the secret is to be read again. A late reader who put
    /// the former bytes back would end the session that the new ones have made, and try the former ones once more.
    fn deposit(
        &self,
        revision: &Revision,
        found: Found,
        before: u64,
        now: Timestamp,
    ) -> Result<Option<Lent>, AuthError> {
        let mut cache = self.cache();
        cache.entries.retain(|_, cached| add(cached.used, UNUSED) > now);
        let other = |((name, _), cached): (&(String, Revision), &Cached)| {
            *name == found.name && cached.version != found.version && cached.number > before
        };
        if cache.entries.iter().any(other) {
            return Ok(None);
        }
        let key = (found.name.clone(), revision.clone());
        if let Some(cached) = cache.entries.get_mut(&key)
            && cached.version == found.version
        {
            cached.used = now;
            return Ok(Some(Lent(Some(cached.deposit.clone()))));
        }
        let id = self
            .vault
            .deposit_credentials(revision, &found.name, &found.account, found.values)
            .map_err(|error| match error.transient {
                true => AuthError::Later(error.message),
                false => refused("AuthInvalid", error.message),
            })?;
        let deposit = Arc::new(Deposit { vault: self.vault.clone(), id });
        cache.deposits += 1;
        let number = cache.deposits;
        cache
            .entries
            .insert(key, Cached { version: found.version, deposit: deposit.clone(), number, used: now });
        Ok(Some(Lent(Some(deposit))))
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Found {
    name: String,
    /// Budgets belong to the credential's uid.
    account: String,
    version: String,
    values: BTreeMap<String, Secret>,
}

impl From<OverlaySecret> for Found {
    fn from(secret: OverlaySecret) -> Self {
        Self {
            account: format!("config/{}", secret.name),
            version: format!("config/{}", secret.version),
            name: secret.name,
            values: secret.values,
        }
    }
}

fn forbidden(name: &str, provider: &str) -> AuthError {
    refused(
        "AuthSecretForbidden",
        format!(
            "the secret {SYSTEM_NAMESPACE}/{name} may not be lent to {provider}: it must be of type \
             {CREDENTIAL_SECRET_TYPE} and carry the label {PROVIDER_LABEL}: {provider}"
        ),
    )
}

/// The site of a machine, from its label.
///
/// # Errors
/// `AuthInvalid` without one.
pub fn site_of(machine: &Machine) -> Result<String, AuthError> {
    match machine.labels().get(SITE_LABEL).map(|site| site.trim()) {
        Some(site) if !site.is_empty() => Ok(site.to_owned()),
        _ => Err(refused(
            "AuthInvalid",
            format!("the machine {} has no label {SITE_LABEL} that names its site", machine.name_any()),
        )),
    }
}

/// The secret that a machine object names itself, where an endpoint of the provider is per machine.
fn own_reference(input: &OperationInput, manifest: &Manifest) -> Option<String> {
    let object = machine_object(input.provider_ref.as_ref()?);
    manifest.endpoints.values().find_map(|endpoint| match &endpoint.per {
        Per::Machine { credential: Some(pointer), .. } => {
            let name = at(&object, pointer)?.as_str()?.trim();
            (!name.is_empty()).then(|| name.to_owned())
        }
        _ => None,
    })
}

fn at<'a>(value: &'a Value, pointer: &Pointer) -> Option<&'a Value> {
    pointer.0.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            other => other.get(key),
        },
        Step::Where { key, is } => {
            value.as_array()?.iter().find(|item| item.get(key).and_then(Value::as_str) == Some(is))
        }
        Step::Every => None,
    })
}
