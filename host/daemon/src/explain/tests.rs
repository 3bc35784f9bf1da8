//! Explanations of objects as they stand in the API.

use super::page::Page;
use super::{Kind, allocation, machine, operation, target};
use serde_json::{Value, json};

fn told<T: serde::de::DeserializeOwned>(object: Value, tell: impl Fn(&mut Page, &T)) -> String {
    let mut page = Page::new("2026-03-01T12:10:00Z".parse().unwrap());
    tell(&mut page, &serde_json::from_value(object).unwrap());
    page.to_string()
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|told| told.trim() == *line), "`{line}` is to be a line of:\n{text}");
    }
}

#[test]
fn an_operation_says_why_it_waits_how_that_ends_and_what_became_of_each_effect() {
    let text = told(
        json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineOperation", "metadata": { "name": "again" },
            "spec": { "operationKind": "HostReplace", "machineRef": { "name": "web-1" } },
            "status": {
                "phase": "InProgress", "reason": "EffectInDoubt", "message": "the answer was lost",
                "startedAt": "2026-03-01T12:00:00Z",
                "waiting": {
                    "reason": "EffectInDoubt", "since": "2026-03-01T12:09:30Z", "until": "2026-03-01T12:11:00Z",
                    "nextAction": "the provider is called again", "wayOut": "set spec.cancel"
                },
                "effects": [
                    {
                        "key": "new", "call": "create-server", "effect": "create", "binding": "simulated/api/lab",
                        "fingerprint": "f", "attempts": 2, "state": "Intended",
                        "intendedAt": "2026-03-01T12:08:00Z", "firstIntendedAt": "2026-03-01T12:07:00Z",
                        "absentSince": "2026-03-01T12:09:50Z"
                    },
                    {
                        "key": "net", "call": "create-net", "effect": "create", "binding": "simulated/api/lab",
                        "fingerprint": "f", "attempts": 1, "state": "Done",
                        "intendedAt": "2026-03-01T12:05:00Z", "firstIntendedAt": "2026-03-01T12:05:00Z",
                        "settledAt": "2026-03-01T12:05:01Z", "settledBy": "Answer",
                        "reply": { "status": 201, "fields": { "id": "net-9" } },
                        "created": [{ "binding": "simulated/api/lab", "kind": "net", "id": "net-9" }]
                    },
                    {
                        "key": "disk", "call": "create-disk", "effect": "create", "binding": "simulated/api/lab",
                        "fingerprint": "f", "attempts": 1, "state": "Rejected",
                        "intendedAt": "2026-03-01T12:06:00Z", "firstIntendedAt": "2026-03-01T12:06:00Z",
                        "settledAt": "2026-03-01T12:06:01Z", "settledBy": "Answer",
                        "refusal": {
                            "code": "quota-exceeded", "reason": "Quota", "message": "no more disks", "native": "Limit"
                        }
                    }
                ]
            }
        }),
        operation::tell,
    );
    has(
        &text,
        &[
            "MachineOperation again: HostReplace on machine web-1: InProgress (EffectInDoubt)",
            "waits: EffectInDoubt, since 2026-03-01T12:09:30Z (30 s ago)",
            "until: 2026-03-01T12:11:00Z (in 60 s)",
            "next: the provider is called again",
            "way out: set spec.cancel",
            "happened, by its answer: status 201, id=\"net-9\", known since 2026-03-01T12:05:01Z (4 min ago)",
            "made net net-9",
            "refused, by its answer: quota-exceeded (Limit): no more disks, known since 2026-03-01T12:06:01Z (3 min ago)",
            "in doubt: nobody knows yet what became of it",
            "looked up and not found since 2026-03-01T12:09:50Z (10 s ago)",
        ],
    );
    let order = ["net: call", "disk: call", "new: call"].map(|start| text.find(start).unwrap());
    assert!(order.is_sorted(), "effects stand in the order in which they were meant:\n{text}");
}

#[test]
fn an_allocation_says_what_it_chose_what_was_exhausted_and_what_it_owns() {
    let text = told(
        json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "MachineAllocation", "metadata": { "name": "web-1" },
            "spec": { "classRef": { "name": "small" } },
            "status": {
                "phase": "Allocating", "attempt": 1,
                "offering": {
                    "name": "s1-b", "instanceType": "s1", "zone": "b", "available": true,
                    "validUntil": "2026-03-01T14:10:00Z"
                },
                "exhausted": [{
                    "name": "s1-a", "zone": "a", "at": "2026-03-01T12:00:00Z", "until": "2026-03-01T12:20:00Z",
                    "reason": "CapacityExhausted"
                }],
                "operationRef": { "name": "web-1-allocate-1", "kind": "HostAllocate" },
                "ownedResources": [{ "binding": "b", "kind": "nic", "id": "nic-7", "owner": "u" }]
            }
        }),
        |page, object| {
            allocation::tell(page, object);
            assert_eq!(allocation::operation(object), Some("web-1-allocate-1"));
        },
    );
    has(
        &text,
        &[
            "MachineAllocation web-1 from class small: Allocating",
            "chose offering s1-b: s1 in zone b, valid until 2026-03-01T14:10:00Z (in 2 h)",
            "offering s1-a in zone a had no capacity at 2026-03-01T12:00:00Z (10 min ago) (CapacityExhausted); not tried \
             until 2026-03-01T12:20:00Z (in 10 min)",
            "nic nic-7, made through b",
        ],
    );
}

/// Attack 62: an object's own texts are its author's, and a terminal must not obey them.
#[test]
fn nothing_that_an_object_says_acts_in_a_terminal() {
    let text = told(
        json!({
            "apiVersion": "holdfast.dev/v1alpha1", "kind": "Machine", "metadata": { "name": "m" },
            "spec": { "host": { "image": "\u{1b}[2Jimage\nsecond line", "external": { "provider": "p" } } }
        }),
        machine::tell,
    );
    has(&text, &["image: \\u{1b}[2Jimage\\u{a}second line"]);
}

#[test]
fn an_object_is_named_by_kind_and_name_in_every_way_that_kubectl_knows() {
    for (text, kind) in [
        ("mop/a", Kind::Operation),
        ("MachineAllocation/a", Kind::Allocation),
        ("machines.holdfast.dev/a", Kind::Machine),
        ("mclass/a", Kind::Class),
        ("providers/a", Kind::Provider),
    ] {
        assert_eq!(target(text).unwrap(), (kind, "a"), "{text}");
    }
    for (text, says) in
        [("web-1", "is not KIND/NAME"), ("mop/", "is not KIND/NAME"), ("pod/a", "known kinds: provider")]
    {
        let error = target(text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
