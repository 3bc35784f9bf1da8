//! Crash points for sweeps: every durable write has a name, and the process dies at the one that is asked for.
//!
//! `HOLDFAST_CRASH_WRITES=FILE` appends the name of each durable write that is committed, one a line.
//! `HOLDFAST_CRASH_AT_WRITE='before NAME'` aborts right before the commit of that write, `after NAME` right after it
//! and before anybody hears of it. An abort runs nothing of the process any more, as SIGKILL does not.

use crate::index::ObjectKey;

/// The names of the writes of one batch. Without the feature `crash-points` there are none.
#[derive(Default)]
pub(crate) struct Names {
    #[cfg(feature = "crash-points")]
    names: Vec<String>,
}

#[cfg(not(feature = "crash-points"))]
pub(crate) struct Point;

#[cfg(not(feature = "crash-points"))]
impl Names {
    pub(crate) fn add(&mut self, _: &str, _: &ObjectKey, _: Option<&[u8]>, _: Option<&[u8]>) {}
}

#[cfg(not(feature = "crash-points"))]
impl Point {
    pub(crate) fn from_env() -> Self {
        Self
    }

    pub(crate) fn asked(&self) -> bool {
        false
    }

    pub(crate) fn before_commit(&mut self, _: &mut Names) {}

    pub(crate) fn after_commit(&self, _: &Names) {}
}

#[cfg(feature = "crash-points")]
pub(crate) use armed::Point;

#[cfg(feature = "crash-points")]
mod armed {
    use super::{Names, ObjectKey};
    use serde_json::Value;
    use std::collections::{BTreeSet, HashMap};
    use std::io::Write;

    /// Members whose values are words of a small set, which say best what a write is about.
    const TELLING: [&str; 5] = ["phase", "stage", "state", "reason", "call"];
    /// Members that change with every write.
    const CHANGING: [&str; 4] = ["resourceVersion", "generation", "observedGeneration", "managedFields"];

    impl Names {
        /// Adds a write of an object of this kind, with what was stored before and what is stored after it.
        pub(crate) fn add(
            &mut self,
            kind: &str,
            key: &ObjectKey,
            before: Option<&[u8]>,
            after: Option<&[u8]>,
        ) {
            let object = format!("{kind}/{}", key.name);
            let value = |bytes: Option<&[u8]>| {
                bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or(Value::Null)
            };
            self.names.push(match (before, after) {
                (None, _) => format!("create {object}"),
                (_, None) => format!("delete {object}"),
                (before, after) => {
                    let mut found = Found::default();
                    found.compare("", "", &value(before), &value(after));
                    format!("update {object}: {}", found.told())
                }
            });
        }
    }

    /// What differs between two states of an object.
    #[derive(Default)]
    struct Found {
        telling: Vec<String>,
        /// Paths of the other members, in their order.
        other: Vec<String>,
    }

    impl Found {
        fn compare(&mut self, path: &str, member: &str, before: &Value, after: &Value) {
            if before == after || CHANGING.contains(&member) {
                return;
            }
            let at = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
            match (before, after) {
                (Value::Object(_), _) | (_, Value::Object(_)) => {
                    let keys = [before, after].into_iter().filter_map(Value::as_object);
                    let keys: BTreeSet<&String> = keys.flat_map(|object| object.keys()).collect();
                    for key in keys {
                        self.compare(&at(key), key, &before[key], &after[key]);
                    }
                }
                (Value::Array(_), _) | (_, Value::Array(_)) => {
                    let length = |value: &Value| value.as_array().map_or(0, Vec::len);
                    for index in 0..length(before).max(length(after)) {
                        self.compare(&at(&index.to_string()), "", &before[index], &after[index]);
                    }
                }
                (_, Value::String(word)) if TELLING.contains(&member) => {
                    self.telling.push(format!("{path}={word}"));
                }
                _ => self.other.push(path.to_owned()),
            }
        }

        fn told(self) -> String {
            if self.telling.is_empty() { self.other.join(" ") } else { self.telling.join(" ") }
        }
    }

    /// Where to die, and where to tell.
    #[derive(Default)]
    pub(crate) struct Point {
        before: Option<String>,
        after: Option<String>,
        list: Option<String>,
        /// How often each name came up: from the second time on, a number tells them apart.
        seen: HashMap<String, u64>,
    }

    impl Point {
        pub(crate) fn from_env() -> Self {
            let at = std::env::var("HOLDFAST_CRASH_AT_WRITE").unwrap_or_default();
            let list = std::env::var("HOLDFAST_CRASH_WRITES").ok();
            Self::new(&at, list)
        }

        fn new(at: &str, list: Option<String>) -> Self {
            let side = |side| at.strip_prefix(side).map(str::to_owned);
            Self { before: side("before "), after: side("after "), list, seen: HashMap::new() }
        }

        /// Whether anybody wants names: they cost two readings of every object that is written.
        pub(crate) fn asked(&self) -> bool {
            self.before.is_some() || self.after.is_some() || self.list.is_some()
        }

        /// Numbers the names of a batch that is to be committed.
        pub(crate) fn before_commit(&mut self, names: &mut Names) {
            for name in &mut names.names {
                let times = self.seen.entry(name.clone()).or_default();
                *times += 1;
                if *times > 1 {
                    name.push_str(&format!(" #{times}"));
                }
            }
            if struck(&self.before, names) {
                std::process::abort();
            }
        }

        pub(crate) fn after_commit(&self, names: &Names) {
            if struck(&self.after, names) {
                std::process::abort();
            }
            let Some(list) = &self.list else { return };
            let lines: String = names.names.iter().map(|name| format!("{name}\n")).collect();
            let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
            if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
                tracing::error!(%error, "the names of durable writes can't be listed in {list}");
            }
        }
    }

    fn struck(at: &Option<String>, names: &Names) -> bool {
        at.as_ref().is_some_and(|at| names.names.contains(at))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use serde_json::json;

        fn name(before: Value, after: Value) -> String {
            let key = ObjectKey { namespace: String::new(), name: "off".into() };
            let (before, after) = (before.to_string(), after.to_string());
            let mut names = Names::default();
            names.add("MachineOperation", &key, Some(before.as_bytes()), Some(after.as_bytes()));
            names.names.remove(0)
        }

        #[test]
        fn a_write_is_named_by_the_words_that_it_changes() {
            let before =
                json!({ "metadata": { "resourceVersion": "7" }, "status": { "phase": "InProgress" } });
            let after = json!({
                "metadata": { "resourceVersion": "8" },
                "status": { "phase": "InProgress", "effects": [{ "call": "reset", "state": "Intended", "token": "x" }] },
            });
            assert_eq!(
                name(before, after),
                "update MachineOperation/off: status.effects.0.call=reset status.effects.0.state=Intended"
            );
        }

        #[test]
        fn without_such_words_it_is_named_by_the_places_that_it_changes() {
            let before = json!({ "metadata": { "resourceVersion": "7", "finalizers": ["one"] } });
            let after = json!({ "metadata": { "resourceVersion": "8" } });
            assert_eq!(name(before, after), "update MachineOperation/off: metadata.finalizers.0");
        }

        #[test]
        fn equal_names_are_numbered_and_only_the_named_one_is_a_point() {
            let key = ObjectKey { namespace: String::new(), name: "off".into() };
            let mut point = Point::new("after create Machine/off #3", None);
            for expected in ["create Machine/off", "create Machine/off #2"] {
                let mut names = Names::default();
                names.add("Machine", &key, None, Some(b"{}"));
                point.before_commit(&mut names);
                assert_eq!(names.names, [expected]);
                assert!(!struck(&point.after, &names) && !struck(&point.before, &names));
            }
            let mut names = Names::default();
            names.add("Machine", &key, None, Some(b"{}"));
            point.before_commit(&mut names);
            assert!(struck(&point.after, &names));
        }
    }
}
