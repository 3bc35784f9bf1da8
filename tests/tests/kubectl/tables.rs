//! What a person sees: tables of every kind, `describe`, `explain`, discovery.

use crate::world::world;

/// The words of a line, whatever their padding.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_has_a_table_with_the_columns_that_an_operator_asks_for() {
    let world = world();
    let golden = [
        ("providers", "NAME VERSION STATE AGE"),
        ("machines", "NAME PROVIDER PROVIDERID CLASS SITE OPERATION AGE"),
        ("machineoperations", "NAME MACHINE KIND PHASE REASON AGE"),
        ("providercredentials", "NAME SITE PROVIDER MODE SECRET AGE"),
        ("baremetalmachines", "NAME ADDRESS SYSTEM AGE"),
        ("secrets", "NAME TYPE DATA AGE"),
        ("configmaps", "NAME DATA AGE"),
        ("namespaces", "NAME STATUS AGE"),
        ("events", "LAST SEEN TYPE REASON OBJECT MESSAGE"),
        ("leases", "NAME HOLDER AGE"),
    ];
    for (kind, header) in golden {
        let namespace = if kind == "configmaps" { "default" } else { "holdfast-system" };
        let table = world.ok(&["get", kind, "-n", namespace]);
        let mut lines = table.lines();
        assert_eq!(words(lines.next().unwrap_or_default()), header, "the columns of {kind}");
        assert!(lines.next().is_some(), "{kind} has a row:\n{table}");
    }
    let wide = [
        ("mop", "NAME MACHINE KIND PHASE REASON AGE MESSAGE"),
        ("prov", "NAME VERSION STATE DIGEST AGE"),
        ("events", "LAST SEEN TYPE REASON OBJECT MESSAGE COUNT NAME"),
    ];
    for (kind, header) in wide {
        let table = world.ok(&["get", kind, "-n", "holdfast-system", "-o", "wide"]);
        assert_eq!(words(table.lines().next().unwrap_or_default()), header, "the wide columns of {kind}");
    }
}

#[test]
fn rows_hold_what_the_columns_promise() {
    let world = world();
    let row = |arguments: &[&str]| words(&world.ok(&[arguments, &["--no-headers"]].concat()));
    let operation = row(&["get", "mop", "first-off"]);
    assert!(operation.starts_with("first-off plain HostPowerOff Complete "), "{operation}");
    assert!(row(&["get", "prov", "simulated"]).starts_with("simulated 0.1.0 Ready "));
    assert!(row(&["get", "mach", "plain"]).starts_with("plain simulated sim://srv-"));
    assert!(
        row(&["get", "bmm", "rack-1"]).starts_with("rack-1 https://bmc-1.example.net System.Embedded.1 ")
    );
    assert!(row(&["get", "pcred"]).starts_with("lab-simulated lab simulated ExternalPlugin cloud "));
    let secret = row(&["get", "secret", "cloud", "-n", "holdfast-system"]);
    assert!(secret.starts_with("cloud holdfast.dev/credential 1 "), "the number of keys, no value: {secret}");
    assert!(row(&["get", "cm", "settings", "-n", "default"]).starts_with("settings 2 "));
    assert!(row(&["get", "ns", "holdfast-system"]).starts_with("holdfast-system Active "));
    let lease = row(&["get", "leases", "-n", "holdfast-system"]);
    assert!(lease.starts_with("holdfast-controller holdfast-"), "{lease}");
}

#[test]
fn describe_tells_an_operation_with_its_journal_and_its_events() {
    let world = world();
    let told = world.ok(&["describe", "mop", "first-off"]);
    for part in ["Operation Kind:", "HostPowerOff", "Conditions:", "Completed", "Events:"] {
        assert!(told.contains(part), "describe tells {part}:\n{told}");
    }
    let events = told.split("Events:").nth(1).unwrap_or_default();
    assert!(events.contains("Normal"), "the events of the operation are among what is described:\n{told}");
    let secret = world.ok(&["describe", "secret", "cloud", "-n", "holdfast-system"]);
    assert!(secret.contains("api-token:  26 bytes"), "describe counts a secret's bytes:\n{secret}");
}

#[test]
fn explain_tells_the_fields_of_every_kind_in_the_words_of_the_api() {
    let world = world();
    let told = world.ok(&["explain", "machineoperation.spec"]);
    for part in [
        "GROUP:      holdfast.dev",
        "KIND:       MachineOperation",
        "FIELD: spec <Object>",
        "operationKind\t<string> -required-",
        "deadlineSeconds\t<integer>",
        "parameters\t<map[string]string>",
        "Seconds after its start at which a running operation is given up",
    ] {
        assert!(told.contains(part), "explain tells {part:?}:\n{told}");
    }
    let outcome = world.ok(&["explain", "mop.spec.resolve.outcome"]);
    assert!(outcome.contains("ENUM:\n    TookEffect\n    DidNotHappen\n    Abandon\n"), "{outcome}");
    let effects = world.ok(&["explain", "mop.status.effects", "--recursive"]);
    assert!(effects.contains("fingerprint\t<string>"), "{effects}");
    for kind in [
        "provider",
        "machine",
        "providercredential",
        "baremetalmachine",
        "secret",
        "configmap",
        "namespace",
        "event",
        "lease",
    ] {
        let told = world.ok(&["explain", kind]);
        assert!(
            told.contains("DESCRIPTION:") && told.contains("metadata\t<ObjectMeta>"),
            "explain {kind}:\n{told}"
        );
    }
    let unknown = world.refused(&["explain", "mop.spec.colour"], "");
    assert!(unknown.contains("field \"colour\" does not exist"), "{unknown}");
}

#[test]
fn discovery_and_the_version_are_served_as_kubectl_expects() {
    let world = world();
    let resources = world.ok(&["api-resources", "--no-headers"]);
    for (name, rest) in [
        ("machineoperations", "mop holdfast.dev/v1alpha1 false MachineOperation"),
        ("providers", "prov holdfast.dev/v1alpha1 false Provider"),
        ("secrets", "v1 true Secret"),
        ("leases", "coordination.k8s.io/v1 true Lease"),
    ] {
        let line = resources.lines().map(words).find(|line| line.starts_with(&format!("{name} ")));
        assert_eq!(line, Some(format!("{name} {rest}")), "{resources}");
    }
    assert!(world.ok(&["version"]).contains("Server Version: "));
    assert!(world.ok(&["api-versions"]).lines().any(|line| line == "holdfast.dev/v1alpha1"));
    let category = world.ok(&["get", "holdfast", "-o", "name"]);
    assert!(
        category.contains("provider.holdfast.dev/simulated")
            && category.contains("machine.holdfast.dev/plain")
    );
}
