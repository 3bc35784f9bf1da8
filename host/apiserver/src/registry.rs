//! The kinds that the server serves: Holdfast's own, from their CRDs, and the core kinds they refer to.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::ServerError;
use crate::builtin;
use crate::schema::Schema;
use crate::table::Column;

/// Index of a kind in the registry.
pub(crate) type KindId = usize;

/// One served kind.
pub struct Kind {
    pub(crate) id: KindId,
    /// The kind whose objects this one shows; itself, except for views.
    pub(crate) storage: KindId,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// Plural resource name.
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether there is a status subresource.
    pub(crate) status: bool,
    /// Whether the kind comes from a CRD; core kinds differ in small ways.
    pub(crate) custom: bool,
    /// Whether an acknowledged write must survive a power failure.
    pub(crate) durable: bool,
    /// Whether objects are encrypted at rest.
    pub(crate) sealed: bool,
    pub(crate) schema: Schema,
    pub(crate) openapi: Value,
    pub(crate) columns: Vec<Column>,
    /// Fields that a field selector may name, beside name and namespace.
    pub(crate) selectable: Vec<(String, crate::table::Path)>,
    /// How objects are shown if they are stored as another kind's.
    pub(crate) view: Option<View>,
}

/// How the objects of one kind are shown as another.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// From the stored form to the shown one.
    pub(crate) show: fn(Value) -> Value,
    /// From the shown form to the stored one.
    pub(crate) store: fn(Value) -> Value,
}

impl Kind {
    /// `group/version`, or `version` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `plural.group`, as messages name a resource.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Kind.group`, as messages name a kind.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `group/plural`, the kind's name in the store.
    pub(crate) fn stored_as(&self) -> String {
        format!("{}/{}", self.group, self.plural)
    }
}

/// All served kinds.
pub(crate) struct Registry {
    kinds: Vec<Kind>,
    groups: Vec<(String, String)>,
    /// Schema of `metadata`, the same for all kinds.
    pub(crate) metadata: Schema,
    /// The same, for readers.
    pub(crate) metadata_openapi: Value,
}

impl Registry {
    /// Compiles the built-in kinds and the given definitions.
    pub(crate) fn new(crds: &[CustomResourceDefinition]) -> Result<Self, ServerError> {
        let metadata_openapi = builtin::metadata_schema();
        let metadata = Schema::compile(&metadata_openapi)
            .map_err(|why| ServerError::Definition { kind: "ObjectMeta".into(), why })?;
        let mut kinds = builtin::kinds()?;
        for crd in crds {
            kinds.push(custom(crd)?);
        }
        let mut groups: Vec<(String, String)> = Vec::new();
        for (id, kind) in kinds.iter_mut().enumerate() {
            kind.id = id;
            if kind.view.is_none() {
                kind.storage = id;
            }
            let pair = (kind.group.clone(), kind.version.clone());
            if !groups.contains(&pair) {
                groups.push(pair);
            }
        }
        Ok(Self { kinds, groups, metadata, metadata_openapi })
    }

    /// All kinds, in order of their ids.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The kind with an id.
    pub(crate) fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id]
    }

    /// The kind served under a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        // A dozen kinds: looking at each is quicker than hashing.
        self.kinds.iter().find(|k| k.plural == plural && k.group == group && k.version == version)
    }

    /// The kind of a name in the store.
    pub(crate) fn by_stored_name(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|k| k.view.is_none() && k.stored_as() == name)
    }

    /// A built-in kind of the core group, by its plural name.
    pub(crate) fn core(&self, plural: &str) -> Option<&Kind> {
        self.find("", "v1", plural)
    }

    /// Groups and their versions, in the order of the kinds.
    pub(crate) fn groups(&self) -> &[(String, String)] {
        &self.groups
    }
}

fn custom(crd: &CustomResourceDefinition) -> Result<Kind, ServerError> {
    let name = crd.spec.names.kind.clone();
    let fail = |why: String| ServerError::Definition { kind: name.clone(), why };
    let version = crd.spec.versions.iter().find(|v| v.served && v.storage);
    let version = version.ok_or_else(|| fail("no version is served and stored".into()))?;
    let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
    let mut openapi = json!(schema.ok_or_else(|| fail("there is no schema".into()))?);
    for (field, about) in [
        ("apiVersion", "Group and version of this representation of an object."),
        ("kind", "Kind of the object, in CamelCase."),
    ] {
        openapi["properties"][field] = json!({ "type": "string", "description": about });
    }
    openapi["properties"]["metadata"] = json!({ "type": "object" });
    unwrap_lines(&mut openapi);
    let columns = version.additional_printer_columns.as_deref().unwrap_or_default();
    let mut all = vec![Column::name()];
    all.extend(columns.iter().map(Column::from_definition));
    let selectable = version.selectable_fields.as_deref().unwrap_or_default();
    let mut selectable: Vec<String> =
        selectable.iter().map(|f| f.json_path.trim_start_matches('.').to_owned()).collect();
    if openapi["properties"]["status"]["properties"]["phase"].is_object() {
        selectable.push("status.phase".into());
    }
    let names = &crd.spec.names;
    Ok(Kind {
        id: 0,
        storage: 0,
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
        namespaced: crd.spec.scope == "Namespaced",
        status: version.subresources.as_ref().is_some_and(|s| s.status.is_some()),
        custom: true,
        durable: true,
        sealed: false,
        schema: Schema::compile(&openapi).map_err(fail)?,
        openapi,
        columns: all,
        selectable: selectable.into_iter().map(|f| (f.clone(), crate::table::split_path(&f))).collect(),
        view: None,
    })
}

/// Joins the lines of descriptions, which are broken as source code is: readers break them anew.
fn unwrap_lines(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.split("\n\n").map(|p| p.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
            }
            map.values_mut().for_each(unwrap_lines);
        }
        Value::Array(list) => list.iter_mut().for_each(unwrap_lines),
        _ => {}
    }
}
