//! `/metrics` as a scraper reads it: OpenMetrics text, with labels that no guest chose.

use std::collections::{BTreeMap, BTreeSet};

/// Reads the text as OpenMetrics 1.0 and gives the values of each label. Fails where a line is none of the format's.
pub fn labels(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    let mut types = BTreeMap::new();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (word, name, rest) =
                (words.next(), words.next().expect("a name"), words.next().expect("a text"));
            match word {
                Some("HELP" | "UNIT") => {}
                Some("TYPE") => {
                    assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                    assert_eq!(types.insert(name.to_owned(), rest.to_owned()), None, "one type each: {line}");
                }
                _ => panic!("no line of OpenMetrics: {line}"),
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a sample and its value");
        assert!(value.parse::<f64>().is_ok(), "a number: {line}");
        let (name, pairs) = match sample.split_once('{') {
            Some((name, pairs)) => (name, pairs.strip_suffix('}').expect("closed labels")),
            None => (sample, ""),
        };
        let family = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(types.contains_key(family.unwrap_or(name)), "a sample after its type: {line}");
        assert!(
            name.starts_with("holdfast_") && !name.starts_with("holdfast_holdfast_"),
            "a name of ours: {name}"
        );
        for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').expect("a label and its value");
            let value =
                value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("a quoted value");
            labels.entry(key.to_owned()).or_default().insert(value.to_owned());
        }
    }
    assert!(!types.is_empty(), "there are metrics");
    labels
}

/// Labels come from enums of the host, from manifests, and from what the operator named: origins of bindings and names of
/// credentials.
pub fn judge(labels: &BTreeMap<String, BTreeSet<String>>) {
    let known: [(&str, &[&str]); 4] = [
        ("kind", &["HostPowerOn", "HostPowerOff", "HostReboot", "HostReplace", "other"]),
        ("phase", &["Pending", "InProgress", "OutcomeUnknown", "Complete", "Failed"]),
        ("provider", &["simulated"]),
        ("callback", &["execute", "begin", "poll", "cancel", "cleanup"]),
    ];
    for (key, values) in labels {
        if let Some((_, allowed)) = known.iter().find(|(known, _)| known == key) {
            let strange: Vec<_> = values.iter().filter(|value| !allowed.contains(&value.as_str())).collect();
            assert!(strange.is_empty(), "values of the label {key} that nobody declared: {strange:?}");
        } else if key == "le" {
            assert!(values.iter().all(|value| value.parse::<f64>().is_ok() || value == "+Inf"), "{values:?}");
        } else if key == "endpoint" {
            let origin = |value: &String| {
                *value == "others" || url::Url::parse(value).is_ok_and(|url| is_origin(&url))
            };
            assert!(values.iter().all(origin), "{values:?}");
        } else if key == "account" {
            let name = |value: &String| {
                value.len() <= 253
                    && value
                        .bytes()
                        .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it))
            };
            assert!(values.iter().all(name), "{values:?}");
        } else {
            assert_eq!(key, "reason", "a label that is not known here");
            // One of the host's own waits: a CamelCase word.
            let word =
                |value: &String| value.len() <= 32 && value.bytes().all(|byte| byte.is_ascii_alphabetic());
            assert!(values.iter().all(word), "{values:?}");
        }
    }
}

/// A scheme, a host and a port, and nothing that a person or a secret could be in.
fn is_origin(url: &url::Url) -> bool {
    url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
}
