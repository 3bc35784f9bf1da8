//! Operations as a person follows them: waited for, watched, deleted while they run.

use std::io::{BufRead, BufReader};

use holdfast_simulated_cloud::{ClockChange, EffectKind};

use crate::world::{operation, world};

#[test]
fn wait_returns_when_an_operation_has_completed_and_not_before() {
    let world = world();
    world.apply(&operation("waited-for", "plain", "HostPowerOff", ""));
    world.wait_for("mop/waited-for", "--for=condition=Completed");
    assert_eq!(world.json("mop/waited-for")["status"]["phase"], "Complete");
    let late = world.refused(&["wait", "mop/waited-for", "--for=condition=Failed", "--timeout=1s"], "");
    assert!(late.contains("timed out waiting for the condition on machineoperations/waited-for"), "{late}");
}

#[test]
fn a_watch_sees_each_transition_of_an_operation_in_order() {
    let world = world();
    // An operation that no provider executes: its row shows that the watch has begun.
    world.apply(&operation("beacon", "watched", "Inspect", "followed: by-watch"));
    let columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase,STAGE:.status.target.stage";
    let arguments = ["get", "mop", "-w", "--no-headers", "-l", "followed=by-watch", "-o", columns];
    let mut child = world.house.kubectl_command(&arguments).unwrap().spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().expect("the watch begins").unwrap();
    assert!(first.starts_with("beacon "), "{first}");
    world.apply(&operation("watched-on", "watched", "HostPowerOn", "followed: by-watch"));
    let mut seen: Vec<(String, String)> = Vec::new();
    for line in lines {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, phase, stage] = words[..] else { panic!("a row of three: {line}") };
        if name != "watched-on" {
            continue;
        }
        seen.push((phase.to_owned(), stage.to_owned()));
        if matches!(phase, "Complete" | "Failed" | "OutcomeUnknown") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut phases: Vec<&str> = seen.iter().map(|(phase, _)| phase.as_str()).collect();
    phases.dedup();
    assert_eq!(phases, ["<none>", "InProgress", "Complete"], "{seen:?}");
    let stages: Vec<&str> = seen.iter().map(|(_, stage)| stage.as_str()).collect();
    assert!(stages.contains(&"WaitingProviderOperation"), "the stored handle was seen: {stages:?}");
}

#[test]
fn deleting_an_operation_that_waits_cancels_it_and_lets_it_go() {
    let world = world();
    world.apply(&operation("refused-on", "locked", "HostPowerOn", ""));
    world.wait_for("mop/refused-on", "--for=jsonpath={.status.waiting.reason}=BeginFailed");
    let held = world.json("mop/refused-on");
    assert_eq!(
        held["metadata"]["finalizers"].as_array().map(Vec::len),
        Some(1),
        "a running operation is held"
    );
    // Waits by itself until the finalizer is gone.
    world.ok(&["delete", "mop", "refused-on", "--timeout=90s"]);
    assert!(world.refused(&["get", "mop", "refused-on"], "").contains("not found"));
    let events = world.until(&["get", "events", "-n", "holdfast-system"], "an event of the end", |text| {
        text.lines().any(|line| line.contains("refused-on") && line.contains("Canceled"))
    });
    assert!(events.contains("the operation was deleted while it ran"), "{events}");
}

#[test]
fn deleting_an_operation_that_a_provider_has_accepted_follows_it_to_its_end_r2_38() {
    let world = world();
    world.apply(&operation("endless-on", "endless", "HostPowerOn", ""));
    world.wait_for("mop/endless-on", "--for=jsonpath={.status.target.stage}=WaitingProviderOperation");
    world.ok(&["delete", "mop", "endless-on", "--wait=false"]);
    let object = world.json("mop/endless-on");
    assert!(object["metadata"]["deletionTimestamp"].is_string(), "it is marked and stays");
    world.until(&["get", "events", "-n", "holdfast-system"], "that the provider was asked to stop", |text| {
        text.lines().any(|line| line.contains("endless-on") && line.contains("CancelRequested"))
    });
    world.cloud.clock(ClockChange { advance_ms: Some(600_000), ..ClockChange::default() });
    world.wait_for("mop/endless-on", "--for=delete");
    let machine = world.json("machine/endless");
    let server =
        machine["spec"]["host"]["external"]["providerID"].as_str().unwrap().trim_start_matches("sim://");
    assert_eq!(world.cloud.ledger().count(EffectKind::PowerOn, server), 1, "what was accepted happened once");
}
