//! The record of one operation, and the journal in it: every write is a compare-and-swap on `resourceVersion`.
//!
//! One record per operation lives as long as anything works on it, the exchange of a guest that was cut off included,
//! so that all writes of this daemon go through one place. The write of an intent is the fence (architecture, Effects).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use holdfast_api::{MachineOperation, MachineOperationStatus, Resolve};
use holdfast_effects::{Effect, Journal, JournalError};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};

use super::status::{add_owned, differ_in_meaning, target};
use crate::index::OperationIndex;
use crate::rooms::Fence;

/// How often a conflict is met by reading again, and an outcome is tried to be written.
const TRIES: u32 = 8;

/// Why a record was not written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// This daemon may not write: it lost its lease, or the operation is another one now.
    #[error("fenced: {0}")]
    Fenced(String),
    /// The operation is gone.
    #[error("the operation is gone")]
    Gone,
    /// The API did not answer, or refused.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// An effect doesn't fit the API's type.
    #[error("an effect could not be converted: {0}")]
    Shape(#[from] serde_json::Error),
}

/// One operation as last read or written.
pub struct Record {
    api: Api<MachineOperation>,
    index: Arc<OperationIndex>,
    fence: Arc<dyn Fence>,
    name: String,
    uid: String,
    latest: Mutex<Arc<MachineOperation>>,
    writing: tokio::sync::Mutex<()>,
    /// An intent was refused since this was last asked.
    fenced: AtomicBool,
}

impl Record {
    /// The operation as last read or written.
    pub fn latest(&self) -> Arc<MachineOperation> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn saw(&self, operation: MachineOperation) -> Arc<MachineOperation> {
        let operation = Arc::new(operation);
        self.index.seen(operation.clone());
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = operation.clone();
        operation
    }

    async fn read_again(&self) -> Result<Arc<MachineOperation>, RecordError> {
        let fresh = Box::pin(self.api.get_opt(&self.name)).await?.ok_or(RecordError::Gone)?;
        if fresh.metadata.uid.as_deref() != Some(&self.uid) {
            return Err(RecordError::Gone);
        }
        Ok(self.saw(fresh))
    }

    /// Whether an intent was refused since the last question.
    pub fn take_fenced(&self) -> bool {
        self.fenced.swap(false, Ordering::SeqCst)
    }

    /// An intent was refused.
    pub(super) fn fence_off(&self) {
        self.fenced.store(true, Ordering::SeqCst);
    }

    fn may_write(&self, operation: &MachineOperation) -> Result<(), RecordError> {
        if !self.fence.held() {
            return Err(RecordError::Fenced("this daemon does not hold the lease".to_owned()));
        }
        let theirs = operation.status.as_ref().and_then(|s| s.lease_epoch).unwrap_or_default();
        if theirs > self.fence.epoch() {
            return Err(RecordError::Fenced(format!("epoch {theirs} of another daemon is newer")));
        }
        Ok(())
    }

    /// Changes the status. Nothing is written when nothing but messages would change. On a conflict the change is made
    /// again on what is there now.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn update(
        &self,
        change: impl Fn(&MachineOperation, &mut MachineOperationStatus),
    ) -> Result<Arc<MachineOperation>, RecordError> {
        let _one = self.writing.lock().await;
        let mut tries = 0;
        loop {
            let latest = self.latest();
            self.may_write(&latest)?;
            let old = latest.status.clone().unwrap_or_default();
            let mut new = old.clone();
            change(&latest, &mut new);
            if latest.status.is_some() && !differ_in_meaning(&old, &new) {
                return Ok(latest);
            }
            match Box::pin(self.put(&latest, new)).await {
                Ok(written) => return Ok(self.saw(written)),
                Err(error) if crate::is_status(&error, 409) && tries < TRIES => {
                    tries += 1;
                    self.read_again().await?;
                }
                Err(error) if crate::is_status(&error, 404) => return Err(RecordError::Gone),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Changes finalizers by compare-and-swap.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn set_finalizer(&self, finalizer: &str, wanted: bool) -> Result<(), RecordError> {
        let _one = self.writing.lock().await;
        let mut tries = 0;
        loop {
            let latest = self.latest();
            if latest.finalizers().iter().any(|have| have == finalizer) == wanted {
                return Ok(());
            }
            self.may_write(&latest)?;
            let mut changed = (*latest).clone();
            if wanted {
                changed.finalizers_mut().push(finalizer.to_owned());
            } else {
                changed.finalizers_mut().retain(|have| have != finalizer);
            }
            match Box::pin(self.api.replace(&self.name, &PostParams::default(), &changed)).await {
                Ok(written) => {
                    self.saw(written);
                    return Ok(());
                }
                Err(error) if crate::is_status(&error, 409) && tries < TRIES => {
                    tries += 1;
                    self.read_again().await?;
                }
                // The last finalizer of a deleted object: it is gone with it.
                Err(error) if crate::is_status(&error, 404) => return Err(RecordError::Gone),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes a person's used word out of `spec.resolve`, so that it answers no doubt but the one it was said to. A
    /// word that was changed meanwhile is another word, and stays.
    ///
    /// # Errors
    /// See [`RecordError`]; nothing may be sent while the word is still there.
    pub(crate) async fn consume(&self, word: &Resolve) -> Result<(), RecordError> {
        let _one = self.writing.lock().await;
        let mut tries = 0;
        loop {
            let latest = self.latest();
            if latest.spec.resolve.as_ref() != Some(word) {
                return Ok(());
            }
            self.may_write(&latest)?;
            let patch = serde_json::json!({
                "metadata": { "uid": self.uid, "resourceVersion": latest.metadata.resource_version },
                "spec": { "resolve": null },
            });
            match Box::pin(self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))).await {
                Ok(written) => {
                    self.saw(written);
                    return Ok(());
                }
                Err(error) if crate::is_status(&error, 409) && tries < TRIES => {
                    tries += 1;
                    self.read_again().await?;
                }
                Err(error) if crate::is_status(&error, 404) => return Err(RecordError::Gone),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether every effect in the record can be read. One that can't must not look as if it had never been intended.
    ///
    /// # Errors
    /// [`RecordError::Shape`] for the first effect that this version can't read.
    pub(crate) fn readable(&self) -> Result<(), RecordError> {
        all_readable(&self.latest())
    }

    async fn put(
        &self,
        latest: &MachineOperation,
        status: MachineOperationStatus,
    ) -> Result<MachineOperation, kube::Error> {
        let mut object = latest.clone();
        object.status = Some(status);
        // Boxed, as other futures that are awaited in many places: each place would hold all of it.
        Box::pin(self.api.replace_status(&self.name, &PostParams::default(), &object)).await
    }

    async fn intend_inner(&self, effect: &Effect) -> Result<(), RecordError> {
        let _one = self.writing.lock().await;
        let mut tries = 0;
        loop {
            let latest = self.latest();
            self.may_write(&latest)?;
            all_readable(&latest)?;
            let status = with_effect(&latest, effect)?;
            let error = match self.put(&latest, status.clone()).await {
                Ok(written) => {
                    self.saw(written);
                    return Ok(());
                }
                Err(error) => error,
            };
            if !crate::is_status(&error, 409) || tries == TRIES {
                return Err(error.into());
            }
            tries += 1;
            let fresh = self.read_again().await?;
            if effects(&fresh) == status.effects && guards(&fresh) == guards(&latest) {
                // Our own write of a moment ago, whose answer was lost.
                return Ok(());
            }
            if guards(&fresh) != guards(&latest) || effects(&fresh) != effects(&latest) {
                return Err(RecordError::Fenced(
                    "the operation was cancelled, deleted, resolved or taken over".to_owned(),
                ));
            }
        }
    }

    async fn settle_inner(&self, effect: &Effect) -> Result<(), RecordError> {
        let _one = self.writing.lock().await;
        let mut tries = 0;
        loop {
            let latest = self.latest();
            let status = with_effect(&latest, effect)?;
            let error = match self.put(&latest, status).await {
                Ok(written) => {
                    self.saw(written);
                    return Ok(());
                }
                Err(error) => error,
            };
            tries += 1;
            if tries > TRIES {
                return Err(error.into());
            }
            let known = find(effects(&latest), &effect.key);
            if !crate::is_status(&error, 409) {
                // The outcome is known and must not be lost for a moment's trouble.
                tokio::time::sleep(Duration::from_millis(20 << tries)).await;
            }
            let fresh = match self.read_again().await {
                Ok(fresh) => fresh,
                Err(RecordError::Api(_)) => continue,
                Err(other) => return Err(other),
            };
            let stored = find(effects(&fresh), &effect.key);
            if stored == find(&with_effect(&latest, effect)?.effects, &effect.key) {
                return Ok(());
            }
            if stored != known {
                return Err(RecordError::Fenced(format!(
                    "effect {} was changed by somebody else",
                    effect.key
                )));
            }
        }
    }
}

#[async_trait::async_trait]
impl Journal for Record {
    fn effects(&self) -> Vec<Effect> {
        // No call begins, and no intent is written, over an effect that can't be read (`readable`).
        let latest = self.latest();
        effects(&latest).iter().filter_map(|effect| from_api(effect).ok()).collect()
    }

    async fn intend(&self, effect: Effect) -> Result<(), JournalError> {
        self.intend_inner(&effect).await.map_err(|error| {
            let error = journal_error(error);
            if matches!(error, JournalError::Fenced(_)) {
                self.fence_off();
            }
            error
        })
    }

    async fn settle(&self, effect: Effect) -> Result<(), JournalError> {
        self.settle_inner(&effect).await.map_err(journal_error)
    }

    fn epoch(&self) -> i64 {
        self.fence.epoch()
    }
}

fn journal_error(error: RecordError) -> JournalError {
    match error {
        RecordError::Fenced(why) => JournalError::Fenced(why),
        RecordError::Gone => JournalError::Fenced("the operation is gone".to_owned()),
        RecordError::Api(error) => JournalError::Unavailable(error.to_string()),
        RecordError::Shape(error) => JournalError::Unavailable(error.to_string()),
    }
}

fn effects(operation: &MachineOperation) -> &[holdfast_api::Effect] {
    operation.status.as_ref().map_or(&[], |status| &status.effects)
}

fn all_readable(operation: &MachineOperation) -> Result<(), RecordError> {
    for effect in effects(operation) {
        from_api(effect)?;
    }
    Ok(())
}

fn find<'a>(effects: &'a [holdfast_api::Effect], key: &str) -> Option<&'a holdfast_api::Effect> {
    effects.iter().find(|effect| effect.key == key)
}

/// What must not have changed for an intent to go on over a conflict.
fn guards(operation: &MachineOperation) -> impl PartialEq + use<> {
    (
        operation.metadata.uid.clone(),
        operation.metadata.deletion_timestamp.clone(),
        operation.spec.cancel,
        operation.spec.resolve.clone(),
        operation.status.as_ref().and_then(|status| status.lease_epoch),
    )
}

/// The status with an effect put in, and what it created added to what is owned: by the allocation, if the operation
/// serves one, else by the operation.
fn with_effect(
    operation: &MachineOperation,
    effect: &Effect,
) -> Result<MachineOperationStatus, serde_json::Error> {
    let allocation = target(operation).and_then(|t| t.input.as_ref()?.allocation.as_ref());
    let own = operation.metadata.uid.as_deref().unwrap_or_default();
    let owner = allocation.map_or(own, |allocation| allocation.uid.as_str());
    let mut status = operation.status.clone().unwrap_or_default();
    let stored = to_api(effect)?;
    match status.effects.iter_mut().find(|have| have.key == stored.key) {
        Some(have) => *have = stored,
        None => status.effects.push(stored),
    }
    add_owned(&mut status, &effect.created, owner);
    Ok(status)
}

/// The API's type of an effect. Times are cut to whole seconds, as objects keep them.
pub(crate) fn to_api(effect: &Effect) -> Result<holdfast_api::Effect, serde_json::Error> {
    let mut effect: holdfast_api::Effect = serde_json::from_value(serde_json::to_value(effect)?)?;
    let cut = |at: &mut holdfast_api::Time| *at = holdfast_api::whole_seconds(at.0);
    cut(&mut effect.intended_at);
    cut(&mut effect.first_intended_at);
    effect.settled_at.iter_mut().chain(effect.absent_since.iter_mut()).for_each(cut);
    Ok(effect)
}

/// The journal's type of an effect.
pub(crate) fn from_api(effect: &holdfast_api::Effect) -> Result<Effect, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(effect)?)
}

/// The records that something works on.
pub(crate) struct Records {
    api: Api<MachineOperation>,
    index: Arc<OperationIndex>,
    fence: Arc<dyn Fence>,
    by_uid: Mutex<HashMap<String, Weak<Record>>>,
}

impl Records {
    pub(crate) fn new(api: Api<MachineOperation>, index: Arc<OperationIndex>, fence: Arc<dyn Fence>) -> Self {
        Self { api, index, fence, by_uid: Mutex::default() }
    }

    /// The record of an operation that was just read.
    pub(crate) fn open(&self, operation: MachineOperation) -> Arc<Record> {
        let uid = operation.uid().unwrap_or_default();
        let mut by_uid = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = by_uid.get(&uid).and_then(Weak::upgrade) {
            if !crate::index::older(&operation, &record.latest()) {
                record.saw(operation);
            }
            return record;
        }
        by_uid.retain(|_, record| record.strong_count() > 0);
        let operation = Arc::new(operation);
        self.index.seen(operation.clone());
        let record = Arc::new(Record {
            api: self.api.clone(),
            index: self.index.clone(),
            fence: self.fence.clone(),
            name: operation.name_any(),
            uid: uid.clone(),
            latest: Mutex::new(operation),
            writing: tokio::sync::Mutex::default(),
            fenced: AtomicBool::default(),
        });
        by_uid.insert(uid, Arc::downgrade(&record));
        record
    }
}
