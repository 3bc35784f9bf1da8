//! The provider against the SDK's stand-in for the host: what it asks for, once, and what it makes of each answer.

mod allocate;
mod class;
mod operations;
mod release;

use super::*;
use holdfast_guest_sdk::testing::{self, Fake};
use serde_json::{Value, json};

fn allocation() -> Allocation {
    let plan = Plan { provider_id: "sim://planned-uid-1".to_owned(), host_image: "image-1".to_owned() };
    testing::allocation(testing::offering("small", "zone-a"), &plan)
}

fn planned(kind: &str) -> OperationRequest {
    testing::request(kind, testing::machine("sim://planned-uid-1"))
}

fn count(cloud: &Fake, call: &str) -> usize {
    cloud.names().iter().filter(|name| *name == call).count()
}
