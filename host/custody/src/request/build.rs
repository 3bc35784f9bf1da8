//! Puts a request together: skeleton, arguments by place, slots, and the keyed fingerprint of the exact bytes.

use super::args::Filled;
use super::form::{Form, FormValue};
use super::headers::{auth_name, declared_name, secret_value, value};
use super::json::{Node, Tree, write};
use super::path::{QueryValue, path, query_keys, same_after_parsing, target};
use crate::registry::Bound;
use crate::secret::SecretBytes;
use bytes::Bytes;
use holdfast_manifest::{Body, Call, Endpoint, Place, ReplyKind, Type};
use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use std::collections::BTreeMap;
use url::Url;

/// Everything that a request is made from.
pub(crate) struct Draft<'d> {
    pub call: &'d Call,
    pub endpoint: &'d Endpoint,
    pub bound: &'d Bound,
    pub user_agent: &'d HeaderValue,
    pub args: &'d BTreeMap<String, Filled>,
    /// Encoded, by slot name.
    pub slots: &'d BTreeMap<String, SecretBytes>,
    /// The whole target, checked, for calls at a sealed URL and for pages that are URLs.
    pub url: Option<&'d Url>,
    /// The next page's token and its place.
    pub page: Option<(&'d Place, &'d str)>,
}

/// A request without its authentication. Has no `Debug`, `Clone` or `Serialize` (attack 56).
pub(crate) struct Built {
    pub method: Method,
    /// Path without query: what replies are resolved against.
    pub path: String,
    pub target: SecretBytes,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Builds; the error is half a sentence.
pub(crate) fn build(draft: &Draft<'_>) -> Result<Built, String> {
    let method = Method::from_bytes(draft.call.method.as_str().as_bytes()).map_err(|_| "has no method")?;
    let (path, target) = build_target(draft)?;
    let (content_type, body) = build_body(draft)?;
    let mut headers = build_headers(draft)?;
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let writes = matches!(method, Method::POST | Method::PUT | Method::PATCH);
    if writes || !body.is_empty() {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Ok(Built { method, path, target, headers, body })
}

/// Keyed digest of the exact bytes, authentication left out: the same request has the same fingerprint under new
/// credentials.
pub(crate) fn fingerprint(key: &hmac::Key, binding: &str, built: &Built) -> [u8; 32] {
    let mut parts: Vec<&[u8]> =
        vec![binding.as_bytes(), built.method.as_str().as_bytes(), built.target.expose(), &built.body];
    let mut headers: Vec<_> = built.headers.iter().filter(|(name, _)| *name != header::USER_AGENT).collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in &headers {
        parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
    }
    crate::keys::tag(key, &parts)
}

fn build_target(draft: &Draft<'_>) -> Result<(String, SecretBytes), String> {
    if let Some(url) = draft.url {
        // Pages that are URLs replace the target that the arguments made; a sealed target takes no arguments at all.
        let places = draft.call.args.values().flat_map(|arg| &arg.at);
        let slots = draft.call.slots.values().map(|slot| &slot.at);
        let in_target = |place: &&Place| matches!(place, Place::Path(_) | Place::Query(_));
        let paged = matches!(draft.page, Some((Place::Query(_), _)));
        if draft.call.path.is_none() && (paged || places.chain(slots).any(|place| in_target(&place))) {
            return Err("has a sealed target and further parts of a target".into());
        }
        let text = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        return Ok((url.path().to_owned(), SecretBytes::from(text)));
    }
    let call = draft.call;
    let template = call.path.as_ref().ok_or("needs a sealed target")?;
    let path = path(draft.bound.base(), template, |hole| {
        let at = Place::Path(hole.to_owned());
        let (name, arg) = call.args.iter().find(|(_, arg)| arg.at.contains(&at))?;
        Some((draft.args.get(name)?.one()?.to_owned(), arg.ty == Type::Path))
    })?;
    let constant = template.query.as_deref();
    if !same_after_parsing(&draft.bound.origin, &path, constant) {
        return Err("has a target that a URL parser reads otherwise (attack 32)".into());
    }
    let mut values: Vec<(String, QueryValue<'_>)> = Vec::new();
    for (name, filled) in draft.args {
        for place in &call.args[name].at {
            if let Place::Query(key) = place {
                let text = filled.one().ok_or("has a list in its query")?;
                values.push((key.clone(), QueryValue::Text(text)));
            }
        }
    }
    for (name, secret) in draft.slots {
        if let Place::Query(key) = &call.slots[name].at {
            values.push((key.clone(), QueryValue::Secret(secret)));
        }
    }
    let mut constant = constant.unwrap_or_default().to_owned();
    if let Some((Place::Query(key), token)) = draft.page {
        values.retain(|(name, _)| name != key);
        constant = without(&constant, key);
        values.push((key.clone(), QueryValue::Text(token)));
    }
    let mut keys = query_keys(&constant);
    keys.extend(values.iter().map(|(key, _)| key.clone()));
    let unique: std::collections::BTreeSet<_> = keys.iter().collect();
    if unique.len() != keys.len() {
        return Err("fills a query key twice (attack 44)".into());
    }
    let target = target(&path, Some(&constant), &values).ok_or("could not be written")?;
    Ok((path, target))
}

/// A constant query without one key.
fn without(query: &str, key: &str) -> String {
    let keep = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        url::form_urlencoded::parse(name.as_bytes()).next().is_none_or(|(name, _)| name != key)
    };
    query.split('&').filter(keep).collect::<Vec<_>>().join("&")
}

fn build_headers(draft: &Draft<'_>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let host = HeaderValue::from_str(&draft.bound.authority()).map_err(|_| "has an odd host")?;
    headers.insert(header::HOST, host);
    headers.insert(header::USER_AGENT, draft.user_agent.clone());
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut add = |name: Option<HeaderName>, value: Option<HeaderValue>| -> Result<(), String> {
        let (Some(name), Some(value)) = (name, value) else {
            return Err("has a header that does not fit (attack 33)".into());
        };
        if headers.contains_key(&name) {
            return Err(format!("fills header `{name}` twice"));
        }
        headers.insert(name, value);
        Ok(())
    };
    // A call's own constant goes before the endpoint's.
    for (name, text) in &draft.call.headers {
        add(declared_name(name), value(text))?;
    }
    for (name, text) in &draft.endpoint.headers {
        if !draft.call.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
            add(declared_name(name), value(text))?;
        }
    }
    for (name, filled) in draft.args {
        for place in &draft.call.args[name].at {
            if let Place::Header(header) = place {
                add(declared_name(header), filled.one().and_then(value))?;
            }
        }
    }
    for (name, secret) in draft.slots {
        if let Place::Header(header) = &draft.call.slots[name].at {
            add(auth_name(header), secret_value(SecretBytes::copy_of(secret.expose())))?;
        }
    }
    if let Some((Place::Header(header), token)) = draft.page {
        add(declared_name(header), value(token))?;
    }
    let accept = match draft.call.reply {
        ReplyKind::Json => Some("application/json"),
        ReplyKind::Xml => Some("application/xml, text/xml"),
        ReplyKind::None => None,
    };
    if let Some(accept) = accept.filter(|_| !headers.contains_key(header::ACCEPT)) {
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    }
    Ok(headers)
}

fn build_body(draft: &Draft<'_>) -> Result<(Option<&'static str>, Bytes), String> {
    match &draft.call.body {
        Body::None => {
            let places = draft.call.args.values().flat_map(|arg| &arg.at);
            let slots = draft.call.slots.values().map(|slot| &slot.at);
            if places.chain(slots).any(|place| matches!(place, Place::Json(_) | Place::Form(_))) {
                return Err("has a body place and no body".into());
            }
            Ok((None, Bytes::new()))
        }
        Body::Json(skeleton) => {
            let body = json_body(draft, skeleton)?;
            Ok((Some("application/json"), body.into_bytes()))
        }
        Body::Form(pairs) => {
            let body = form_body(draft, pairs)?;
            Ok((Some("application/x-www-form-urlencoded"), body.into_bytes()))
        }
    }
}

fn json_body(draft: &Draft<'_>, skeleton: &serde_json::Value) -> Result<SecretBytes, String> {
    let mut tree = Tree::new(skeleton);
    for (name, filled) in draft.args {
        let arg = &draft.call.args[name];
        for place in &arg.at {
            let Place::Json(pointer) = place else { continue };
            if place.is_list() {
                tree.set_list(pointer, filled.texts().iter().map(|t| Node::leaf(t, arg.write_as)).collect())?;
            } else {
                tree.set(pointer, Node::leaf(filled.one().ok_or("has a list for one value")?, arg.write_as))?;
            }
        }
    }
    if let Some((Place::Json(pointer), token)) = draft.page {
        tree.set(pointer, Node::Text(token.to_owned()))?;
    }
    let mut secrets: Vec<&SecretBytes> = Vec::new();
    for (name, secret) in draft.slots {
        if let Place::Json(pointer) = &draft.call.slots[name].at {
            tree.set(pointer, Node::Secret(secrets.len()))?;
            secrets.push(secret);
        }
    }
    write(tree.root(), &secrets).ok_or_else(|| "has a secret that is not UTF-8".to_owned())
}

fn form_body(draft: &Draft<'_>, pairs: &[(String, String)]) -> Result<SecretBytes, String> {
    let mut form = Form::new(pairs)?;
    for (name, filled) in draft.args {
        for place in &draft.call.args[name].at {
            let Place::Form(key) = place else { continue };
            if place.is_list() {
                form.set_list(key, filled.texts())?;
            } else {
                let text = filled.one().ok_or("has a list for one value")?;
                form.set(key, FormValue::Text(text.to_owned()))?;
            }
        }
    }
    if let Some((Place::Form(key), token)) = draft.page {
        form.set(key, FormValue::Text(token.to_owned()))?;
    }
    for (name, secret) in draft.slots {
        if let Place::Form(key) = &draft.call.slots[name].at {
            form.set(key, FormValue::Secret(secret))?;
        }
    }
    form.write().ok_or_else(|| "could not be written".to_owned())
}
