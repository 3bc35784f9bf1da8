//! Lost answers and crashes.

use crate::world::World;
use holdfast_tests::proxy::{Fault, Gate, Kind};
use http::Method;

fn on_create(kind: Kind) -> Fault {
    Fault::new(kind).on_method(Method::POST).on_path("/v1/servers").first(1)
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_found_by_its_name_and_not_repeated_a01_b07() {
    let world = World::new().await.unwrap();
    world.proxy.fault(on_create(Kind::DropReply));
    world.allocate("host-1", "data").await.unwrap();
    let id = world.allocated("host-1").await.unwrap();
    assert_eq!(world.only_server().await.unwrap().id, id);
    assert_eq!(world.creates(), 1);
    world.release("host-1").await.unwrap();
    assert!(world.cloud.servers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_daemon_that_dies_over_a_create_finds_its_server_and_goes_on_a09() {
    let mut world = World::new().await.unwrap();
    let gate = Gate::closed();
    world.proxy.fault(on_create(Kind::HoldReply(gate.clone())));
    world.allocate("host-1", "data").await.unwrap();
    gate.until_arrived(1).await;
    let made = world.only_server().await.unwrap();
    world.house.kill().unwrap();
    gate.refuse();
    world.house.start().await.unwrap();
    assert_eq!(world.allocated("host-1").await.unwrap(), made.id);
    assert_eq!(world.creates(), 1);
    world.release("host-1").await.unwrap();
    assert!(world.cloud.servers().await.unwrap().is_empty());
}
