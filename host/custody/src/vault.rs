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

/// One deposited set.
pub(crate) struct Credentials {
    pub id: CredentialsId,
    pub provider: String,
    pub name: String,
    pub account: String,
    /// Keyed digest of all keys and values: tells whether the bytes changed, and nothing else.
    pub digest: [u8; 32],
    pub values: BTreeMap<String, Value>,
    watched: Vec<Watched>,
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

/// What is deposited now.
#[derive(Default)]
pub(crate) struct Vault {
    next: u64,
    credentials: HashMap<u64, (Arc<Credentials>, u32)>,
    user_data: HashMap<u64, Arc<UserData>>,
    counts: BTreeMap<String, Arc<Counts>>,
}

impl Vault {
    /// The counters of a name; the same name counts on.
    pub fn counts(&mut self, name: String) -> Arc<Counts> {
        self.counts.entry(name.clone()).or_insert_with(|| Counts::new(name)).clone()
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
        live: &Live,
        deposit: CredentialDeposit,
    ) -> Result<CredentialsId, DepositError> {
        check_keys(manifest, &deposit.values)?;
        let digest = digest(keys, manifest, &deposit);
        let same =
            |c: &Credentials| c.digest == digest && c.account == deposit.account && c.name == deposit.name;
        if let Some((credentials, count)) = self.credentials.values_mut().find(|(c, _)| same(c)) {
            *count += 1;
            return Ok(credentials.id);
        }
        let mut values = BTreeMap::new();
        let mut watched = Vec::new();
        for (key, bytes) in deposit.values {
            let Some(declared) = manifest.credentials.get(&key) else { continue };
            let counts = self.counts(format!("{}/{key}", deposit.name));
            let derived = match &declared.kind {
                CredentialKind::JsonFile { from_file } => split(&key, &bytes, from_file)?,
                CredentialKind::Text | CredentialKind::Pem => Vec::new(),
            };
            if !declared.public {
                match declared.kind {
                    CredentialKind::Text => watched.push(live.watch(&counts, Kind::Value, &bytes, "")),
                    CredentialKind::Pem => watch_lines(live, &counts, &bytes, &mut watched),
                    CredentialKind::JsonFile { .. } => {
                        watched.push(live.watch(&counts, Kind::Document, &bytes, ""));
                    }
                }
            }
            for (name, bytes) in derived {
                let counts = self.counts(format!("{}/{name}", deposit.name));
                if !declared.public && bytes.len() >= FLOOR {
                    if bytes.expose().contains(&b'\n') {
                        watch_lines(live, &counts, &bytes, &mut watched);
                    } else {
                        watched.push(live.watch(&counts, Kind::Value, &bytes, ""));
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
        let (name, account) = (deposit.name, deposit.account);
        let credentials = Credentials { id, provider, name, account, digest, values, watched };
        self.credentials.insert(id.0, (Arc::new(credentials), 1));
        Ok(id)
    }

    /// Gives one deposit back; returns the set and what was watched once nobody holds it.
    pub fn revoke(&mut self, id: CredentialsId) -> Option<Arc<Credentials>> {
        let (_, count) = self.credentials.get_mut(&id.0)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.credentials.remove(&id.0).map(|(credentials, _)| credentials)
    }

    pub fn deposit_user_data(
        &mut self,
        provider: &str,
        live: &Live,
        name: &str,
        bytes: SecretBytes,
    ) -> Result<UserDataId, DepositError> {
        if bytes.len() == 0 {
            return Err(DepositError::Empty { name: name.to_owned() });
        }
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

impl Credentials {
    pub fn watched(&self) -> &[Watched] {
        &self.watched
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

/// A key file: each line but its armour is a secret of its own.
fn watch_lines(live: &Live, counts: &Arc<Counts>, file: &SecretBytes, watched: &mut Vec<Watched>) {
    for line in file.expose().split(|b| matches!(b, b'\n' | b'\r')) {
        let line = line.trim_ascii();
        if line.len() >= FLOOR && !line.starts_with(b"-----") {
            watched.push(live.watch(counts, Kind::Value, &SecretBytes::copy_of(line), ""));
        }
    }
}
