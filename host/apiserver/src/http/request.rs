//! Paths and queries, parsed.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::registry::{Kind, Registry};
use crate::status::ApiError;
use crate::table::Include;

/// What a path names.
pub(super) enum Route<'a> {
    Root,
    Health,
    Version,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`.
    Resources(String, String),
    /// `/openapi/v3`.
    OpenApiIndex,
    /// `/openapi/v3/api/v1` or `/openapi/v3/apis/{group}/{version}`.
    OpenApi(String, String),
    /// Objects of a kind.
    Objects(Target<'a>),
}

/// A collection, an object, or a subresource of an object.
pub(super) struct Target<'a> {
    pub(super) kind: &'a Kind,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// Whether the status subresource is meant.
    pub(super) status: bool,
}

/// Parses a path. `None` if it names nothing that is served.
pub(super) fn route<'a>(registry: &'a Registry, path: &str) -> Option<Route<'a>> {
    let parts: Vec<String> = path
        .split('/')
        .filter(|p| !p.is_empty())
        .map(|p| percent_decode_str(p).decode_utf8().ok().map(|p| p.into_owned()))
        .collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let known =
        |group: &str, version: &str| registry.groups().iter().any(|(g, v)| g == group && v == version);
    match parts.as_slice() {
        [] => Some(Route::Root),
        ["healthz" | "readyz" | "livez", ..] => Some(Route::Health),
        ["version"] => Some(Route::Version),
        ["api"] => Some(Route::CoreVersions),
        ["apis"] => Some(Route::Groups),
        ["openapi", "v3"] => Some(Route::OpenApiIndex),
        ["openapi", "v3", "api", version] if known("", version) => {
            Some(Route::OpenApi(String::new(), (*version).to_owned()))
        }
        ["openapi", "v3", "apis", group, version] if known(group, version) => {
            Some(Route::OpenApi((*group).to_owned(), (*version).to_owned()))
        }
        ["api", version] if known("", version) => {
            Some(Route::Resources(String::new(), (*version).to_owned()))
        }
        ["api", version, rest @ ..] => target(registry, "", version, rest).map(Route::Objects),
        ["apis", group] if registry.groups().iter().any(|(g, _)| g == group) => {
            Some(Route::Group((*group).to_owned()))
        }
        ["apis", group, version] if known(group, version) => {
            Some(Route::Resources((*group).to_owned(), (*version).to_owned()))
        }
        ["apis", group, version, rest @ ..] => target(registry, group, version, rest).map(Route::Objects),
        _ => None,
    }
}

fn target<'a>(registry: &'a Registry, group: &str, version: &str, parts: &[&str]) -> Option<Target<'a>> {
    let (namespace, parts) = match parts {
        // A namespace itself, or its status: not a namespaced object.
        ["namespaces", _] | ["namespaces", _, "status"] if group.is_empty() => (None, parts),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        parts => (None, parts),
    };
    let kind = registry.find(group, version, parts.first()?)?;
    if namespace.is_some() && !kind.namespaced {
        return None;
    }
    let (name, status) = match parts[1..] {
        [] => (None, false),
        [name] => (Some(name.to_owned()), false),
        [name, "status"] if kind.status => (Some(name.to_owned()), true),
        _ => return None,
    };
    if name.is_some() && kind.namespaced && namespace.is_none() {
        return None;
    }
    Some(Target { kind, namespace, name, status })
}

/// The parameters of a query. Of a repeated one the first counts.
#[derive(Debug, Default)]
pub(super) struct Query(HashMap<String, String>);

impl Query {
    /// Parses a query string; what can't be decoded is kept as it is.
    pub(super) fn parse(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let mut map = HashMap::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            map.entry(decode(name)).or_insert_with(|| decode(value));
        }
        Self(map)
    }

    /// The value of a parameter, empty if it isn't there.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether a parameter is set to something that is not false.
    pub(super) fn flag(&self, name: &str) -> bool {
        !matches!(self.get(name), "" | "false" | "0")
    }

    /// A parameter that is a count.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.get(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("{name}: Invalid value: {text:?}: not a count"))),
        }
    }

    /// Whether nothing is to be stored.
    pub(super) fn dry_run(&self) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(ApiError::bad_request(format!(
                "dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }
}

/// The form that an `Accept` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Object,
    Table,
    Metadata,
}

impl Accepted {
    /// The first form of the header that is served. JSON is given whatever else was asked for.
    pub(super) fn parse(accept: &str) -> Self {
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            if !matches!(parts.next(), Some("application/json" | "*/*" | "application/*" | "")) {
                continue;
            }
            match parts.find_map(|p| p.strip_prefix("as=")) {
                Some("Table") => return Self::Table,
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Self::Metadata,
                Some(_) => {}
                None => return Self::Object,
            }
        }
        Self::Object
    }
}

/// The `includeObject` parameter of tables.
pub(super) fn include(query: &Query) -> Include {
    match query.get("includeObject") {
        "None" => Include::None,
        "Object" => Include::Object,
        _ => Include::Metadata,
    }
}
