//! The look for a secret at everything that the daemon has left and shows.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use data_encoding::HEXLOWER;

use crate::world::World;

/// Everything that anybody can list, secrets aside.
const LISTS: [&str; 9] = [
    "/apis/holdfast.dev/v1alpha1/machineallocations",
    "/apis/holdfast.dev/v1alpha1/machineclasses",
    "/apis/holdfast.dev/v1alpha1/machineoperations",
    "/apis/holdfast.dev/v1alpha1/machines",
    "/apis/holdfast.dev/v1alpha1/providers",
    "/apis/holdfast.dev/v1alpha1/providercredentials",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
    "/api/v1/configmaps",
];

/// Where one of these was seen, in any form. Empty is what is wanted.
pub async fn sightings(world: &World, secrets: &[&[u8]], objects: &[&str]) -> Result<BTreeSet<String>> {
    let forms: Vec<Vec<u8>> = secrets.iter().flat_map(|secret| forms_of(secret)).collect();
    let search = AhoCorasick::new(&forms)?;
    let mut seen = BTreeSet::new();
    let mut look = |place: &str, hay: &[u8]| {
        let found =
            search.find_iter(hay).map(|found| String::from_utf8_lossy(&forms[found.pattern()]).into_owned());
        seen.extend(found.map(|form| format!("{form} in {place}")));
    };
    look("the log", world.house.log().as_bytes());
    look("the files of the state directory", &world.house.state_bytes()?);
    let https = world.house.https()?;
    for list in LISTS {
        let reply = https.get(list).await?;
        ensure!(reply.status == 200, "{list}: {}", reply.status);
        look(list, &reply.body);
    }
    for object in objects {
        look("explain", world.explain(object)?.as_bytes());
    }
    let tables = world.house.kubectl_ok(&["get", "malloc,mclass,mop,mach,events", "-A", "-o", "wide"])?;
    look("kubectl", tables.as_bytes());
    look("/metrics", world.house.observe("/metrics")?.1.as_bytes());
    Ok(seen)
}

/// A secret as it is, in JSON, in JSON in JSON, in hex, in debug output, and in base64 whatever stands beside it.
fn forms_of(secret: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([secret.to_vec()]);
    forms.insert(HEXLOWER.encode(secret).into_bytes());
    if let Ok(text) = std::str::from_utf8(secret) {
        let once = escaped(text);
        forms.insert(format!("{secret:?}").into_bytes());
        forms.insert(escaped(&once).into_bytes());
        forms.insert(once.into_bytes());
    }
    for core in forms.clone() {
        forms.extend(cores(&core));
    }
    forms
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The part of a base64 text that stays the same whatever stands beside the secret, at each of the three offsets.
fn cores(secret: &[u8]) -> [Vec<u8>; 3] {
    [0, 1, 2].map(|offset| {
        let padded = [&vec![0; offset][..], secret].concat();
        let text = STANDARD_NO_PAD.encode(&padded);
        text.as_bytes()[(offset * 8usize).div_ceil(6)..padded.len() * 8 / 6].to_vec()
    })
}

#[test]
fn the_look_finds_a_secret_in_the_middle_of_a_text_in_each_form() {
    let (secret, text) = (b"cnry\"\xc3\xb6\\word", "a: \"cnry\"\u{f6}\\word\"\n");
    let search = AhoCorasick::new(forms_of(secret)).unwrap();
    let json = serde_json::Value::from(text).to_string();
    for hay in [
        text.to_owned(),
        STANDARD_NO_PAD.encode(text),
        STANDARD_NO_PAD.encode(&json),
        serde_json::Value::from(json.clone()).to_string(),
        HEXLOWER.encode(text.as_bytes()),
        json,
    ] {
        assert!(search.is_match(&hay), "{hay}");
    }
    assert!(!search.is_match("an ordinary text, srv-1 and image-2"));
}
