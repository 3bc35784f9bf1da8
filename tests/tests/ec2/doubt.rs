//! Lost answers and crashes: the emulator honours no client token, so a blind repeat would be a twin.

use crate::world::World;
use holdfast_tests::proxy::{Fault, Gate, Kind};
use http::Method;

/// The first POST after a class is resolved is the create.
fn on_create(kind: Kind) -> Fault {
    Fault::new(kind).on_method(Method::POST).first(1)
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_found_by_its_tag_and_not_repeated_a01_b07() {
    let world = World::new().await.unwrap();
    world.proxy.fault(on_create(Kind::DropReply));
    world.allocate("host-1", b"data").await.unwrap();
    world.allocated("host-1").await.unwrap();
    let ledger = world.ledger(&["host-1"]).await.unwrap();
    assert_eq!(ledger.instances.len(), 1, "no twin, not even one that ended");
    world.release("host-1").await.unwrap();
    world.nothing_left().await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_dies_over_a_create_finds_its_instance_and_goes_on_a09() {
    let mut world = World::new().await.unwrap();
    let gate = Gate::closed();
    world.proxy.fault(on_create(Kind::HoldReply(gate.clone())));
    world.allocate("host-1", b"data").await.unwrap();
    gate.until_arrived(1).await;
    assert_eq!(world.ledger(&["host-1"]).await.unwrap().instances.len(), 1, "it is made");
    world.house.kill().unwrap();
    gate.refuse();
    world.house.start().await.unwrap();
    world.allocated("host-1").await.unwrap();
    assert_eq!(world.ledger(&["host-1"]).await.unwrap().instances.len(), 1);
    world.release("host-1").await.unwrap();
    world.nothing_left().await.unwrap();
}
