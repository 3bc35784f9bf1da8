//! Classes and plans.

use super::*;

fn class(pairs: &[(&str, &str)]) -> ClassRequest {
    ClassRequest {
        class_name: "small".to_owned(),
        class_uid: "c-1".to_owned(),
        site_name: "site-1".to_owned(),
        config: config(pairs),
    }
}

fn service() -> Fake {
    Fake::new().always("images", 200, json!({ "images": [{ "id": "7" }] })).always(
        "locations",
        200,
        json!({ "locations": [{ "name": "fsn1" }, { "name": "hel1" }, { "name": "ash" }] }),
    )
}

fn types(locations: Value) -> Value {
    json!({ "types": [
        { "name": "cx22", "cores": 2, "disk": 40, "architecture": "x86", "locations": locations },
        { "name": "cax11", "cores": 2, "disk": 40 },
    ] })
}

#[test]
fn a_class_becomes_an_offering_per_type_and_location_that_tells_what_can_be_had_now_r2_22() {
    let locations = json!([
        { "name": "fsn1", "available": true },
        { "name": "hel1", "available": false },
    ]);
    let service = service().always("server-types", 200, types(locations));
    let offerings = service.run(|| Hcloud::resolve_class(class(&CLASS), testing::credentials())).unwrap();
    let told: Vec<(&str, bool)> = offerings.iter().map(|it| (it.name.as_str(), it.available)).collect();
    assert_eq!(told, [("cx22-fsn1", true), ("cx22-hel1", false), ("cax11-fsn1", true), ("cax11-hel1", true)]);
    assert_eq!(offerings[0].valid_until, "2030-01-01T00:10:00Z");
    assert_eq!(offerings[0].zone.as_deref(), Some("fsn1"));
    assert!(offerings[0].resources.contains(&("cpu".to_owned(), "2".to_owned())));
    assert!(service.calls().iter().all(|call| call.key.is_none()), "resolving only reads (R2.21)");
}

#[test]
fn a_type_that_ends_is_offered_no_longer_than_the_service_sells_it_f17() {
    let locations = json!([
        { "name": "fsn1", "available": true, "ends": "2030-01-01T00:03:00Z" },
        { "name": "hel1", "available": true, "ends": "2029-06-01T00:00:00Z" },
    ]);
    let service = service().always("server-types", 200, types(locations));
    let offerings = service.run(|| Hcloud::resolve_class(class(&CLASS), testing::credentials())).unwrap();
    assert_eq!((offerings[0].available, offerings[0].valid_until.as_str()), (true, "2030-01-01T00:03:00Z"));
    assert!(!offerings[1].available);
}

#[test]
fn a_type_is_not_offered_where_it_is_not_sold() {
    let service = service().always("server-types", 200, types(json!([{ "name": "ash", "available": true }])));
    let offerings = service.run(|| Hcloud::resolve_class(class(&CLASS), testing::credentials())).unwrap();
    assert!(offerings[..2].iter().all(|it| !it.available) && offerings[2..].iter().all(|it| it.available));
}

#[test]
fn a_class_without_locations_is_offered_at_all_of_them() {
    let service = service().always("server-types", 200, types(json!([])));
    let pairs = [("image", "debian-13"), ("server-types", "cax11")];
    let offerings = service.run(|| Hcloud::resolve_class(class(&pairs), testing::credentials())).unwrap();
    assert_eq!(offerings.len(), 3);
}

#[test]
fn a_config_that_can_never_be_served_is_permanent_and_says_what_there_is() {
    let service = service().always("server-types", 200, types(json!([])));
    let cases = [
        (vec![("server-types", "cx22")], "`image` is missing"),
        (vec![("image", "debian-13")], "`server-types` names no server type"),
        (vec![("image", "debian-13"), ("server-types", "cx99")], "there are cx22, cax11"),
        (vec![("image", "debian-13"), ("server-types", "cx22"), ("locations", "mars1")], "fsn1, hel1, ash"),
        (vec![("image", "debian-13"), ("server-type", "cx22")], "`server-type` is no key"),
    ];
    for (pairs, told) in cases {
        let refused =
            service.run(|| Hcloud::resolve_class(class(&pairs), testing::credentials())).unwrap_err();
        assert!(matches!(&refused, Error::Permanent(failure) if failure.reason == "InvalidConfig"));
        assert!(refused.failure().message.contains(told), "{}", refused.failure().message);
    }
}

#[test]
fn an_image_that_is_not_there_is_told_when_the_class_is_resolved_f13() {
    let pairs = [("image", "debian-2"), ("server-types", "cx22")];
    let resolved = |image: &str| {
        let service = Fake::new().always("images", 200, json!({ "images": [] })).always(
            "locations",
            200,
            json!({ "locations": [{ "name": "fsn1" }] }),
        );
        let service = service.always("server-types", 200, types(json!([])));
        let pairs = [("image", image), pairs[1]];
        service.run(|| Hcloud::resolve_class(class(&pairs), testing::credentials()))
    };
    assert!(resolved("debian-2").unwrap_err().failure().message.contains("no available image `debian-2`"));
    assert!(resolved("123456").is_ok(), "snapshots have no names, and are used by number");
}

/// Field case E04.
#[test]
fn a_failed_read_of_the_catalogue_is_no_verdict_on_the_class() {
    let outage = Error::transient(Code::Unavailable, "Unavailable", "the service is away");
    let service = service().fails("server-types", outage);
    let answer = service.run(|| Hcloud::resolve_class(class(&CLASS), testing::credentials()));
    assert!(matches!(answer, Err(Error::Transient(_))));
}

#[test]
fn planning_asks_nobody_and_names_the_allocation_r2_24() {
    let service = Fake::new();
    let plan = || {
        service.run(|| {
            Hcloud::plan_allocation(PlanRequest {
                allocation_name: "allocation-1".to_owned(),
                allocation_uid: "0f1c8b9a-7b5e-4d1e-9a55-0123456789ab".to_owned(),
                host_name: "host-1".to_owned(),
                config: config(&CLASS),
                offering: offering(),
            })
        })
    };
    let planned = plan().unwrap();
    assert_eq!(planned.provider_id, "hcloud://planned-0f1c8b9a-7b5e-4d1e-9a55-0123456789ab");
    assert_eq!(planned.host_image, "debian-13");
    assert_eq!(plan().unwrap().provider_id, planned.provider_id);
    assert!(service.names().is_empty());
}
