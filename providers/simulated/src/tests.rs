//! The provider against the SDK's stand-in for the host: what it asks for, once, and what it makes of each answer.

mod allocate;
mod class;
mod operations;
mod release;

use super::*;
use holdfast_guest_sdk::testing::{self, Fake};
use serde_json::{Value, json};

fn config(pairs: &[(&str, &str)]) -> ProviderConfig {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn offering() -> Offering {
    Offering {
        name: "small-zone-a".to_owned(),
        instance_type: "small".to_owned(),
        zone: Some("zone-a".to_owned()),
        resources: Vec::new(),
        available: true,
        valid_until: "2030-01-01T00:10:00Z".to_owned(),
        attributes: Vec::new(),
    }
}

fn allocation() -> Allocation {
    Allocation {
        name: "claim".to_owned(),
        uid: "uid-1".to_owned(),
        class_name: "class".to_owned(),
        class_uid: "uid-2".to_owned(),
        host_name: "host".to_owned(),
        offering: offering(),
        planned_provider_id: "sim://planned-uid-1".to_owned(),
        host_image: "image-1".to_owned(),
    }
}

fn planned(kind: &str) -> OperationRequest {
    testing::request(kind, testing::machine("sim://planned-uid-1"))
}

fn count(cloud: &Fake, call: &str) -> usize {
    cloud.names().iter().filter(|name| *name == call).count()
}
