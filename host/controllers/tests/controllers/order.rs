//! One operation at a time per machine, in an order that can't be overtaken (R2.18, rows 12 to 14, X.3).

use holdfast_api::Phase;
use holdfast_controllers::Next;
use holdfast_effects::PollState;
use kube::ResourceExt as _;

use crate::support::modules::*;
use crate::support::*;

/// Names in the order in which the rule puts two operations of the same second: by uid.
async fn two(world: &World, kinds: [&str; 2]) -> [String; 2] {
    let a = world.operation("a", kinds[0]).await;
    let b = world.operation("b", kinds[1]).await;
    // Made within one second for the most part, but the clock may tick between them.
    let key = |o: &holdfast_api::MachineOperation| (o.creation_timestamp().map(|t| t.0), o.uid());
    if key(&a) < key(&b) { ["a".into(), "b".into()] } else { ["b".into(), "a".into()] }
}

#[tokio::test]
async fn row_12_an_operation_behind_an_open_one_is_pending_has_no_target_and_begins_nothing() {
    let world = World::new().await;
    let [first, second] = two(&world, ["HostReboot", "HostReboot"]).await;
    let daemon = world.daemon().await;
    assert_eq!(daemon.step(&second).await, after(15));
    let status = world.status(&second).await;
    assert_eq!((status.phase, status.target.clone()), (Phase::Pending, None));
    let waiting = status.waiting.unwrap();
    assert_eq!(waiting.reason, "WaitingForOperation");
    assert!(status.message.unwrap().contains(&first));
    assert!(world.module.called().is_empty());
    // Waiting on is free.
    let version = world.get(&second).await.resource_version();
    world.pass(15);
    daemon.step(&second).await;
    assert_eq!(world.get(&second).await.resource_version(), version);
}

#[tokio::test]
async fn row_13_immediate_and_long_running_operations_wait_for_each_other() {
    for kinds in [["HostPowerOff", "HostReboot"], ["HostReboot", "HostPowerOff"]] {
        let world = World::new().await;
        let [first, second] = two(&world, kinds).await;
        let daemon = world.daemon().await;
        daemon.step(&second).await;
        assert!(world.module.called().is_empty());
        for name in [&first, &second] {
            let immediate = world.get(name).await.spec.operation_kind == "HostPowerOff";
            if immediate {
                world.module.say(executed());
                daemon.step(name).await;
            } else {
                world.module.say(accepted("h")).say(poll(PollState::Succeeded));
                daemon.step(name).await;
                assert_ne!(world.status(&second).await.phase, Phase::Complete);
                daemon.step(name).await;
            }
            assert_eq!(world.status(name).await.phase, Phase::Complete);
        }
    }
}

/// X.3, the hole of 2(b).3: upstream lets `a` of the same second pass `z`, which has a handle.
#[tokio::test]
async fn who_has_started_goes_first_even_if_the_other_would_sort_before_it() {
    let world = World::new().await;
    let [first, second] = two(&world, ["HostReboot", "HostReboot"]).await;
    // The second is made to have started: it was alone when it did.
    world.set_status(&second, |s| s.phase = Phase::InProgress).await;
    let daemon = world.daemon().await;
    assert_eq!(daemon.step(&first).await, after(15));
    assert_eq!(world.status(&first).await.waiting.unwrap().reason, "WaitingForOperation");
    assert!(world.module.called().is_empty());
}

/// Row 14 with our divergence: the stuck immediate operation has started, so that it goes first; it isn't executed
/// again, and does not stay stuck silently.
/// Field case D04.
#[tokio::test]
async fn row_14_an_immediate_operation_with_unknown_outcome_is_never_executed_again_and_says_so() {
    let world = World::new().await;
    let [first, second] = two(&world, ["HostPowerOn", "HostPowerOn"]).await;
    let daemon = world.daemon().await;
    // The second began alone and its daemon died in the middle of `execute`, with an effect in the journal.
    world.module.then(std::sync::Arc::new(|_, port| {
        Box::pin(async move {
            port.perform("k".into(), on("set", "old")).await.unwrap();
            trap()
        })
    }));
    let older = world.get(&first).await;
    world.delete_operation(&first).await;
    daemon.step(&second).await;
    world.operation_with("c", serde_json::to_value(older.spec).unwrap()).await;
    let status = world.status(&second).await;
    assert_eq!(status.phase, Phase::OutcomeUnknown);
    for _ in 0..3 {
        assert_eq!(daemon.step(&second).await, Next::Done);
        daemon.step("c").await;
        world.pass(3600);
    }
    assert_eq!(world.module.called(), ["execute"]);
    assert_eq!(world.status("c").await.phase, Phase::Pending);
}

#[tokio::test]
async fn an_operation_of_another_machine_or_executor_blocks_nobody() {
    let world = World::new().await;
    world.operation("node", "NodeReboot").await;
    world.operation("odd", "HostSomething").await;
    world.operation("op", "HostPowerOff").await;
    world.module.say(executed());
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.phase, Phase::Complete);
}
