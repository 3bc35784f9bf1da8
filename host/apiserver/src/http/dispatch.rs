//! One request on objects: which verb it is, with which options, and how its result is written.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, header};
use serde_json::{Value, json};

use super::answer::{self, ResponseBody};
use super::body;
use super::request::{Accepted, Query, Target, include};
use crate::api::{
    Api, DeleteOptions, FieldValidation, Form, ListOptions, Outcome, WatchOptions, WriteOptions, shown,
};
use crate::index::ObjectKey;
use crate::patch::PatchType;
use crate::registry::Kind;
use crate::selector::Selector;
use crate::status::ApiError;
use crate::table;

/// What is left of a request when its path is known.
pub(super) struct Parts<'a> {
    pub(super) method: &'a Method,
    pub(super) headers: &'a HeaderMap,
    pub(super) query: Query,
    pub(super) body: Bytes,
}

impl Parts<'_> {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    fn accepted(&self) -> Accepted {
        Accepted::parse(self.header(header::ACCEPT))
    }

    fn json(&self) -> Result<(Value, Vec<String>), ApiError> {
        body::parse_as(self.header(header::CONTENT_TYPE), &self.body)
    }
}

type Answer = Result<Response<ResponseBody>, ApiError>;

/// Answers a request on objects.
pub(super) async fn objects(api: &Arc<Api>, target: Target<'_>, parts: Parts<'_>) -> Answer {
    let named = target.name.is_some();
    match (parts.method.as_str(), named, target.status) {
        ("GET" | "HEAD", true, _) if parts.query.flag("watch") => watch(api, &target, &parts),
        ("GET" | "HEAD", true, _) => get(api, &target, &parts),
        ("GET" | "HEAD", false, _) if parts.query.flag("watch") => watch(api, &target, &parts),
        ("GET" | "HEAD", false, _) => list(api, &target, &parts),
        ("POST", false, _) => create(api, &target, &parts).await,
        ("PUT", true, _) => update(api, &target, &parts).await,
        ("PATCH", true, _) => patch(api, &target, &parts).await,
        ("DELETE", true, false) => delete(api, &target, &parts).await,
        ("DELETE", false, _) => delete_collection(api, &target, &parts).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn key(target: &Target<'_>) -> ObjectKey {
    ObjectKey {
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name.clone().unwrap_or_default(),
    }
}

fn get(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let stored = api.current(target.kind, &key(target))?;
    if parts.accepted() == Accepted::Object && target.kind.view.is_none() {
        return Ok(answer::json(200, stored.json.clone()));
    }
    Ok(object(target.kind, 200, shown(target.kind, &stored), parts))
}

/// One object, in the form that was asked for.
fn object(kind: &Kind, code: u16, object: Value, parts: &Parts<'_>) -> Response<ResponseBody> {
    match parts.accepted() {
        Accepted::Object => answer::value(code, &object),
        Accepted::Metadata => answer::value(code, &table::partial(&object)),
        Accepted::Table => {
            let meta = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
            answer::value(code, &table::table(&kind.columns, meta, &[object], include(&parts.query), true))
        }
    }
}

fn selector(target: &Target<'_>, parts: &Parts<'_>) -> Result<Selector, ApiError> {
    let mut fields = parts.query.get("fieldSelector").to_owned();
    if let Some(name) = &target.name {
        fields = format!("metadata.name={name}");
    }
    Selector::parse(target.kind, parts.query.get("labelSelector"), &fields)
}

fn list(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let kind = target.kind;
    let query = &parts.query;
    let options = ListOptions {
        selector: selector(target, parts)?,
        limit: query.count("limit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        continue_: query.get("continue").to_owned(),
        version: query.get("resourceVersion").to_owned(),
        exact: query.get("resourceVersionMatch") == "Exact",
    };
    let list = api.list(kind, target.namespace.as_deref(), &options)?;
    let meta = answer::list_meta(list.version, list.continue_.as_deref(), list.remaining);
    let accepted = parts.accepted();
    if accepted == Accepted::Object && kind.view.is_none() {
        return Ok(answer::json(200, answer::list(kind, &meta, &list.objects)));
    }
    let objects: Vec<Value> = list.objects.iter().map(|o| shown(kind, o)).collect();
    let body = match accepted {
        Accepted::Table => table::table(&kind.columns, meta, &objects, include(query), true),
        Accepted::Metadata => json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": meta, "items": objects.iter().map(table::partial).collect::<Vec<_>>() }),
        Accepted::Object => value_list(kind, meta, objects),
    };
    Ok(answer::value(200, &body))
}

fn value_list(kind: &Kind, meta: Value, objects: Vec<Value>) -> Value {
    json!({ "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": meta, "items": objects })
}

fn watch(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let query = &parts.query;
    let initial = query.flag("sendInitialEvents");
    if initial && query.get("resourceVersionMatch") != "NotOlderThan" {
        return Err(ApiError::bad_request(
            "sendInitialEvents: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    let form = match parts.accepted() {
        Accepted::Object => Form::Object,
        Accepted::Metadata => Form::Metadata,
        Accepted::Table => Form::Table(include(query)),
    };
    let options = WatchOptions {
        selector: selector(target, parts)?,
        version: query.get("resourceVersion").to_owned(),
        bookmarks: query.flag("allowWatchBookmarks"),
        initial,
        // Zero means "not said", as on a real server.
        timeout: query.count("timeoutSeconds")?.filter(|&seconds| seconds > 0),
        form,
    };
    Ok(answer::stream(api.watch(target.kind, target.namespace.as_deref(), options)?))
}

fn write_options(target: &Target<'_>, parts: &Parts<'_>) -> Result<WriteOptions, ApiError> {
    let validation = match parts.query.get("fieldValidation") {
        "" | "Warn" => FieldValidation::Warn,
        "Strict" => FieldValidation::Strict,
        "Ignore" => FieldValidation::Ignore,
        other => {
            return Err(ApiError::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            )));
        }
    };
    Ok(WriteOptions { dry_run: parts.query.dry_run()?, validation, status: target.status })
}

fn written(kind: &Kind, outcome: Outcome, parts: &Parts<'_>) -> Response<ResponseBody> {
    let Outcome { code, object: body, warnings, .. } = outcome;
    let mut response = match parts.accepted() {
        Accepted::Object => answer::json(code, body.encode(kind)),
        _ => object(kind, code, body.decode(kind), parts),
    };
    answer::warn(&mut response, &warnings);
    response
}

async fn create(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let (object, duplicates) = parts.json()?;
    let namespace = match (&target.namespace, target.kind.namespaced) {
        (Some(namespace), true) => namespace.as_str(),
        (None, true) => return Err(ApiError::method_not_allowed()),
        (_, false) => "",
    };
    let options = write_options(target, parts)?;
    let outcome = api.create(target.kind, namespace, object, &duplicates, options).await?;
    Ok(written(target.kind, outcome, parts))
}

async fn update(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let (object, duplicates) = parts.json()?;
    let options = write_options(target, parts)?;
    let outcome = api.update(target.kind, &key(target), object, &duplicates, options).await?;
    Ok(written(target.kind, outcome, parts))
}

async fn patch(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let type_ = PatchType::from_content_type(target.kind, parts.header(header::CONTENT_TYPE))?;
    let (patch, duplicates) = body::parse(&parts.body)?;
    let options = write_options(target, parts)?;
    let outcome = api.patch(target.kind, &key(target), (type_, &patch), &duplicates, options).await?;
    Ok(written(target.kind, outcome, parts))
}

/// Options of a delete come in the body, in the query, or in both.
fn delete_options(parts: &Parts<'_>) -> Result<DeleteOptions, ApiError> {
    let mut options = DeleteOptions { dry_run: parts.query.dry_run()?, ..DeleteOptions::default() };
    if parts.body.is_empty() {
        return Ok(options);
    }
    let (body, _) = parts.json()?;
    match &body["dryRun"] {
        Value::Null => {}
        Value::Array(list) if list.iter().all(|v| v == "All") => options.dry_run |= !list.is_empty(),
        _ => return Err(ApiError::bad_request("dryRun: Unsupported value: supported values: \"All\"")),
    }
    let text = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
    options.uid = text("uid");
    options.version = text("resourceVersion");
    Ok(options)
}

async fn delete(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let kind = target.kind;
    let outcome = api.delete(kind, &key(target), &delete_options(parts)?).await?;
    if !outcome.deleted {
        return Ok(written(kind, outcome, parts));
    }
    let object = outcome.object.decode(kind);
    let mut details = json!({ "name": target.name, "kind": kind.plural, "uid": object["metadata"]["uid"] });
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    Ok(answer::value(200, &status))
}

async fn delete_collection(api: &Arc<Api>, target: &Target<'_>, parts: &Parts<'_>) -> Answer {
    let kind = target.kind;
    if kind.namespaced && target.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let selector = selector(target, parts)?;
    let options = delete_options(parts)?;
    let deleted = api.delete_collection(kind, target.namespace.as_deref(), &selector, &options).await?;
    let meta = answer::list_meta(api.index.version(), None, 0);
    Ok(answer::value(200, &value_list(kind, meta, deleted)))
}
