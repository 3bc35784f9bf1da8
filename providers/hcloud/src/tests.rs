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
    [("image", "debian-13"), ("server-types", "cx22, cax11"), ("locations", "fsn1,hel1")];

fn offering() -> Offering {
    Offering {
        name: "cx22-fsn1".to_owned(),
        instance_type: "cx22".to_owned(),
        zone: Some("fsn1".to_owned()),
        resources: Vec::new(),
        available: true,
        valid_until: "2030-01-01T00:10:00Z".to_owned(),
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
        planned_provider_id: "hcloud://planned-a-1".to_owned(),
        host_image: "debian-13".to_owned(),
    }
}

fn request(kind: &str) -> OperationRequest {
    testing::request(kind, testing::machine("hcloud://42"))
}

fn server(state: &str) -> Value {
    json!({ "state": state, "type": "cx22", "place": "fsn1", "image": "debian-13" })
}

fn count(service: &Fake, call: &str) -> usize {
    service.names().iter().filter(|name| *name == call).count()
}
