//! The vault: deposited credentials and first-boot data, counted, watched for by the scanner, wiped when revoked.

use crate::errors::DepositError;
use crate::keys::Keys;
use crate::message::{CredentialsId, Revision, UserDataId};
use crate::reply::document::{Doc, parse};
use crate::request::headers;
use crate::request::slots::bare_holes;
use crate::scan::live::{Counts, Live, Watched};
use crate::scan::{FLOOR, Kind};
use crate::secret::SecretBytes;
use holdfast_manifest::{Auth, CredentialKind, Manifest, Place, Pointer, SlotKind, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Credentials as they are handed over.
pub struct CredentialDeposit {
    pub revision: Revision,
    /// Shown to operators.
    pub name: String,
    /// Uid of the secret object: budgets, sessions and the breaker are keyed by it.
    pub account: String,
    pub values: BTreeMap<String, SecretBytes>,
}

/// One usable value: deposited, or split out of a file.
pub(crate) struct Value {
    pub bytes: SecretBytes,
    pub counts: Arc<Counts>,
}

/// An account and the keyed digest of its bytes, which tells whether they changed and nothing else. Sessions and
/// connections belong to it and not to a deposit: deposits of the same bytes come and go.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub account: String,
    pub digest: [u8; 32],
}

/// One deposited set.
pub(crate) struct Credentials {
    pub id: CredentialsId,
    pub provider: String,
    pub name: String,
    pub identity: Identity,
    pub values: BTreeMap<String, Value>,
    _watch: Watch,
}

/// Replies are scanned for what it names as long as it lives, and for a grace after that.
pub(crate) struct Watch {
    live: Arc<Live>,
    grace: Duration,
    watched: Vec<Watched>,
}

impl Watch {
    pub fn new(live: &Arc<Live>, grace: Duration) -> Watch {
        Watch { live: live.clone(), grace, watched: Vec::new() }
    }

    pub fn over(&mut self, counts: &Arc<Counts>, kind: Kind, secret: &SecretBytes) {
        self.watched.push(self.live.watch(counts, kind, secret, ""));
    }

    /// A key file: each line but its armour is a secret of its own.
    fn over_lines(&mut self, counts: &Arc<Counts>, file: &SecretBytes) {
        for line in file.expose().split(|b| matches!(b, b'\n' | b'\r')) {
            let line = line.trim_ascii();
            if line.len() >= FLOOR && !line.starts_with(b"-----") {
                self.over(counts, Kind::Value, &SecretBytes::copy_of(line));
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.iter().for_each(|watched| self.live.retire(*watched, self.grace));
    }
}

/// What came of a deposit.
pub(crate) struct Deposited {
    pub id: CredentialsId,
    pub identity: Identity,
    /// Other bytes of the account were deposited before these.
    pub rotated: bool,
}

impl Credentials {
    pub fn value(&self, key: &str) -> Option<&SecretBytes> {
        self.values.get(key).map(|value| &value.bytes)
    }
}

/// One machine's first-boot data.
pub(crate) struct UserData {
    pub provider: String,
    pub bytes: SecretBytes,
    pub counts: Arc<Counts>,
    pub watched: Watched,
}

/// How many names are counted before the first look for those that nobody holds any more.
const MANY_COUNTS: usize = 1024;

/// What is deposited now.
#[derive(Default)]
pub(crate) struct Vault {
    next: u64,
    credentials: HashMap<u64, (Arc<Credentials>, u32)>,
    /// The bytes of each account that were deposited last, by their digest.
    current: HashMap<String, [u8; 32]>,
    user_data: HashMap<u64, Arc<UserData>>,
    counts: BTreeMap<String, Arc<Counts>>,
    prune_at: usize,
}

impl Vault {
    /// The counters of a name; the same name counts on. Each machine that ever boots has one, so that once there are
    /// many, those of secrets that are neither deposited nor scanned for any more are forgotten (attack A10).
    pub fn counts(&mut self, name: String) -> Arc<Counts> {
        if let Some(counts) = self.counts.get(&name) {
            return counts.clone();
        }
        if self.counts.len() >= self.prune_at.max(MANY_COUNTS) {
            self.counts.retain(|_, counts| Arc::strong_count(counts) > 1);
            self.prune_at = self.counts.len() * 2;
        }
        let counts = Counts::new(name.clone());
        self.counts.insert(name, counts.clone());
        counts
    }

    pub fn all_counts(&self) -> impl Iterator<Item = &Arc<Counts>> {
        self.counts.values()
    }

    pub fn credentials(&self, id: CredentialsId) -> Option<Arc<Credentials>> {
        self.credentials.get(&id.0).map(|(credentials, _)| credentials.clone())
    }

    pub fn user_data(&self, id: UserDataId) -> Option<Arc<UserData>> {
        self.user_data.get(&id.0).cloned()
    }

    /// Checks and takes a set. The same bytes of the same account are one deposit, counted.
    pub fn deposit(
        &mut self,
        manifest: &Manifest,
        keys: &Keys,
        mut watch: Watch,
        deposit: CredentialDeposit,
    ) -> Result<Deposited, DepositError> {
        check_keys(manifest, &deposit.values)?;
        let digest = digest(keys, manifest, &deposit);
        let identity = Identity { account: deposit.account, digest };
        let same = |c: &Credentials| c.identity == identity && c.name == deposit.name;
        if let Some((credentials, count)) = self.credentials.values_mut().find(|(c, _)| same(c)) {
            *count += 1;
            let id = credentials.id;
            return Ok(self.deposited(id, identity));
        }
        let mut values = BTreeMap::new();
        for (key, bytes) in deposit.values {
            let Some(declared) = manifest.credentials.get(&key) else { continue };
            let counts = self.counts(format!("{}/{key}", deposit.name));
            let derived = match &declared.kind {
                CredentialKind::JsonFile { from_file } => split(&key, &bytes, from_file)?,
                CredentialKind::Text | CredentialKind::Pem => Vec::new(),
            };
            if !declared.public {
                match declared.kind {
                    CredentialKind::Text => watch.over(&counts, Kind::Value, &bytes),
                    CredentialKind::Pem => watch.over_lines(&counts, &bytes),
                    CredentialKind::JsonFile { .. } => watch.over(&counts, Kind::Document, &bytes),
                }
            }
            for (name, bytes) in derived {
                let counts = self.counts(format!("{}/{name}", deposit.name));
                if !declared.public && bytes.len() >= FLOOR {
                    if bytes.expose().contains(&b'\n') {
                        watch.over_lines(&counts, &bytes);
                    } else {
                        watch.over(&counts, Kind::Value, &bytes);
                    }
                }
                values.insert(name, Value { bytes, counts });
            }
            values.insert(key, Value { bytes, counts });
        }
        check_headers(manifest, &values)?;
        self.next += 1;
        let id = CredentialsId(self.next);
        let provider = manifest.provider.name.clone();
        let name = deposit.name;
        let credentials =
            Credentials { id, provider, name, identity: identity.clone(), values, _watch: watch };
        self.credentials.insert(id.0, (Arc::new(credentials), 1));
        Ok(self.deposited(id, identity))
    }

    /// Notes the account's newest bytes.
    fn deposited(&mut self, id: CredentialsId, identity: Identity) -> Deposited {
        if self.current.len() > 2 * self.credentials.len() + 1024 {
            let deposited: BTreeSet<&str> =
                self.credentials.values().map(|(c, _)| c.identity.account.as_str()).collect();
            self.current.retain(|account, _| deposited.contains(account.as_str()));
        }
        let before = self.current.insert(identity.account.clone(), identity.digest);
        Deposited { id, rotated: before.is_some_and(|before| before != identity.digest), identity }
    }

    /// Were other bytes deposited for the account since?
    pub fn superseded(&self, identity: &Identity) -> bool {
        self.current.get(&identity.account).is_some_and(|digest| *digest != identity.digest)
    }

    /// Gives one deposit back; returns the set once nobody holds it, to be dropped without the lock.
    pub fn revoke(&mut self, id: CredentialsId) -> Option<Arc<Credentials>> {
        let (_, count) = self.credentials.get_mut(&id.0)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.credentials.remove(&id.0).map(|(credentials, _)| credentials)
    }

    /// An empty deposit is data that a machine boots without: it leaves its slot's place unwritten.
    pub fn deposit_user_data(
        &mut self,
        provider: &str,
        live: &Live,
        name: &str,
        bytes: SecretBytes,
    ) -> Result<UserDataId, DepositError> {
        let counts = self.counts(format!("first-boot data of {name}"));
        // The machine's own name may stand in its data and in replies.
        let public = name.rsplit('/').next().unwrap_or(name);
        let watched = live.watch(&counts, Kind::Document, &bytes, public);
        self.next += 1;
        let data = UserData { provider: provider.to_owned(), bytes, counts, watched };
        self.user_data.insert(self.next, Arc::new(data));
        Ok(UserDataId(self.next))
    }

    pub fn revoke_user_data(&mut self, id: UserDataId) -> Option<Arc<UserData>> {
        self.user_data.remove(&id.0)
    }
}

fn check_keys(manifest: &Manifest, values: &BTreeMap<String, SecretBytes>) -> Result<(), DepositError> {
    for (key, declared) in &manifest.credentials {
        if declared.required && !values.contains_key(key) {
            return Err(DepositError::Missing { key: key.clone() });
        }
    }
    for (key, value) in values {
        let Some(declared) = manifest.credentials.get(key) else {
            let known = manifest.credentials.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(DepositError::Unknown { key: key.clone(), known });
        };
        if !declared.public && value.len() < FLOOR {
            return Err(DepositError::TooShort { key: key.clone() });
        }
    }
    Ok(())
}

/// Values that stand bare in a header must be able to (attack 33).
fn check_headers(manifest: &Manifest, values: &BTreeMap<String, Value>) -> Result<(), DepositError> {
    let mut bare = BTreeSet::new();
    for auth in manifest.endpoints.values().flat_map(|endpoint| endpoint.auth.values()) {
        if let Auth::Put { put } | Auth::Session { put, .. } = auth {
            for (place, format) in put {
                if let Place::Header(_) = place {
                    bare.extend(bare_holes(&format.0));
                }
            }
        }
        if let Auth::Sigv4(signed) = auth {
            bare.extend([Some(signed.id.as_str()), signed.session.as_deref()].into_iter().flatten());
        }
    }
    for slot in manifest.calls.values().flat_map(|call| call.slots.values()) {
        if let (SlotKind::Credential(format), Place::Header(_)) = (&slot.kind, &slot.at) {
            bare.extend(bare_holes(&format.0));
        }
    }
    match values
        .iter()
        .find(|(key, value)| bare.contains(key.as_str()) && !headers::fits(value.bytes.expose()))
    {
        Some((key, _)) => Err(DepositError::NotAHeader { key: key.clone() }),
        None => Ok(()),
    }
}

fn digest(keys: &Keys, manifest: &Manifest, deposit: &CredentialDeposit) -> [u8; 32] {
    let mut parts: Vec<&[u8]> = vec![manifest.provider.name.as_bytes()];
    for (key, value) in &deposit.values {
        parts.extend([key.as_bytes(), value.expose()]);
    }
    keys.keyed("custody/credential-digest", &parts)
}

/// A service account file's parts.
fn split(
    key: &str,
    file: &SecretBytes,
    from_file: &BTreeMap<String, Pointer>,
) -> Result<Vec<(String, SecretBytes)>, DepositError> {
    let refuse = |why: String| DepositError::NotAFile { key: key.to_owned(), why };
    let doc = parse(file.expose()).ok_or_else(|| refuse("it is not JSON".into()))?;
    let mut out = Vec::new();
    for (name, pointer) in from_file {
        let found = pointer.0.iter().try_fold(&doc, |doc, step| match (step, doc) {
            (Step::Key(key), Doc::Map(map)) => map.get(key.as_str()),
            _ => None,
        });
        match found {
            Some(Doc::Text(text)) if !text.as_str().is_empty() => {
                out.push((name.clone(), SecretBytes::copy_of(text.as_str().as_bytes())));
            }
            _ => return Err(refuse(format!("it has no text for `{name}`"))),
        }
    }
    Ok(out)
}
