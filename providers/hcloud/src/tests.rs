use super::*;
use holdfast_guest_sdk::testing::{self, Fake};
use serde_json::{Value, json};

fn config(pairs: &[(&str, &str)]) -> ProviderConfig {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn class(pairs: &[(&str, &str)]) -> ClassRequest {
    ClassRequest {
        class_name: "small".to_owned(),
        class_uid: "c-1".to_owned(),
        site_name: "site-1".to_owned(),
        config: config(pairs),
    }
}

const CLASS: [(&str, &str); 3] =
    [("image", "debian-13"), ("server-types", "cx22, cax11"), ("locations", "fsn1,hel1")];

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

fn parameters(kind: &str, pairs: &[(&str, &str)]) -> OperationRequest {
    OperationRequest { parameters: config(pairs), ..request(kind) }
}

fn server(state: &str) -> Value {
    json!({ "state": state, "type": "cx22", "place": "fsn1", "image": "debian-13" })
}

fn made() -> Value {
    json!({ "id": "42", "action": "7" })
}

fn begin_allocate() -> Result<BeginResult, Error> {
    let config = config(&CLASS);
    Hcloud::begin_allocate(
        request("HostAllocate"),
        allocation(),
        config,
        testing::credentials(),
        testing::user_data(),
    )
}

fn poll_allocate(begun: &BeginResult, accepted: &str) -> Result<AllocatePollResult, Error> {
    let request = OperationRequest { accepted_at: Some(accepted.to_owned()), ..request("HostAllocate") };
    Hcloud::poll_allocate(request, allocation(), begun.operation.clone(), testing::credentials())
}

const JUST_NOW: &str = "2029-12-31T23:59:30Z";

fn owned(ids: &[&str]) -> Vec<OwnedResource> {
    ids.iter().map(|id| OwnedResource::new(SERVER, *id)).collect()
}

fn count(service: &Fake, call: &str) -> usize {
    service.names().iter().filter(|name| *name == call).count()
}

// ---- classes ----

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

// ---- allocating ----

#[test]
fn a_server_is_allocated_once_it_is_seen_running_r2_34() {
    let service = Fake::new()
        .reply("create", 201, made())
        .reply("action", 200, json!({ "state": "running" }))
        .always("action", 200, json!({ "state": "success" }))
        .reply("server", 200, server("starting"))
        .always("server", 200, server("running"));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        for _ in 0..2 {
            let polled = poll_allocate(&begun, JUST_NOW).unwrap();
            assert!(matches!(polled.state, State::InProgress));
            assert_eq!(polled.owned_resources[0].id, "42", "told from the first moment on (R2.27)");
        }
        let polled = poll_allocate(&begun, JUST_NOW).unwrap();
        assert!(matches!(polled.state, State::Succeeded));
        let result = polled.result.unwrap();
        assert_eq!(result.provider_id.as_deref(), Some("hcloud://42"));
        assert_eq!((result.instance_type.as_str(), result.zone.as_deref()), ("cx22", Some("fsn1")));
    });
    let create = &service.calls()[0];
    assert_eq!((create.args.clone(), create.user_data.clone()), (json!({}), vec!["user-data".to_owned()]));
}

#[test]
fn begin_called_again_before_its_handle_was_stored_makes_no_second_server_a01() {
    let service = Fake::new().reply("create", 201, made());
    service.run(|| {
        let first = begin_allocate().unwrap();
        let again = begin_allocate().unwrap();
        assert_eq!(first.operation.resume_token, again.operation.resume_token);
    });
    assert_eq!(count(&service, "create"), 1);
}

#[test]
fn a_create_in_doubt_waits_and_is_taken_when_the_lookup_found_it_b07() {
    let service = Fake::new()
        .in_doubt("create", Some(Duration::from_secs(3)))
        // What a lookup settles has no action: only the id is in the list.
        .reply("create", 200, json!({ "id": "42" }))
        .always("server", 200, server("running"));
    service.run(|| {
        let first = begin_allocate().unwrap_err();
        assert!(matches!(&first, Error::Transient(failure) if failure.retry_after == Some(3000)));
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&service, "action"), 0);
}

#[test]
fn a_refused_create_keeps_the_class_of_its_refusal() {
    for code in [Code::CapacityExhausted, Code::QuotaExceeded, Code::PermissionDenied, Code::Throttled] {
        let refusal = Error::transient(code.clone(), "Refused", "the service refused");
        let service = Fake::new().fails("create", refusal);
        let refused = service.run(begin_allocate).unwrap_err();
        assert_eq!(format!("{:?}", refused.failure().code), format!("{code:?}"));
    }
}

#[test]
fn a_server_that_is_not_shown_yet_is_waited_for_but_not_for_ever_a03_a06() {
    let gone = || Error::not_found("NotFound", "there is none");
    let service = Fake::new()
        .reply("create", 201, made())
        .always("action", 200, json!({ "state": "success" }))
        .fails("server", gone())
        .fails("server", gone())
        .fails("server", gone());
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::InProgress));
        let late = poll_allocate(&begun, "2029-12-31T23:50:00Z").unwrap();
        assert!(matches!(late.state, State::Failed));
        assert_eq!((late.reason.as_str(), late.owned_resources.len()), ("ServerVanished", 1));
        let mut given_up = request("HostAllocate");
        given_up.deadline = Some("2029-12-31T23:59:59Z".to_owned());
        given_up.accepted_at = Some(JUST_NOW.to_owned());
        let ended =
            Hcloud::poll_allocate(given_up, allocation(), begun.operation.clone(), testing::credentials());
        assert!(matches!(ended.unwrap().state, State::Failed));
    });
}

#[test]
fn a_create_that_fails_later_says_why_and_its_server_stays_owned_b03_e18() {
    for (word, reason) in [
        ("resource_unavailable", "CapacityExhausted"),
        ("placement_error", "CapacityExhausted"),
        ("resource_limit_exceeded", "QuotaExceeded"),
        ("action_failed", "CreateFailed"),
    ] {
        let service = Fake::new().reply("create", 201, made()).always(
            "action",
            200,
            json!({ "state": "error", "error": word }),
        );
        let polled = service.run(|| poll_allocate(&begin_allocate().unwrap(), JUST_NOW)).unwrap();
        assert!(matches!(polled.state, State::Failed));
        assert_eq!((polled.reason.as_str(), polled.owned_resources[0].id.as_str()), (reason, "42"));
    }
}

#[test]
fn a_poll_that_cannot_see_keeps_the_operation_going_c17() {
    let outage = || Error::transient(Code::Unavailable, "Unavailable", "the service is away");
    let service = Fake::new()
        .reply("create", 201, made())
        .fails("action", outage())
        .fails("action", Error::not_found("Forgotten", "the service forgets its actions"))
        .always("server", 200, server("running"));
    service.run(|| {
        let begun = begin_allocate().unwrap();
        assert!(matches!(poll_allocate(&begun, JUST_NOW), Err(Error::Transient(_))));
        assert!(matches!(poll_allocate(&begun, JUST_NOW).unwrap().state, State::Succeeded));
    });
}

// ---- releasing ----

fn begin_release(ids: &[&str]) -> Result<BeginResult, Error> {
    Hcloud::begin_release(request("HostRelease"), allocation(), owned(ids), testing::credentials())
}

fn poll_release(ids: &[&str], begun: &BeginResult) -> Result<ReleasePollResult, Error> {
    let operation = begun.operation.clone();
    Hcloud::poll_release(request("HostRelease"), allocation(), owned(ids), operation, testing::credentials())
}

#[test]
fn a_release_ends_when_the_server_is_no_longer_shown() {
    let service = Fake::new()
        .reply("delete", 200, json!({ "action": "8" }))
        .reply("server", 200, server("deleting"))
        .fails("server", Error::not_found("NotFound", "there is none"));
    service.run(|| {
        let begun = begin_release(&["42"]).unwrap();
        begin_release(&["42"]).unwrap();
        let waiting = poll_release(&["42"], &begun).unwrap();
        assert!(matches!(waiting.state, State::InProgress));
        assert_eq!(waiting.remaining[0].id, "42");
        assert!(matches!(poll_release(&["42"], &begun).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&service, "delete"), 1);
}

#[test]
fn a_release_of_nothing_asks_nobody_and_succeeds_c08() {
    let service = Fake::new();
    let polled = service.run(|| poll_release(&[], &begin_release(&[]).unwrap())).unwrap();
    assert!(matches!(polled.state, State::Succeeded));
    assert!(service.names().is_empty());
}

#[test]
fn a_locked_server_is_deleted_later_b13() {
    let locked = Error::transient(Code::Conflict, "Locked", "an action is running");
    let service = Fake::new().fails("delete", locked).reply("delete", 200, json!({}));
    service.run(|| {
        assert!(matches!(begin_release(&["42"]), Err(Error::Transient(_))));
        begin_release(&["42"]).unwrap();
    });
}

#[test]
fn a_resource_that_this_provider_never_makes_is_not_touched() {
    let service = Fake::new();
    let foreign = vec![OwnedResource::new("volume", "42")];
    let refused = service
        .run(|| Hcloud::begin_release(request("HostRelease"), allocation(), foreign, testing::credentials()));
    assert!(matches!(refused, Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}

// ---- power and rebuild ----

fn begin(request: OperationRequest) -> Result<BeginResult, Error> {
    Hcloud::begin(request, testing::credentials(), Some(testing::user_data()))
}

fn poll(request: OperationRequest, begun: &BeginResult) -> Poll {
    Hcloud::poll(request, begun.operation.clone(), testing::credentials()).unwrap()
}

#[test]
fn a_reboot_is_off_seen_off_on_seen_on_n23() {
    let service = Fake::new()
        .reply("server", 200, server("running"))
        .reply("shut-down", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "success" }))
        .reply("server", 200, server("running"))
        .reply("server", 200, server("off"))
        .reply("power-on", 201, json!({ "action": "2" }))
        .reply("server", 200, server("starting"))
        .reply("server", 200, server("running"));
    service.run(|| {
        let begun = begin(request("HostReboot")).unwrap();
        for _ in 0..3 {
            assert!(matches!(poll(request("HostReboot"), &begun).state, State::InProgress));
        }
        assert!(matches!(poll(request("HostReboot"), &begun).state, State::Succeeded));
    });
    assert_eq!((count(&service, "shut-down"), count(&service, "power-on")), (1, 1));
}

#[test]
fn power_is_cut_only_where_it_was_asked_for_r2_35() {
    for (pairs, call) in [(vec![], "shut-down"), (vec![("force", "true")], "power-off")] {
        let service =
            Fake::new().always("server", 200, server("running")).reply(call, 201, json!({ "action": "1" }));
        service.run(|| begin(parameters("HostPowerOff", &pairs)).unwrap());
        assert_eq!(count(&service, call), 1);
    }
    for pairs in [[("forced", "true")], [("force", "yes")]] {
        assert!(matches!(begin(parameters("HostPowerOff", &pairs)), Err(Error::Permanent(_))));
    }
    assert!(matches!(begin(parameters("HostPowerOn", &[("force", "true")])), Err(Error::Permanent(_))));
}

#[test]
fn a_server_that_is_already_there_is_not_asked_e17() {
    let service = Fake::new().always("server", 200, server("running"));
    service.run(|| {
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "power-on"), 0);
}

#[test]
fn a_power_on_in_doubt_is_asked_again_although_the_server_is_seen_on() {
    let service = Fake::new()
        .reply("server", 200, server("off"))
        .in_doubt("power-on", None)
        .always("server", 200, server("running"))
        .reply("power-on", 201, json!({ "action": "2" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        assert!(matches!(begin(request("HostPowerOn")), Err(Error::Transient(_))));
        let begun = begin(request("HostPowerOn")).unwrap();
        assert!(matches!(poll(request("HostPowerOn"), &begun).state, State::Succeeded));
    });
    assert_eq!(count(&service, "power-on"), 2);
}

#[test]
fn a_shutdown_that_is_ignored_ends_when_it_is_no_longer_wanted_n16() {
    let service = Fake::new()
        .always("server", 200, server("running"))
        .reply("shut-down", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        let begun = begin(request("HostPowerOff")).unwrap();
        assert!(matches!(poll(request("HostPowerOff"), &begun).state, State::InProgress));
        let late =
            OperationRequest { deadline: Some("2029-01-01T00:00:00Z".to_owned()), ..request("HostPowerOff") };
        let ended = poll(late, &begun);
        assert!(matches!(ended.state, State::Canceled));
        assert!(ended.message.contains("may still take effect"), "{}", ended.message);
    });
    assert_eq!(count(&service, "power-off"), 0);
}

#[test]
fn an_action_that_ends_badly_fails_the_operation_e18() {
    let service = Fake::new()
        .always("server", 200, server("running"))
        .reply("power-off", 201, json!({ "action": "1" }))
        .always("action", 200, json!({ "state": "error", "error": "action_failed" }));
    service.run(|| {
        let request = || parameters("HostPowerOff", &[("force", "true")]);
        let begun = begin(request()).unwrap();
        let polled = poll(request(), &begun);
        assert!(matches!(polled.state, State::Failed));
        assert!(polled.message.contains("action_failed"));
    });
}

#[test]
fn a_rebuild_keeps_the_server_and_hands_it_other_first_boot_data() {
    let service = Fake::new()
        .reply("rebuild", 201, json!({ "action": "3" }))
        .always("server", 200, server("running"))
        .reply("action", 200, json!({ "state": "running" }))
        .always("action", 200, json!({ "state": "success" }));
    service.run(|| {
        let begun = begin(request("HostReplace")).unwrap();
        begin(request("HostReplace")).unwrap();
        // Running it was before: the action tells, not the state.
        assert!(matches!(poll(request("HostReplace"), &begun).state, State::InProgress));
        let done = poll(request("HostReplace"), &begun);
        assert!(matches!(done.state, State::Succeeded));
        let result = done.result.unwrap();
        assert_eq!((result.provider_id, result.cleanup_provider_id), (None, None));
    });
    assert_eq!(count(&service, "rebuild"), 1);
    assert_eq!(service.calls()[0].user_data, ["user-data"]);
}

#[test]
fn a_machine_of_another_cloud_is_refused_before_anything_is_asked() {
    let service = Fake::new();
    let foreign = testing::request("HostPowerOn", testing::machine("aws:///eu-west-1a/i-1"));
    assert!(matches!(service.run(|| begin(foreign)), Err(Error::Permanent(_))));
    assert!(service.names().is_empty());
}

// ---- the manifest ----

#[test]
fn the_manifest_is_accepted_and_every_destroy_names_a_server() {
    let manifest = holdfast_manifest::Manifest::parse(include_str!("../provider.toml")).unwrap();
    let create = &manifest.calls["create"];
    // A taken name is a doubt that the lookup settles, never a refusal (A11).
    let taken = |key: &holdfast_manifest::AnswerKey| key.word.as_deref() == Some("uniqueness_error");
    assert!(create.answers.fails.keys().any(taken) && !create.answers.rejects.keys().any(taken));
    let destroys: Vec<&str> = manifest
        .calls
        .values()
        .filter(|call| call.effect == holdfast_manifest::EffectKind::Destroy)
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(destroys, ["delete"]);
    assert_eq!(manifest.calls["delete"].args["id"].on.as_deref(), Some("server"));
}

#[test]
fn every_word_of_the_service_has_the_class_that_says_what_happened_e09() {
    let manifest = holdfast_manifest::Manifest::parse(include_str!("../provider.toml")).unwrap();
    let meaning = |call: &str, word: &str| {
        let answers = [&manifest.calls[call].answers, &manifest.endpoints["api"].answers];
        let named = |key: &holdfast_manifest::AnswerKey| key.word.as_deref() == Some(word);
        answers.into_iter().find_map(|answers| {
            let code = |codes: &std::collections::BTreeMap<_, String>| {
                codes.iter().find(|(key, _)| named(key)).map(|(_, code)| code.clone())
            };
            let gone = answers.gone.iter().any(&named).then(|| "gone".to_owned());
            gone.or_else(|| code(&answers.rejects))
                .or_else(|| code(&answers.fails).map(|it| format!("unclear: {it}")))
        })
    };
    for (call, word, expected) in [
        ("create", "resource_unavailable", Some("capacity-exhausted")),
        ("create", "placement_error", Some("capacity-exhausted")),
        ("create", "resource_limit_exceeded", Some("quota-exceeded")),
        ("create", "uniqueness_error", Some("unclear: already-exists")),
        ("create", "invalid_input", Some("invalid-input")),
        ("create", "unauthorized", Some("unauthenticated")),
        ("create", "forbidden", Some("permission-denied")),
        ("create", "rate_limit_exceeded", Some("throttled")),
        ("create", "service_error", None),
        ("delete", "locked", Some("conflict")),
        ("delete", "protected", Some("permission-denied")),
        ("delete", "not_found", Some("gone")),
        ("rebuild", "locked", Some("conflict")),
        ("power-on", "conflict", Some("conflict")),
    ] {
        assert_eq!(meaning(call, word).as_deref(), expected, "{word} of {call}");
    }
}
