//! `auth = { sigv4 = … }`: who signs, and for which scope.

use crate::error::{Rule, Syntax};
use crate::model::{Region, Sigv4};
use crate::report::{Node, Report};
use crate::table::{Tab, check_name, is_name};

const SIGV4: &[&str] = &["service", "region", "id", "secret", "session"];

pub(super) fn sigv4(node: &Node, path: &str, r: &mut Report) -> Option<Sigv4> {
    let tab = Tab::open(node, path, SIGV4, r)?;
    for key in ["service", "region", "id", "secret"] {
        tab.need(key, r);
    }
    let service = tab.parsed("service", r, service);
    let region = tab.parsed("region", r, region);
    let mut key = |name: &str| {
        let key = tab.str(name, r)?;
        check_name(key, &tab.at(name), r).then(|| key.to_owned())
    };
    let (id, secret, session) = (key("id"), key("secret"), key("session"));
    let signed = Sigv4 { service: service?, region: region?, id: id?, secret: secret?, session };
    if signed.id == signed.secret
        || signed.session.as_ref().is_some_and(|s| [&signed.id, &signed.secret].contains(&s))
    {
        r.error(Rule::L1, path, "`id`, `secret` and `session` are different credential keys");
    }
    Some(signed)
}

fn service(text: &str) -> Result<String, Syntax> {
    if !is_scope(text, 32) {
        return Err(Syntax::bad(format!(
            "`{text}` is no service of a signature; allowed: [a-z0-9-]{{1,32}}"
        )));
    }
    if text.starts_with("s3") {
        return Err(Syntax::NotYet(
            "signatures of s3, which writes paths and payloads in a way of its own, are".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

fn region(text: &str) -> Result<Region, Syntax> {
    match text.strip_prefix("binding:") {
        Some(var) if is_name(var) => Ok(Region::Binding(var.to_owned())),
        None if is_scope(text, 64) => Ok(Region::Literal(text.to_owned())),
        _ => Err(Syntax::bad(format!(
            "`{text}` is no region of a signature; allowed: binding:VAR, or a literal of [a-z0-9-]{{1,64}}"
        ))),
    }
}

/// A part of a signature's scope: nothing in it could end the part.
fn is_scope(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
