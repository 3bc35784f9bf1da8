//! Hand-made parts of manifests for unit tests.

use holdfast_manifest::*;
use std::collections::BTreeMap;

pub(crate) fn pointer(text: &str) -> Pointer {
    let step = |part: &str| match part {
        "*" => Step::Every,
        part if part.starts_with('[') => {
            let (key, is) = part.trim_matches(['[', ']']).split_once('=').unwrap();
            Step::Where { key: key.into(), is: is.into() }
        }
        part => Step::Key(part.into()),
    };
    Pointer(text.split('/').skip(1).map(step).collect())
}

pub(crate) fn field(ty: Type, at: &str) -> Field {
    Field {
        at: vec![Place::Json(pointer(at))],
        ty,
        max: None,
        max_items: None,
        optional: false,
        matches: None,
        within: None,
        each: None,
    }
}

pub(crate) fn arg(ty: Type, from: Source) -> Arg {
    Arg {
        at: vec![Place::Json(pointer("/x"))],
        from,
        ty,
        one_of: Vec::new(),
        format: ArgFormat::Around(String::new(), String::new()),
        write_as: WriteAs::String,
        optional: false,
        on: None,
    }
}

pub(crate) fn slot(kind: SlotKind) -> Slot {
    Slot {
        kind,
        at: Place::Json(pointer("/user_data")),
        encode: vec![Encoding::Utf8],
        max_bytes: None,
        max_of: MaxOf::Encoded,
    }
}

pub(crate) fn endpoint() -> Endpoint {
    Endpoint {
        about: "a test".into(),
        per: Per::None,
        vars: Vec::new(),
        auth: BTreeMap::from([("default".into(), Auth::None)]),
        headers: Vec::new(),
        error_code: Vec::new(),
        xmlns: BTreeMap::new(),
        throttle: None,
        answers: Answers::default(),
    }
}
