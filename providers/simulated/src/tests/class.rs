//! Offerings and plans.

use super::*;

fn cloud(left: Value) -> Fake {
    let types = json!([
        { "name": "small", "cpus": 2, "memory": 4096 },
        { "name": "large", "cpus": 16, "memory": 65536 },
    ]);
    let zones = json!([
        { "name": "zone-a", "capacity": [{ "type": "small", "left": left }, { "type": "large" }] },
        { "name": "zone-b", "capacity": [{ "type": "small" }] },
    ]);
    Fake::new().always("types", 200, json!({ "types": types })).always(
        "zones",
        200,
        json!({ "zones": zones, "valid": 90 }),
    )
}

fn resolve(cloud: &Fake, pairs: &[(&str, &str)]) -> Result<Vec<Offering>, Error> {
    let request = testing::class_request(testing::config(pairs));
    cloud.run(|| Simulated::resolve_class(request, testing::credentials()))
}

#[test]
fn a_class_offers_each_type_in_each_zone_and_says_truthfully_what_can_be_had_r2_22() {
    let offerings = resolve(&cloud(json!(0)), &[("image", "image-1")]).unwrap();
    let seen: Vec<_> = offerings.iter().map(|one| (one.name.as_str(), one.available)).collect();
    assert_eq!(
        seen,
        [("small-zone-a", false), ("small-zone-b", true), ("large-zone-a", true), ("large-zone-b", false)]
    );
    assert_eq!(offerings[0].resources[1], ("memory".to_owned(), "4096Mi".to_owned()));
    assert!(offerings.iter().all(|one| one.valid_until == "2030-01-01T00:01:30Z"));
    let room = resolve(&cloud(json!(1)), &[("image", "i"), ("types", "small"), ("zones", "zone-a")]).unwrap();
    assert_eq!((room.len(), room[0].available), (1, true));
}

#[test]
fn a_class_is_resolved_by_reading_alone_r2_21() {
    let cloud = cloud(json!(1));
    resolve(&cloud, &[("image", "image-1"), ("volumes", "10"), ("nics", "2")]).unwrap();
    assert!(cloud.calls().iter().all(|call| call.key.is_none()));
}

#[test]
fn a_config_that_cannot_be_served_is_refused_for_good_with_its_reason() {
    for (pairs, word) in [
        (vec![], "`image` is missing"),
        (vec![("image", " ")], "`image` is missing"),
        (vec![("image", "i"), ("typs", "small")], "no key of this provider"),
        (vec![("image", "i"), ("types", "small, huge")], "names `huge`"),
        (vec![("image", "i"), ("zones", "zone-z")], "there are zone-a, zone-b"),
        (vec![("image", "i"), ("volumes", "10,none")], "sizes in GiB"),
        (vec![("image", "i"), ("volumes", "0")], "sizes in GiB"),
        (vec![("image", "i"), ("volumes", "1,1,1,1,1,1,1,1,1")], "at most 8"),
        (vec![("image", "i"), ("nics", "9")], "at most 8"),
        (vec![("image", "i"), ("nics", "-1")], "is a number"),
    ] {
        let error = resolve(&cloud(json!(1)), &pairs).unwrap_err();
        let Error::Permanent(failure) = error else { panic!("{pairs:?}: {error:?}") };
        assert_eq!(failure.reason, "InvalidConfig");
        assert!(failure.message.contains(word), "{pairs:?}: {}", failure.message);
    }
}

#[test]
fn a_cloud_that_is_away_is_asked_again() {
    let away = Error::transient(Code::Unavailable, "Away", "the cloud is away");
    let error = resolve(&Fake::new().fails("types", away), &[("image", "i")]).unwrap_err();
    assert!(matches!(error, Error::Transient(_)));
}

#[test]
fn a_plan_is_made_of_the_request_alone_r2_24() {
    let request = |pairs| testing::plan_request(testing::config(pairs), testing::offering("small", "zone-a"));
    // No host here: whatever it asked for would be a panic.
    let plan = |pairs| Simulated::plan_allocation(request(pairs));
    let known: &[(&str, &str)] = &[("image", "image-1")];
    let first = plan(known).unwrap();
    let uid = request(known).allocation_uid;
    assert_eq!(
        (first.provider_id.clone(), first.host_image.as_str()),
        (format!("sim://planned-{uid}"), "image-1")
    );
    let again = plan(known).unwrap();
    assert_eq!((first.provider_id, first.host_image), (again.provider_id, again.host_image));
    assert!(matches!(plan(&[]), Err(Error::Permanent(_))));
}
