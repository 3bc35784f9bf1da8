//! Create, update, patch and delete, with optimistic concurrency: each reads the committed state, computes the
//! next one, and writes it on the condition that the state is still the same.

use serde_json::{Value, json};

use super::admit::must_match;
use super::{Api, FieldValidation, Object, Outcome, shown, store_error};
use crate::index::{ObjectKey, Stored};
use crate::metadata;
use crate::patch::{self, PatchType};
use crate::registry::Kind;
use crate::selector::Selector;
use crate::status::ApiError;
use crate::writer::{Action, Expect, Write, WriteError};

/// How often a write that names no version is tried anew when another one came first.
const RETRIES: usize = 16;
/// Namespaces that can't be deleted.
pub(crate) const FIXED_NAMESPACES: [&str; 3] = ["default", holdfast_api::SYSTEM_NAMESPACE, "kube-system"];

/// Options of a create, update or patch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// Whether the status is written, and nothing else, or everything but the status.
    pub(crate) status: bool,
}

/// Options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

impl Api {
    /// Creates an object.
    pub(crate) async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        mut object: Value,
        duplicates: &[String],
        options: WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let warnings = self.shape(kind, &mut object, duplicates, options.validation)?;
        check_path(kind, &object, namespace, None)?;
        self.check_namespace(kind, namespace)?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty() && v != "0") {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        if kind.status && kind.custom {
            object.as_object_mut().map(|o| o.remove("status"));
        }
        let given = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let base = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        let tries = if given.is_empty() && !base.is_empty() { 8 } else { 1 };
        for _ in 0..tries {
            let name = if tries == 1 { given.clone() } else { metadata::generate_name(&base) };
            let mut object = object.clone();
            if let Some(meta) = metadata::of(&mut object) {
                metadata::stamp_new(meta, kind, namespace, &name, self.stamps.now());
            }
            self.check(kind, &mut object, None)?;
            let key = ObjectKey { namespace: namespace.to_owned(), name };
            match self.put(kind, &key, Expect::Absent, object, options.dry_run).await {
                Err(WriteError::Moved) if tries > 1 => {}
                Err(WriteError::Moved) => return Err(ApiError::already_exists(kind, &key.name)),
                Err(error) => return Err(store_error(error, kind, &key.name)),
                Ok(object) => return Ok(Outcome { code: 201, object, warnings, deleted: false }),
            }
        }
        Err(ApiError::already_exists(kind, &base))
    }

    /// Replaces an object.
    pub(crate) async fn update(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        mut object: Value,
        duplicates: &[String],
        options: WriteOptions,
    ) -> Result<Outcome, ApiError> {
        let warnings = self.shape(kind, &mut object, duplicates, options.validation)?;
        check_path(kind, &object, &key.namespace, Some(&key.name))?;
        let asked = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if asked.is_empty() && kind.custom {
            self.current(kind, key)?;
            let cause = crate::status::Cause::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            return Err(ApiError::invalid(kind, &key.name, &[cause]));
        }
        for _ in 0..RETRIES {
            let current = self.current(kind, key)?;
            if !asked.is_empty() && asked != current.version.to_string() {
                return Err(ApiError::modified(kind, &key.name));
            }
            match self.replace(kind, &current, object.clone(), options).await {
                Some(result) => return result.map(|outcome| Outcome { warnings, ..outcome }),
                None if !asked.is_empty() => return Err(ApiError::modified(kind, &key.name)),
                None => {}
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }

    /// Patches an object.
    pub(crate) async fn patch(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        patch: (PatchType, &Value),
        duplicates: &[String],
        options: WriteOptions,
    ) -> Result<Outcome, ApiError> {
        for _ in 0..RETRIES {
            let current = self.current(kind, key)?;
            let before = shown(kind, &current);
            let mut object = before.clone();
            patch::apply(patch.0, &mut object, patch.1)?;
            let warnings = self.shape(kind, &mut object, duplicates, options.validation)?;
            check_path(kind, &object, &key.namespace, Some(&key.name))?;
            let asked = &object["metadata"]["resourceVersion"];
            let versioned = patch.1["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
            if asked.as_str().is_some_and(|v| !v.is_empty())
                && *asked != before["metadata"]["resourceVersion"]
            {
                return Err(ApiError::modified(kind, &key.name));
            }
            match self.replace(kind, &current, object, options).await {
                Some(result) => return result.map(|outcome| Outcome { warnings, ..outcome }),
                None if versioned => break,
                None => {}
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }

    /// Writes the next state of an object over a known one. `None` if another write came first.
    async fn replace(
        &self,
        kind: &Kind,
        current: &Stored,
        mut object: Value,
        options: WriteOptions,
    ) -> Option<Result<Outcome, ApiError>> {
        let before = shown(kind, current);
        let uid = before["metadata"]["uid"].as_str().unwrap_or_default();
        if must_match("metadata.uid", &object["metadata"]["uid"], uid).is_some() {
            let asked = object["metadata"]["uid"].as_str().unwrap_or_default();
            let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}");
            return Some(Err(ApiError::conflict(kind, &current.key.name, &why)));
        }
        if options.status {
            let status = object["status"].take();
            object = before.clone();
            set_or_remove(&mut object, "status", status);
        } else {
            if kind.status {
                set_or_remove(&mut object, "status", before["status"].clone());
            }
            if let Some(meta) = metadata::of(&mut object) {
                metadata::carry_over(meta, &before["metadata"]);
            }
        }
        if let Err(error) = self.check(kind, &mut object, Some(&before)) {
            return Some(Err(error));
        }
        if object == before {
            return Some(Ok(outcome(Object::Value(object), false)));
        }
        if kind.custom && differs_in_meaning(&object, &before) {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let expect = Expect::Version(current.version);
        let gone = is_released(&object);
        let result = if gone {
            self.remove(kind, &current.key, expect, object, options.dry_run).await
        } else {
            self.put(kind, &current.key, expect, object, options.dry_run).await
        };
        match result {
            Ok(object) => Some(Ok(outcome(object, gone))),
            Err(WriteError::Moved) => None,
            Err(error) => Some(Err(store_error(error, kind, &current.key.name))),
        }
    }

    /// Deletes an object; one with finalizers is marked and stays until they are gone.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Outcome, ApiError> {
        if kind.plural == "namespaces" && kind.group.is_empty() {
            self.empty_namespace(kind, key, options).await?;
        }
        for _ in 0..RETRIES {
            let current = self.current(kind, key)?;
            let mut object = shown(kind, &current);
            check_preconditions(kind, key, &object, options)?;
            let held = object["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
            if held && !object["metadata"]["deletionTimestamp"].is_null() {
                return Ok(outcome(Object::Value(object), false));
            }
            let expect = Expect::Version(current.version);
            let result = if held {
                object["metadata"]["deletionTimestamp"] = self.stamps.now().into();
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                if let Some(generation) = object["metadata"]["generation"].as_i64() {
                    object["metadata"]["generation"] = (generation + 1).into();
                }
                self.put(kind, key, expect, object, options.dry_run).await
            } else {
                self.remove(kind, key, expect, object, options.dry_run).await
            };
            match result {
                Ok(object) => return Ok(outcome(object, !held)),
                Err(WriteError::Moved) => {}
                Err(error) => return Err(store_error(error, kind, &key.name)),
            }
        }
        Err(ApiError::modified(kind, &key.name))
    }

    /// Deletes every object that is selected; returns them.
    pub(crate) async fn delete_collection(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteOptions,
    ) -> Result<Vec<Value>, ApiError> {
        let (objects, _) = self.index.list(kind.storage, namespace);
        let selected = objects.iter().filter(|o| selector.matches(o));
        let mut deleted = Vec::new();
        for object in selected {
            match self.delete(kind, &object.key, options).await {
                Ok(outcome) => deleted.push(outcome.object.decode(kind)),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    /// Deletes what a namespace holds; refuses if something must stay.
    async fn empty_namespace(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        if FIXED_NAMESPACES.contains(&key.name.as_str()) {
            return Err(ApiError::forbidden(kind, &key.name, "this namespace may not be deleted"));
        }
        let current = self.current(kind, key)?;
        check_preconditions(kind, key, &shown(kind, &current), options)?;
        if options.dry_run {
            return Ok(());
        }
        for inner in self.registry.kinds().iter().filter(|k| k.namespaced && k.view.is_none()) {
            for object in self.index.list(inner.storage, Some(&key.name)).0 {
                match Box::pin(self.delete(inner, &object.key, &DeleteOptions::default())).await {
                    Ok(outcome) if outcome.deleted => {}
                    Ok(_) => {
                        let why =
                            format!("{} \"{}\" in it has finalizers", inner.qualified(), object.key.name);
                        return Err(ApiError::conflict(kind, &key.name, &why));
                    }
                    Err(error) if error.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    async fn put(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        expect: Expect,
        object: Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        self.submit(kind, key, expect, object, dry_run, Action::Put).await
    }

    async fn remove(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        expect: Expect,
        object: Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        self.submit(kind, key, expect, object, dry_run, Action::Delete).await
    }

    async fn submit(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        expect: Expect,
        object: Value,
        dry_run: bool,
        action: fn(Value) -> Action,
    ) -> Result<Object, WriteError> {
        if dry_run {
            let there = self.index.get(kind.storage, key).is_some();
            let clash = expect == Expect::Absent && there;
            return if clash { Err(WriteError::Moved) } else { Ok(Object::Value(object)) };
        }
        let stored = match kind.view {
            Some(view) => (view.store)(object),
            None => object,
        };
        let write = Write { kind: kind.storage, key: key.clone(), expect, action: action(stored) };
        self.writer.write(write).await.map(Object::Stored)
    }
}

fn outcome(object: Object, deleted: bool) -> Outcome {
    Outcome { code: 200, object, warnings: Vec::new(), deleted }
}

fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}

/// Whether an object that is being deleted has nothing left that holds it.
fn is_released(object: &Value) -> bool {
    let meta = &object["metadata"];
    !meta["deletionTimestamp"].is_null() && meta["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Whether two states differ in more than metadata and status.
fn differs_in_meaning(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return true };
    let ignored = |field: &str| matches!(field, "metadata" | "status");
    let fields = new.keys().chain(old.keys());
    fields.filter(|f| !ignored(f)).any(|f| new.get(f) != old.get(f))
}

/// Refuses a body that names another place than the path.
fn check_path(kind: &Kind, object: &Value, namespace: &str, name: Option<&str>) -> Result<(), ApiError> {
    let meta = &object["metadata"];
    if let Some(found) = meta["namespace"].as_str()
        && !found.is_empty()
        && kind.namespaced
        && found != namespace
    {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({found} is not {namespace})"
        )));
    }
    if let Some(name) = name {
        let found = meta["name"].as_str().unwrap_or_default();
        if !found.is_empty() && found != name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({found}) does not match the name on the URL ({name})"
            )));
        }
    }
    Ok(())
}

fn check_preconditions(
    kind: &Kind,
    key: &ObjectKey,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let meta = &object["metadata"];
    for (what, asked, found) in
        [("UID", &options.uid, &meta["uid"]), ("ResourceVersion", &options.version, &meta["resourceVersion"])]
    {
        let found = found.as_str().unwrap_or_default();
        if let Some(asked) = asked
            && asked != found
        {
            let why = format!(
                "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
            );
            return Err(ApiError::conflict(kind, &key.name, &why));
        }
    }
    Ok(())
}
