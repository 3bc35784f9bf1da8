//! The core kinds that Holdfast's kinds refer to: Secret, ConfigMap, Namespace, Event and Lease.
//!
//! Events are stored once and shown in both of their groups; fields of one are renamed into the other.

use k8s_openapi::api::{coordination::v1 as coordination, core::v1 as core, events::v1 as events};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{AddNullable, Transform as _};
use serde_json::{Value, json};

use crate::ServerError;
use crate::registry::{Kind, View};
use crate::schema::Schema;
use crate::table::{self, Column};

/// The kinds, events first: the view of events comes right after what it shows.
pub(crate) fn kinds() -> Result<Vec<Kind>, ServerError> {
    let mut event = kind::<core::Event>("", "v1", "Event", "events", true, table::event_columns())?;
    event.short_names = vec!["ev".into()];
    event.durable = false;
    event.selectable = paths(&[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "type",
        "reportingComponent",
    ]);
    event.selectable.push(("source".into(), table::split_path("source.component")));
    let mut shown =
        kind::<events::Event>("events.k8s.io", "v1", "Event", "events", true, table::event_columns())?;
    shown.short_names = vec!["ev".into()];
    shown.durable = false;
    shown.view = Some(View { show: show_event, store: store_event });
    let mut secret = kind::<core::Secret>("", "v1", "Secret", "secrets", true, table::secret_columns())?;
    secret.sealed = true;
    secret.selectable = paths(&["type"]);
    let mut config =
        kind::<core::ConfigMap>("", "v1", "ConfigMap", "configmaps", true, table::config_map_columns())?;
    config.short_names = vec!["cm".into()];
    let mut namespace =
        kind::<core::Namespace>("", "v1", "Namespace", "namespaces", false, table::namespace_columns())?;
    namespace.short_names = vec!["ns".into()];
    namespace.status = true;
    namespace.selectable = paths(&["status.phase"]);
    let lease = kind::<coordination::Lease>(
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        true,
        table::lease_columns(),
    )?;
    Ok(vec![event, shown, secret, config, namespace, lease])
}

/// The schema of `metadata`.
pub(crate) fn metadata_schema() -> Value {
    schema_of::<ObjectMeta>()
}

fn paths(fields: &[&str]) -> Vec<(String, table::Path)> {
    fields.iter().map(|f| ((*f).to_owned(), table::split_path(f))).collect()
}

fn kind<T: JsonSchema>(
    group: &str,
    version: &str,
    name: &str,
    plural: &str,
    namespaced: bool,
    columns: Vec<Column>,
) -> Result<Kind, ServerError> {
    let mut openapi = schema_of::<T>();
    openapi["properties"]["metadata"] = json!({ "type": "object" });
    let schema =
        Schema::compile(&openapi).map_err(|why| ServerError::Definition { kind: name.into(), why })?;
    Ok(Kind {
        id: 0,
        storage: 0,
        group: group.into(),
        version: version.into(),
        kind: name.into(),
        plural: plural.into(),
        singular: name.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        status: false,
        custom: false,
        durable: true,
        sealed: false,
        schema,
        openapi,
        columns,
        selectable: Vec::new(),
        view: None,
    })
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    AddNullable::default().transform(&mut schema);
    StructuralSchemaRewriter.transform(&mut schema);
    OptionalEnum.transform(&mut schema);
    OptionalIntOrString.transform(&mut schema);
    let mut value = schema.to_value();
    if let Some(map) = value.as_object_mut() {
        map.remove("title");
    }
    value
}

/// Core name, and name in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn show_event(mut event: Value) -> Value {
    rename(&mut event, |(core, new)| (core, new));
    event["apiVersion"] = json!("events.k8s.io/v1");
    event
}

fn store_event(mut event: Value) -> Value {
    rename(&mut event, |(core, new)| (new, core));
    event["apiVersion"] = json!("v1");
    if event["involvedObject"].is_null() {
        event["involvedObject"] = json!({});
    }
    event
}

fn rename(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(map) = event.as_object_mut() else { return };
    for pair in RENAMED {
        let (from, to) = direction(pair);
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}
