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

fn resolve(service: &Fake, pairs: &[(&str, &str)]) -> Result<Vec<Offering>, Error> {
    service.run(|| Ec2::resolve_class(class(pairs), testing::credentials()))
}

fn region(architecture: &str) -> Fake {
    let zone = |name: &str, state: &str| json!({ "name": name, "state": state });
    let sold = |ty: &str, zone: &str| json!({ "type": ty, "zone": zone });
    Fake::new()
        .always("image", 200, json!({ "images": [{ "state": "available", "architecture": architecture }] }))
        .always(
            "zones",
            200,
            json!({ "zones": [
            zone("eu-west-1a", "available"),
            zone("eu-west-1b", "available"),
            zone("eu-west-1c", "impaired"),
        ] }),
        )
        .always(
            "types",
            200,
            json!({ "types": [
            { "name": "t3.micro", "cpus": 2, "memory": 1024, "architectures": ["x86_64"] },
            { "name": "m7g.large", "cpus": 2, "memory": 8192, "architectures": ["arm64"] },
            { "name": "m5.large", "cpus": 2, "memory": 8192, "architectures": ["i386", "x86_64"] },
        ] }),
        )
        .always(
            "sold",
            200,
            json!({ "sold": [
            sold("t3.micro", "eu-west-1a"),
            sold("t3.micro", "eu-west-1c"),
            sold("m5.large", "eu-west-1b"),
        ] }),
        )
}

#[test]
fn a_class_becomes_an_offering_per_type_and_zone_that_tells_where_it_can_be_had_r2_22() {
    let service = region("x86_64");
    let pairs = [("image", "ami-1"), ("instance-types", "t3.micro,m5.large")];
    let offerings = resolve(&service, &pairs).unwrap();
    let told: Vec<(&str, bool)> = offerings.iter().map(|it| (it.name.as_str(), it.available)).collect();
    assert_eq!(
        told,
        [
            ("t3.micro-eu-west-1a", true),
            ("t3.micro-eu-west-1b", false),
            // Sold there, but the zone is impaired.
            ("t3.micro-eu-west-1c", false),
            ("m5.large-eu-west-1a", false),
            ("m5.large-eu-west-1b", true),
            ("m5.large-eu-west-1c", false),
        ]
    );
    assert_eq!(offerings[0].valid_until, "2030-01-01T00:30:00Z");
    assert!(offerings[0].resources.contains(&("memory".to_owned(), "1024Mi".to_owned())));
    assert!(service.calls().iter().all(|call| call.key.is_none()), "resolving only reads (R2.21)");
    let asked = service.calls().into_iter().find(|call| call.name == "types").unwrap();
    assert_eq!(asked.args, json!({ "names": ["t3.micro", "m5.large"] }));
}

#[test]
fn a_subnet_says_its_zone_and_a_full_one_offers_nothing() {
    let pairs = [("image", "ami-1"), ("instance-types", "t3.micro"), ("subnet", "subnet-1")];
    for (free, available) in [(7, true), (0, false)] {
        let subnet = json!({ "subnets": [{ "zone": "eu-west-1a", "free": free }] });
        let offerings = resolve(&region("x86_64").always("subnet", 200, subnet), &pairs).unwrap();
        assert_eq!(offerings.len(), 1);
        assert_eq!((offerings[0].zone.as_deref(), offerings[0].available), (Some("eu-west-1a"), available));
    }
}

#[test]
fn a_config_that_can_never_be_served_is_permanent_and_says_why() {
    let image = ("image", "ami-1");
    let types = ("instance-types", "t3.micro");
    let cases = [
        (vec![types], "`image` is missing"),
        (vec![image], "`instance-types` names no instance type"),
        (vec![image, ("instance-types", "t9.giga")], "no instance type `t9.giga`"),
        (vec![image, ("instance-types", "m7g.large")], "the image is for x86_64, `m7g.large` runs arm64"),
        (vec![image, types, ("zones", "mars-1a")], "it has eu-west-1a, eu-west-1b, eu-west-1c"),
        (vec![image, types, ("zones", "eu-west-1a"), ("subnet", "subnet-1")], "exclude each other"),
        (vec![image, types, ("root-size", "20")], "need each other"),
        (vec![image, types, ("sub-net", "subnet-1")], "`sub-net` is no key"),
    ];
    for (pairs, told) in cases {
        let refused = resolve(&region("x86_64"), &pairs).unwrap_err();
        assert!(matches!(&refused, Error::Permanent(failure) if failure.reason == "InvalidConfig"));
        assert!(refused.failure().message.contains(told), "{}", refused.failure().message);
    }
}

#[test]
fn an_image_or_a_subnet_that_is_not_there_is_told_when_the_class_is_resolved_f13() {
    let pairs = [("image", "ami-9"), ("instance-types", "t3.micro"), ("subnet", "subnet-9")];
    let refused = resolve(&Fake::new().fails("image", not_found()), &pairs).unwrap_err();
    assert!(refused.failure().message.contains("no image `ami-9`"));
    let pending = json!({ "images": [{ "state": "pending", "architecture": "x86_64" }] });
    let refused = resolve(&Fake::new().reply("image", 200, pending), &pairs).unwrap_err();
    assert!(refused.failure().message.contains("`ami-9` is pending"));
    let refused = resolve(&region("x86_64").fails("subnet", not_found()), &pairs).unwrap_err();
    assert!(refused.failure().message.contains("no subnet `subnet-9`"));
}

#[test]
fn a_failed_read_is_no_verdict_on_the_class_e03() {
    for call in ["image", "zones", "types", "sold"] {
        let answer =
            resolve(&region("x86_64").fails(call, outage()), &[CLASS[0], ("instance-types", "t3.micro")]);
        assert!(matches!(answer, Err(Error::Transient(_))), "{call}");
    }
}

fn plan(zone: Option<&str>) -> Result<Plan, Error> {
    Fake::new().run(|| {
        Ec2::plan_allocation(PlanRequest {
            allocation_name: "allocation-1".to_owned(),
            allocation_uid: "0f1c8b9a-7b5e-4d1e-9a55-0123456789ab".to_owned(),
            host_name: "host-1".to_owned(),
            config: config(&CLASS),
            offering: Offering { zone: zone.map(str::to_owned), ..offering() },
        })
    })
}

#[test]
fn planning_asks_nobody_and_names_zone_and_allocation_r2_24() {
    let planned = plan(Some("eu-west-1a")).unwrap();
    assert_eq!(planned.provider_id, "aws:///eu-west-1a/planned-0f1c8b9a-7b5e-4d1e-9a55-0123456789ab");
    assert_eq!(planned.host_image, "ami-1");
    assert_eq!(plan(Some("eu-west-1a")).unwrap().provider_id, planned.provider_id);
    assert!(matches!(plan(None), Err(Error::Permanent(_))));
}
