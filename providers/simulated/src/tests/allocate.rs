//! HostAllocate: each part once, whatever is lost.

use super::*;

const PARTS: [(&str, &str); 3] = [("image", "image-1"), ("volumes", "20,100"), ("nics", "1")];

fn begin(pairs: &[(&str, &str)]) -> Result<BeginResult, Error> {
    let (request, config) = (planned("HostAllocate"), testing::config(pairs));
    Simulated::begin_allocate(request, allocation(), config, testing::credentials(), testing::user_data())
}

fn poll(begun: &BeginResult) -> Result<AllocatePollResult, Error> {
    poll_until(begun, None)
}

fn poll_until(begun: &BeginResult, deadline: Option<&str>) -> Result<AllocatePollResult, Error> {
    let request = OperationRequest { deadline: deadline.map(str::to_owned), ..planned("HostAllocate") };
    Simulated::poll_allocate(request, allocation(), begun.operation.clone(), testing::credentials())
}

fn server(state: &str) -> Value {
    json!({ "state": state, "boots": 0, "created": "2026-01-02T03:04:05Z", "type": "small", "zone": "zone-a", "image": "image-1" })
}

fn made(id: &str) -> Value {
    match id.starts_with("srv-") {
        true => json!({ "id": id, "created": "2026-01-02T03:04:05Z" }),
        false => json!({ "id": id }),
    }
}

fn ids(owned: &[OwnedResource]) -> Vec<(&str, &str)> {
    owned.iter().map(|one| (one.kind.as_str(), one.id.as_str())).collect()
}

#[test]
fn a_host_is_allocated_with_its_parts_once_it_is_seen_running_r2_34() {
    let cloud = Fake::new()
        .reply("create", 201, made("srv-1"))
        .reply("create-volume", 201, made("vol-1"))
        .reply("create-volume", 201, made("vol-2"))
        .reply("create-nic", 201, made("nic-1"))
        .reply("server", 200, server("starting"))
        .always("server", 200, server("running"));
    let all = [("server", "srv-1"), ("volume", "vol-1"), ("volume", "vol-2"), ("nic", "nic-1")];
    cloud.run(|| {
        let begun = begin(&PARTS).unwrap();
        let first = poll(&begun).unwrap();
        assert!(matches!(first.state, State::InProgress));
        assert_eq!(ids(&first.owned_resources), all, "told from the first moment on (R2.27)");
        for _ in 0..2 {
            let polled = poll(&begun).unwrap();
            assert!(matches!(polled.state, State::Succeeded), "the same answer, however often (R2.9)");
            let result = polled.result.unwrap();
            assert_eq!(result.provider_id.as_deref(), Some("sim://srv-1"));
            assert_eq!(result.provider_resource_id, "srv-1");
            assert_eq!((result.instance_type.as_str(), result.zone.as_deref()), ("small", Some("zone-a")));
        }
    });
    let calls = cloud.calls();
    assert_eq!(
        (calls[0].args.clone(), calls[0].user_data.clone()),
        (json!({}), vec!["user-data".to_owned()])
    );
    assert_eq!(calls[2].args, json!({ "size": 100, "server": "srv-1" }));
    let keys: Vec<_> = calls[..4].iter().map(|call| call.key.clone().unwrap()).collect();
    assert_eq!(keys, ["server", "volume-0", "volume-1", "nic-0"]);
}

#[test]
fn begin_called_again_before_its_handle_was_stored_makes_nothing_twice_r2_3() {
    let cloud = Fake::new()
        .reply("create", 201, made("srv-1"))
        .reply("create-volume", 201, made("vol-1"))
        .reply("create-volume", 201, made("vol-2"))
        .reply("create-nic", 201, made("nic-1"));
    cloud.run(|| {
        let first = begin(&PARTS).unwrap();
        let again = begin(&PARTS).unwrap();
        assert_eq!(first.operation.operation_id, again.operation.operation_id);
        assert_eq!(first.operation.resume_token, again.operation.resume_token);
    });
    assert_eq!(cloud.calls().len(), 4);
}

#[test]
fn a_part_in_doubt_waits_and_the_next_begin_goes_on_behind_what_is_done() {
    let cloud = Fake::new()
        .in_doubt("create", Some(Duration::from_secs(3)))
        .reply("create", 201, made("srv-1"))
        .in_doubt("create-volume", None)
        .reply("create-volume", 201, made("vol-1"))
        .reply("create-volume", 201, made("vol-2"))
        .reply("create-nic", 201, made("nic-1"));
    cloud.run(|| {
        for _ in 0..2 {
            assert!(matches!(begin(&PARTS).unwrap_err(), Error::Transient(_)));
        }
        begin(&PARTS).unwrap();
    });
    assert_eq!((count(&cloud, "create"), count(&cloud, "create-volume")), (2, 3));
}

#[test]
fn a_refused_part_keeps_the_class_of_its_refusal_r2_7() {
    for (code, permanent) in [
        (Code::CapacityExhausted, false),
        (Code::QuotaExceeded, false),
        (Code::InvalidInput, true),
        (Code::PermissionDenied, false),
        (Code::Throttled, false),
    ] {
        let make = if permanent { Error::permanent } else { Error::transient };
        let name = format!("{code:?}");
        for call in ["create", "create-volume"] {
            let cloud = match call {
                "create" => Fake::new(),
                _ => Fake::new().reply("create", 201, made("srv-1")),
            };
            let cloud = cloud.fails(call, make(code.clone(), "Refused", "refused"));
            let error = cloud.run(|| begin(&PARTS)).unwrap_err();
            assert_eq!(format!("{:?}", error.failure().code), name, "{call}");
            assert_eq!(matches!(error, Error::Permanent(_)), permanent, "{call} {name}");
        }
    }
}

#[test]
fn a_server_that_is_not_shown_yet_is_waited_for_and_not_made_again_a03() {
    let hidden = || Error::not_found("NotFound", "not there");
    let cloud = Fake::new()
        .reply("create", 201, made("srv-1"))
        .fails("create-volume", hidden())
        .always("create-volume", 201, made("vol-1"))
        .always("create-nic", 201, made("nic-1"))
        .fails("server", hidden())
        .always("server", 200, server("running"));
    cloud.run(|| {
        assert!(matches!(begin(&PARTS).unwrap_err(), Error::Transient(_)));
        let begun = begin(&PARTS).unwrap();
        assert!(matches!(poll(&begun).unwrap().state, State::InProgress));
        assert!(matches!(poll(&begun).unwrap().state, State::Succeeded));
    });
    assert_eq!(count(&cloud, "create"), 1);
}

#[test]
fn a_host_that_fails_or_is_given_up_names_what_a_release_must_remove_r2_27() {
    let cloud = Fake::new().reply("create", 201, made("srv-1")).always("server", 200, server("error"));
    let polled = cloud.run(|| poll(&begin(&[("image", "i")]).unwrap()).unwrap());
    assert!(matches!(polled.state, State::Failed));
    assert_eq!(
        (polled.reason.as_str(), ids(&polled.owned_resources)),
        ("CreateFailed", vec![("server", "srv-1")])
    );

    let cloud = Fake::new().reply("create", 201, made("srv-1")).always("server", 200, server("starting"));
    let passed = Some("2029-12-31T00:00:00Z");
    let polled = cloud.run(|| poll_until(&begin(&[("image", "i")]).unwrap(), passed).unwrap());
    assert!(matches!(polled.state, State::Canceled));
    assert_eq!(ids(&polled.owned_resources), [("server", "srv-1")]);
}

#[test]
fn a_poll_that_cannot_see_is_repeated_r2_8() {
    let away = Error::transient(Code::Unavailable, "Away", "the cloud is away");
    let cloud = Fake::new().reply("create", 201, made("srv-1")).fails("server", away).always(
        "server",
        200,
        server("running"),
    );
    cloud.run(|| {
        let begun = begin(&[("image", "i")]).unwrap();
        assert!(matches!(poll(&begun).unwrap_err(), Error::Transient(_)));
        assert!(matches!(poll(&begun).unwrap().state, State::Succeeded));
    });
}
