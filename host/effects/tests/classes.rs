//! Offerings and plans, before anybody believes them (R2.22, R2.24).

mod kit;

use holdfast_effects::*;
use kit::cloud::SECRET;
use kit::*;

fn offering(name: &str) -> ClassOffering {
    ClassOffering {
        name: name.into(),
        instance_type: "m5.large".into(),
        zone: Some("eu-1a".into()),
        resources: vec![("cpu".into(), "4".into()), ("memory".into(), "16Gi".into())],
        available: true,
        valid_until: "2027-01-15T08:10:00Z".into(),
        attributes: vec![("ami".into(), "x y".into())],
    }
}

fn resolve(offerings: Vec<ClassOffering>) -> Result<Vec<ClassOffering>, Violation> {
    let house = House::new();
    match house.open(context(Phase::Observe)).accept(Returned::ResolveClass(Ok(offerings)))? {
        Returned::ResolveClass(Ok(offerings)) => Ok(offerings),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn offerings_that_keep_the_rules_come_back_as_they_were_r2_22() {
    let two = vec![offering("a"), offering("b")];
    assert_eq!(resolve(two.clone()).unwrap(), two);
    assert_eq!(resolve(Vec::new()).unwrap(), Vec::new());
    let zoneless = ClassOffering { zone: Some(String::new()), ..offering("a") };
    assert_eq!(resolve(vec![zoneless]).unwrap()[0].zone, None);
}

#[tokio::test]
async fn an_offering_lives_a_day_at_most_and_its_time_is_rewritten() {
    for (given, kept) in [
        ("2027-01-15T09:10:00+01:00", "2027-01-15T08:10:00Z"),
        ("2099-01-01T00:00:00Z", "2027-01-16T08:00:00Z"),
    ] {
        let one = ClassOffering { valid_until: given.into(), ..offering("a") };
        assert_eq!(resolve(vec![one]).unwrap()[0].valid_until, kept);
    }
}

#[tokio::test]
async fn an_offering_that_breaks_a_rule_is_refused_in_one_sentence_r2_22() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let with = |change: fn(&mut ClassOffering)| {
        let mut one = offering("a");
        change(&mut one);
        vec![one]
    };
    let wrong = [
        vec![offering("a"), offering("a")],
        (0..513).map(|n| offering(&format!("o{n}"))).collect(),
        vec![offering("Upper")],
        vec![offering("")],
        with(|one| one.instance_type = " ".into()),
        with(|one| one.instance_type = "a\u{1b}b".into()),
        with(|one| one.zone = Some("z".repeat(257))),
        with(|one| one.valid_until = "2027-01-15T08:00:00Z".into()),
        with(|one| one.valid_until = "soon".into()),
        with(|one| one.valid_until = String::new()),
        with(|one| one.attributes = vec![("k".into(), "v".repeat(4096))]),
        with(|one| one.attributes = vec![("k".into(), "a\nb".into())]),
        vec![ClassOffering { resources: vec![pair("cpu", "4"), pair("cpu", "5")], ..offering("a") }],
        vec![ClassOffering { resources: vec![pair("memory", "lots")], ..offering("a") }],
        vec![ClassOffering { resources: vec![pair("", "1")], ..offering("a") }],
        vec![ClassOffering { attributes: vec![pair("k", "1"), pair("k", "2")], ..offering("a") }],
        (0..200)
            .map(|n| ClassOffering {
                attributes: vec![pair("k", &"v".repeat(4000))],
                ..offering(&format!("o{n}"))
            })
            .collect(),
    ];
    for (n, offerings) in wrong.into_iter().enumerate() {
        let violation = resolve(offerings).unwrap_err();
        assert_eq!(violation.reason, "BadOffering", "{n}");
        assert!(violation.message.contains("R2.22"), "{n}: {}", violation.message);
    }
}

#[tokio::test]
async fn a_secret_in_an_offering_ends_the_guest_r2_6() {
    let s = || format!("x{SECRET}y");
    let leaks = [
        ClassOffering { name: s(), ..offering("a") },
        ClassOffering { instance_type: s(), ..offering("a") },
        ClassOffering { zone: Some(s()), ..offering("a") },
        ClassOffering { valid_until: s(), ..offering("a") },
        ClassOffering { resources: vec![(s(), "1".into())], ..offering("a") },
        ClassOffering { resources: vec![("cpu".into(), s())], ..offering("a") },
        ClassOffering { attributes: vec![(s(), String::new())], ..offering("a") },
        ClassOffering { attributes: vec![("k".into(), s())], ..offering("a") },
    ];
    for (n, leak) in leaks.into_iter().enumerate() {
        let violation = resolve(vec![leak]).unwrap_err();
        assert_eq!(violation.reason, "SecretInOutput", "{n}");
        assert!(!violation.message.contains("canary"), "{n}");
    }
}

#[tokio::test]
async fn a_plan_names_a_printable_locator_r2_24() {
    let house = House::new();
    let session = house.open(context(Phase::Pure));
    let plan = |id: &str, image: &str| {
        let plan = Plan { provider_id: id.into(), host_image: image.into() };
        session.accept(Returned::PlanAllocation(Ok(plan)))
    };
    let good = Plan { provider_id: "fake://planned".into(), host_image: String::new() };
    assert_eq!(plan("fake://planned", "").unwrap(), Returned::PlanAllocation(Ok(good)));
    for (id, image) in [("", "i"), (" ", "i"), ("a\tb", "i"), ("a", "b\u{202e}"), (&"x".repeat(2049), "i")] {
        let violation = plan(id, image).unwrap_err();
        assert_eq!(violation.reason, "BadPlan", "{id:?} {image:?}");
        assert!(violation.message.contains("R2.24"));
    }
    assert_eq!(plan(SECRET, "").unwrap_err().reason, "SecretInOutput");
    assert_eq!(plan("a", SECRET).unwrap_err().reason, "SecretInOutput");
}

#[tokio::test]
async fn a_class_is_resolved_by_reading_alone_r2_21() {
    let house = House::new();
    let session = house.open(context(Phase::Observe));
    assert_eq!(violated(session.perform("k".into(), no_args("make-bare")).await).reason, "WrongPhase");
    assert_eq!(house.cloud.sent("make-bare"), 0);
}
