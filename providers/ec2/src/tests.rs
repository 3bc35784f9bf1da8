use super::*;
use holdfast_guest_sdk::testing::{self, Fake};
use serde_json::{Value, json};

mod capacity;
mod classes;
mod manifest;
mod powers;

fn config(pairs: &[(&str, &str)]) -> ProviderConfig {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

const CLASS: [(&str, &str); 3] =
    [("image", "ami-1"), ("instance-types", "t3.micro, m7g.large"), ("zones", "eu-west-1a,eu-west-1b")];

fn offering() -> Offering {
    Offering {
        name: "t3.micro-eu-west-1a".to_owned(),
        instance_type: "t3.micro".to_owned(),
        zone: Some("eu-west-1a".to_owned()),
        resources: Vec::new(),
        available: true,
        valid_until: "2030-01-01T00:30:00Z".to_owned(),
        attributes: Vec::new(),
    }
}

fn allocation() -> Allocation {
    Allocation {
        name: "allocation-1".to_owned(),
        uid: "a-1".to_owned(),
        class_name: "small".to_owned(),
        class_uid: "c-1".to_owned(),
        host_name: "host-1".to_owned(),
        offering: offering(),
        planned_provider_id: "aws:///eu-west-1a/planned-a-1".to_owned(),
        host_image: "ami-1".to_owned(),
    }
}

/// An operation of a machine that does not exist yet, or of one that does.
fn request(kind: &str) -> OperationRequest {
    let id = match kind {
        "HostAllocate" => "aws:///eu-west-1a/planned-a-1",
        _ => "aws:///eu-west-1a/i-1",
    };
    testing::request(kind, testing::machine(id))
}

fn instance(state: &str) -> Value {
    json!({ "state": state, "type": "t3.micro", "zone": "eu-west-1a", "image": "ami-1", "volumes": ["vol-1"] })
}

fn not_found() -> Error {
    Error::not_found("NotFound", "there is none")
}

fn outage() -> Error {
    Error::transient(Code::Unavailable, "Unavailable", "the service is away")
}

fn count(service: &Fake, call: &str) -> usize {
    service.names().iter().filter(|name| *name == call).count()
}
