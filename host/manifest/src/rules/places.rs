//! L1, second half: the places of a request are disjoint from each other and from every constant.

use crate::error::Rule;
use crate::model::*;
use crate::place::is_index;
use crate::report::Report;
use serde_json::Value;

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for call in m.calls.values() {
        let places = filled(m, call);
        for (n, (path, place)) in places.iter().enumerate() {
            for (other_path, other) in &places[..n] {
                if place.overlaps(other) {
                    let other_name = other_path.rsplit('.').next().unwrap_or(other_path);
                    r.error(Rule::L1, path, format!("`{place}` meets `{other}`, which `{other_name}` fills"));
                }
            }
            if let Err(why) = free(m, call, place) {
                r.error(Rule::L1, path, format!("`{place}` {why}"));
            }
        }
        bodies(call, r);
        headers_twice(m, call, r);
        for (name, arg) in &call.args {
            arg_types(call, name, arg, r);
        }
    }
}

/// Every place that something fills when the call is made, with the path to report it at.
fn filled(m: &Manifest, call: &Call) -> Vec<(String, Place)> {
    let base = format!("calls.{}", call.name);
    let mut places = Vec::new();
    for (name, arg) in &call.args {
        places.extend(arg.at.iter().map(|place| (format!("{base}.args.{name}"), place.clone())));
    }
    for (name, slot) in &call.slots {
        places.push((format!("{base}.slots.{name}"), slot.at.clone()));
    }
    if let Some(pages) = call.pages.as_ref().filter(|pages| pages.into != Place::Url) {
        places.push((format!("{base}.pages"), pages.into.clone()));
    }
    // Alternatives of `auth` exclude each other; each is compared with the rest, not with the others.
    let mut auth: Vec<Place> = Vec::new();
    for (login, put) in puts(m, call) {
        if login != Some(call.name.as_str()) {
            let new: Vec<Place> = put.into_iter().filter(|place| !auth.contains(place)).collect();
            auth.extend(new);
        }
    }
    places.extend(auth.into_iter().map(|place| (base.clone(), place)));
    places
}

/// The login that fills the places, if it is one, and the places.
type Put<'a> = (Option<&'a str>, Vec<Place>);

fn puts<'a>(m: &'a Manifest, call: &Call) -> Vec<Put<'a>> {
    let alternatives =
        m.endpoints.get(&call.endpoint).into_iter().flat_map(|endpoint| endpoint.auth.values());
    let places = |put: &[(Place, Format)]| put.iter().map(|(place, _)| place.clone()).collect();
    alternatives
        .filter_map(|auth| match auth {
            Auth::None => None,
            Auth::Put { put } => Some((None, places(put))),
            Auth::Session { login, put, .. } => Some((Some(login.as_str()), places(put))),
            Auth::Sigv4(_) => {
                Some((None, super::signed::HEADERS.map(|name| Place::Header(name.to_owned())).to_vec()))
            }
        })
        .collect()
}

/// Is the place free of the manifest's own constants?
fn free(m: &Manifest, call: &Call, place: &Place) -> Result<(), String> {
    match place {
        Place::Header(name) => {
            let endpoint = m.endpoints.get(&call.endpoint).into_iter().flat_map(|endpoint| &endpoint.headers);
            let taken =
                call.headers.iter().chain(endpoint).any(|(known, _)| known.eq_ignore_ascii_case(name));
            if taken { Err("is a constant header already".to_owned()) } else { Ok(()) }
        }
        Place::Query(name) => {
            let taken =
                call.path.as_ref().is_some_and(|path| path.query_keys().iter().any(|key| key == name));
            if taken { Err("stands in the path's constant query already".to_owned()) } else { Ok(()) }
        }
        Place::Form(_) => match &call.body {
            Body::Form(pairs) => {
                let taken = pairs.iter().any(|(key, _)| place.overlaps(&Place::Form(key.clone())));
                if taken { Err("stands in the skeleton already".to_owned()) } else { Ok(()) }
            }
            _ => Err("needs `body.form`".to_owned()),
        },
        Place::Json(pointer) => match &call.body {
            Body::Json(skeleton) => room(skeleton, &pointer.0),
            _ => Err("needs `body.json`".to_owned()),
        },
        Place::Path(_) | Place::Xml(_) | Place::Url => Ok(()),
    }
}

/// Does the skeleton leave room at these steps? Missing parents are made as objects, so an index needs its list.
fn room(skeleton: &Value, steps: &[Step]) -> Result<(), String> {
    let mut here = skeleton;
    for (n, step) in steps.iter().enumerate() {
        let rest = &steps[n + 1..];
        let found = match (here, step) {
            (Value::Object(map), Step::Key(key)) => map.get(key),
            (Value::Array(items), Step::Key(key)) if is_index(key) => {
                match key.parse::<usize>().ok().and_then(|i| items.get(i)) {
                    Some(item) => Some(item),
                    None => return Err(format!("needs element {key} in the skeleton's list")),
                }
            }
            (Value::Array(_), Step::Every) => None,
            (Value::Array(_), Step::Key(_)) => {
                return Err("goes by name through a list of the skeleton".to_owned());
            }
            (Value::Object(_), _) => {
                return Err("goes through an object of the skeleton as through a list".to_owned());
            }
            _ => return Err("goes through a constant of the skeleton".to_owned()),
        };
        match found {
            Some(_) if rest.is_empty() => return Err("stands in the skeleton already".to_owned()),
            Some(value) => here = value,
            None if rest.iter().any(|step| matches!(step, Step::Key(key) if is_index(key))) => {
                return Err("needs the list that its index counts in to stand in the skeleton".to_owned());
            }
            None => return Ok(()),
        }
    }
    Err("is the whole body".to_owned())
}

fn bodies(call: &Call, r: &mut Report) {
    let path = format!("calls.{}.body", call.name);
    if matches!(call.method, Method::Get | Method::Head) && call.body != Body::None {
        r.error(Rule::L1, &path, format!("{} has no body", call.method.as_str()));
    }
    let body = |place: &Place| matches!(place, Place::Json(_) | Place::Xml(_));
    if call.reply == ReplyKind::None || call.method == Method::Head {
        let fields =
            call.fields.iter().filter(|(_, f)| f.at.iter().any(body)).map(|(n, _)| format!("fields.{n}"));
        let captures =
            call.captures.iter().filter(|(_, c)| body(&c.at)).map(|(n, _)| format!("captures.{n}"));
        for name in fields.chain(captures) {
            let message = "the reply has no body to read this from";
            r.error(Rule::L1, &format!("calls.{}.{name}", call.name), message);
        }
    }
}

fn headers_twice(m: &Manifest, call: &Call, r: &mut Report) {
    let Some(endpoint) = m.endpoints.get(&call.endpoint) else { return };
    for (name, _) in &call.headers {
        if endpoint.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            let path = format!("calls.{}.headers", call.name);
            r.error(Rule::L1, &path, format!("the header `{name}` is a constant of the endpoint too"));
        }
    }
    for (_, put) in puts(m, call) {
        for place in &put {
            if let Err(why) = free(m, call, place) {
                r.error(Rule::L1, &format!("endpoints.{}.auth", call.endpoint), format!("`{place}` {why}"));
            }
        }
    }
}

/// A value is written in a way that its type can fill.
fn arg_types(call: &Call, name: &str, arg: &Arg, r: &mut Report) {
    let path = format!("calls.{}.args.{name}", call.name);
    let fits = match arg.write_as {
        WriteAs::String => true,
        WriteAs::Int => {
            matches!(arg.ty, Type::Int | Type::Id)
                && arg.one_of.is_empty()
                && !matches!(arg.format, ArgFormat::Uuid)
        }
        WriteAs::Bool => arg.ty == Type::Bool,
    };
    if !fits {
        r.error(Rule::L1, &format!("{path}.as"), format!("a value of type {} cannot be written so", arg.ty));
    }
    if arg.write_as != WriteAs::String && !arg.at.iter().all(|place| matches!(place, Place::Json(_))) {
        r.error(Rule::L1, &format!("{path}.as"), "`as` is about JSON places only");
    }
    if arg.write_as != WriteAs::String
        && matches!(&arg.format, ArgFormat::Around(..) if !arg.format.is_plain())
    {
        r.error(
            Rule::L1,
            &format!("{path}.format"),
            "text around the hole makes a string; `as` says otherwise",
        );
    }
    if arg.ty == Type::Path && arg.from == Source::Guest && arg.on.is_none() {
        r.error(Rule::L1, &path, "an argument of type path needs `on` or a `from` other than the guest");
    }
}
