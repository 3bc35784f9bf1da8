//! The room itself: what [`Custody`] offers to the rooms above it, and the state behind it.

use crate::binding::Grants;
use crate::breaker::Breakers;
use crate::budget::Budgets;
use crate::defences::Defences;
use crate::errors::{CustodyError, DepositError, RegisterError, refusal};
use crate::keys::Keys;
use crate::message::{
    Answer, BudgetView, CredentialsId, Evidence, Exchange, Leak, Place, Refusal, Revision, UserDataId,
};
use crate::prepare::Prepared;
use crate::registry::{Provider, Registered};
use crate::scan::live::Live;
use crate::seal::Sealer;
use crate::secret::SecretBytes;
use crate::session::Sessions;
use crate::transport::connect::{Connector, Resolver};
use crate::transport::pool::Pool;
use crate::transport::tls;
use crate::vault::{CredentialDeposit, Identity, Vault, Watch};
use holdfast_manifest::Manifest;
use http::HeaderValue;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use zeroize::Zeroizing;

/// How custody is set up.
pub struct Options {
    /// Derives every other key by purpose. The default is random: then sealed values and fingerprints do not outlive
    /// the process.
    pub master_key: Zeroizing<[u8; 32]>,
    /// Sent with each request; visible ASCII.
    pub user_agent: String,
    /// How long replies are still scanned for a secret after it was revoked; default 10 minutes.
    pub grace: Duration,
    /// How long a session that nobody uses is kept before it is logged out of; default 60 seconds.
    pub session_idle: Duration,
    /// Turns single defences off, to show that they matter.
    #[cfg(any(test, feature = "harness"))]
    pub defences: Defences,
    /// Stands in for DNS.
    #[cfg(any(test, feature = "harness"))]
    pub resolver: Option<Resolver>,
}

impl Default for Options {
    fn default() -> Options {
        let mut master_key = Zeroizing::new([0; 32]);
        // Without randomness nothing here is safe, so nothing starts.
        let filled = SystemRandom::new().fill(&mut master_key[..]);
        assert!(filled.is_ok(), "the system has no randomness");
        Options {
            master_key,
            user_agent: concat!("holdfast/", env!("CARGO_PKG_VERSION")).to_owned(),
            grace: Duration::from_secs(600),
            session_idle: Duration::from_secs(60),
            #[cfg(any(test, feature = "harness"))]
            defences: Defences::default(),
            #[cfg(any(test, feature = "harness"))]
            resolver: None,
        }
    }
}

impl Options {
    #[cfg(any(test, feature = "harness"))]
    fn switches(&self) -> (Defences, Option<Resolver>) {
        (self.defences, self.resolver.clone())
    }

    #[cfg(not(any(test, feature = "harness")))]
    fn switches(&self) -> (Defences, Option<Resolver>) {
        (Defences::default(), None)
    }
}

/// The host's side of the wall. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Custody {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub keys: Keys,
    pub sealer: Sealer,
    pub fingerprint_key: hmac::Key,
    pub user_agent: HeaderValue,
    pub defences: Defences,
    pub grace: Duration,
    pub connector: Connector,
    pub pool: Pool,
    pub breakers: Breakers,
    pub budgets: Budgets,
    pub sessions: Sessions,
    vault: Mutex<Vault>,
    providers: RwLock<HashMap<Revision, Arc<Provider>>>,
    live: RwLock<HashMap<String, Arc<Live>>>,
}

impl Custody {
    pub fn new(options: Options) -> Result<Custody, CustodyError> {
        tls::self_check()?;
        let (defences, resolver) = options.switches();
        let keys = Keys::new(&options.master_key);
        let user_agent =
            crate::request::headers::value(&options.user_agent).ok_or(CustodyError::UserAgent)?;
        let sealer = Sealer::new(&keys, defences.seal);
        let inner = Inner {
            sealer: sealer.ok_or_else(|| CustodyError::Tls("no cipher".into()))?,
            fingerprint_key: keys.hmac("custody/fingerprint"),
            keys,
            user_agent,
            defences,
            grace: options.grace,
            connector: Connector { resolver, check_addresses: defences.address },
            pool: Pool::default(),
            breakers: Breakers::default(),
            budgets: Budgets::default(),
            sessions: Sessions::new(options.session_idle),
            vault: Mutex::default(),
            providers: RwLock::default(),
            live: RwLock::default(),
        };
        Ok(Custody { inner: Arc::new(inner) })
    }

    /// Takes a module's manifest with what the operator grants to it. Registering a revision again replaces it.
    pub fn register(
        &self,
        revision: Revision,
        manifest: Arc<Manifest>,
        grants: Grants,
    ) -> Result<Registered, RegisterError> {
        let (provider, registered) = Provider::new(revision.clone(), manifest, grants)?;
        let mut providers = self.inner.providers.write().unwrap_or_else(PoisonError::into_inner);
        if providers.insert(revision.clone(), Arc::new(provider)).is_some() {
            self.inner.pool.close(|key| key.revision == revision.0);
        }
        Ok(registered)
    }

    /// New calls of the revision are refused; calls in flight end; its sessions are logged out.
    pub fn unregister(&self, revision: &Revision) {
        self.inner.providers.write().unwrap_or_else(PoisonError::into_inner).remove(revision);
        self.inner.pool.close(|key| key.revision == revision.0);
        self.inner.end_sessions(|(of, _, _)| *of == revision.0, None);
    }

    /// Takes credentials into custody. The same bytes of the same account are one deposit, which is revoked as often
    /// as it was made. Other bytes of the account end the sessions and idle connections that the former bytes made.
    pub fn deposit_credentials(&self, deposit: CredentialDeposit) -> Result<CredentialsId, DepositError> {
        let provider = self.inner.provider(&deposit.revision).map_err(|_| DepositError::UnknownRevision)?;
        let live = self.inner.live(provider.name());
        let watch = Watch::new(&live, self.inner.grace);
        let deposited = self.inner.vault().deposit(&provider.manifest, &self.inner.keys, watch, deposit)?;
        if deposited.rotated {
            let Identity { account, digest } = &deposited.identity;
            let former = |of: &Identity| of.account == *account && of.digest != *digest;
            self.inner.pool.close(|key| key.identity.as_ref().is_some_and(former));
            self.inner.end_sessions(|(_, _, of)| of == account, Some(*digest));
        }
        Ok(deposited.id)
    }

    /// Wipes credentials once calls in flight and sessions made with them are done with them. Sessions outlive their
    /// deposit for a while, for the same bytes may be deposited again in a moment. Replies are scanned for the
    /// credentials until they are wiped, and for a grace.
    pub fn revoke_credentials(&self, id: CredentialsId) {
        let revoked = self.inner.vault().revoke(id);
        drop(revoked);
    }

    /// Takes one machine's first-boot data. `name` is shown in the evidence and may stand in replies.
    pub fn deposit_user_data(
        &self,
        revision: &Revision,
        name: &str,
        data: SecretBytes,
    ) -> Result<UserDataId, DepositError> {
        let provider = self.inner.provider(revision).map_err(|_| DepositError::UnknownRevision)?;
        let live = self.inner.live(provider.name());
        self.inner.vault().deposit_user_data(provider.name(), &live, name, data)
    }

    pub fn revoke_user_data(&self, id: UserDataId) {
        let revoked = self.inner.vault().revoke_user_data(id);
        let Some(data) = revoked else { return };
        self.inner.live(&data.provider).retire(data.watched, self.inner.grace);
    }

    /// Resolves the binding, checks and places the arguments, splices first-boot data, fingerprints. Nothing is sent.
    pub fn prepare(&self, exchange: Exchange) -> Result<Prepared, Refusal> {
        self.inner.prepare(exchange)
    }

    /// Sends a prepared request and judges what comes back. Dropping the future does not undo what was sent.
    pub async fn send(&self, prepared: Prepared) -> Answer {
        self.inner.send(prepared).await
    }

    /// Does a text hold a live secret of the provider (credentials, first-boot data, captures, and those revoked a
    /// short while ago) in any derived form?
    pub fn scan(&self, provider: &str, place: Place, text: &str) -> Result<(), Leak> {
        let leaks = self.inner.defences.scan && self.inner.live(provider).holds_secret(text);
        if leaks { Err(Leak { place }) } else { Ok(()) }
    }

    /// HMAC-SHA-256 under a key of this host and purpose, over length-prefixed parts.
    pub fn keyed(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        self.inner.keys.keyed(&format!("outer/{purpose}"), &parts)
    }

    /// How often each secret was spliced and caught, in order of their names.
    pub fn evidence(&self) -> Vec<Evidence> {
        let vault = self.inner.vault();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let all = vault.all_counts().map(|counts| Evidence {
            secret: counts.name.clone(),
            spliced: count(&counts.spliced),
            caught: count(&counts.caught),
        });
        all.collect()
    }

    /// What each account may ask of each origin now, in order of origins and accounts.
    pub fn budgets(&self) -> Vec<BudgetView> {
        let (mut views, held) = (self.inner.budgets.views(), self.inner.breakers.open());
        for view in &mut views {
            view.held_until = held.get(&(view.endpoint.clone(), view.account.clone())).copied();
        }
        views
    }

    /// Logs out of cached sessions, within ten seconds, and closes idle connections.
    pub async fn shutdown(&self) {
        self.inner.close_sessions().await;
        self.inner.pool.close(|_| true);
    }
}

impl Inner {
    pub fn vault(&self) -> MutexGuard<'_, Vault> {
        self.vault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn provider(&self, revision: &Revision) -> Result<Arc<Provider>, Refusal> {
        let providers = self.providers.read().unwrap_or_else(PoisonError::into_inner);
        providers.get(revision).cloned().ok_or_else(|| {
            refusal("unavailable", "RevisionNotRegistered", "this revision of the module is not registered")
        })
    }

    /// The live set of a provider; made at first use and kept.
    pub fn live(&self, provider: &str) -> Arc<Live> {
        if let Some(live) = self.live.read().unwrap_or_else(PoisonError::into_inner).get(provider) {
            return live.clone();
        }
        let mut all = self.live.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(provider.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
impl Custody {
    /// Closes idle connections, so that the next call connects anew.
    pub(crate) fn inner_pool_close(&self) {
        self.inner.pool.close(|_| true);
    }
}
