//! The wide example runs natively against a fake host: every kind of argument and field, and the promises of the traits.

#[path = "../examples/wide/lib.rs"]
mod wide;

use holdfast_guest_sdk::capacity::{Allocation, Capacity, ClassRequest, Offering, OwnedResource};
use holdfast_guest_sdk::operations::{
    OperationRequest, OperationResult, Operations, ProviderOperation, State,
};
use holdfast_guest_sdk::testing::{self, Fake};
use holdfast_guest_sdk::{Code, Error, Outcome, ResumeToken, Sealed};
use serde_json::json;
use std::time::Duration;
use wide::Wide;

fn request(kind: &str) -> OperationRequest {
    testing::request(kind, testing::machine("wide://z-1/s-1"))
}

fn allocation() -> Allocation {
    let offering = Offering {
        name: "o".into(),
        instance_type: "large".into(),
        zone: Some("z-1".into()),
        resources: vec![],
        available: true,
        valid_until: String::new(),
        attributes: vec![],
    };
    Allocation {
        name: "a".into(),
        uid: "u".into(),
        class_name: "c".into(),
        class_uid: "cu".into(),
        host_name: "h".into(),
        offering,
        planned_provider_id: "wide://z-1/u".into(),
        host_image: "debian-13".into(),
    }
}

fn begin_allocate() -> Result<holdfast_guest_sdk::operations::BeginResult, Error> {
    let data = testing::user_data();
    Wide::begin_allocate(request("HostAllocate"), allocation(), vec![], testing::credentials(), data)
}

#[test]
fn nested_lists_of_a_reply_become_vectors_of_structs() {
    let offers = json!([{"type": "large", "zones": ["a", "b"], "size": 1024}, {"type": "small", "zones": [], "size": 1}]);
    let cloud = Fake::new().reply("prices", 200, json!({"offers": offers}));
    let class =
        ClassRequest { class_name: "c".into(), class_uid: "u".into(), site_name: "s".into(), config: vec![] };
    let offerings = cloud.run(|| Wide::resolve_class(class, None)).unwrap();
    let names: Vec<&str> = offerings.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["c-large-a", "c-large-b"]);
    assert_eq!(offerings[0].resources, [("memory".to_owned(), "1024".to_owned())]);
    assert!(!cloud.calls()[0].credentials, "an endpoint without authentication takes none");
}

#[test]
fn a_mutating_call_carries_key_credentials_slot_and_only_the_given_arguments() {
    let cloud = Fake::new().reply("create", 201, json!({"id": "s-9"}));
    let begun = cloud.run(begin_allocate).unwrap();
    let call = &cloud.calls()[0];
    assert_eq!(
        call.args,
        json!({"boot": "uefi", "cores": 4}),
        "what the host supplies or nobody gave is not there"
    );
    assert_eq!(call.key.as_deref(), Some("create"));
    assert_eq!((call.credentials, call.user_data.as_slice()), (true, &["user-data".to_owned()][..]));
    assert_eq!(ResumeToken::decode::<String>(&begun.operation.resume_token).unwrap(), "s-9");
}

#[test]
fn in_doubt_is_a_wait_and_never_a_success() {
    let cloud = Fake::new().in_doubt("create", Some(Duration::from_secs(7))).reply(
        "create",
        201,
        json!({"id": "s-9"}),
    );
    cloud.run(|| {
        let Err(Error::Transient(failure)) = begin_allocate() else { panic!("in doubt must wait") };
        assert_eq!(failure.retry_after, Some(7000));
        assert_eq!(wide::recorded(), None);
        begin_allocate().unwrap();
        begin_allocate().unwrap(); // the same key: answered from memory
        assert_eq!(wide::recorded().as_deref(), Some("s-9"));
    });
    assert_eq!(cloud.names(), ["create", "create"]);
}

#[test]
fn sealed_values_travel_unread_and_survive_a_resume_token() {
    let cloud = Fake::new()
        .reply("server", 200, json!({"state": "on", "on": true, "control": "sealed-text"}))
        .reply("reboot", 200, json!({}));
    let mut machine = testing::machine_with_object("example.com", "WideMachine", &json!({"chassis": 4}));
    machine.provider_id = Some("wide://z-1/s-1".into());
    cloud
        .run(|| Wide::execute(testing::request("HostReboot", machine), testing::credentials(), None))
        .unwrap();
    assert_eq!(cloud.calls()[1].args, json!({"target": "sealed-text"}));
    assert_eq!(cloud.log(), ["info: server is on on=true chassis=4 tags=0"]);
    let sealed = testing::sealed("x");
    assert_eq!(ResumeToken::decode::<Sealed>(&ResumeToken::encode(&sealed).unwrap()).unwrap(), sealed);
    assert_eq!(format!("{sealed:?}"), "Sealed");
}

#[test]
fn what_is_gone_counts_as_released() {
    let owned = || vec![OwnedResource::new("server", "s-1"), OwnedResource::new("server", "s-2")];
    let operation = || ProviderOperation { operation_id: "r".into(), resume_token: "null".into() };
    let gone = || Error::not_found("Gone", "gone");
    let cloud = Fake::new()
        .reply("delete", 200, json!({}))
        .reply("server", 200, json!({"state": "stopping", "on": false, "control": "c"}))
        .fails("server", gone())
        .fails("server", gone())
        .fails("server", gone());
    cloud.run(|| {
        let poll = || {
            Wide::poll_release(
                request("HostRelease"),
                allocation(),
                owned(),
                operation(),
                testing::credentials(),
            )
        };
        Wide::begin_release(request("HostRelease"), allocation(), owned(), testing::credentials()).unwrap();
        assert_eq!(poll().unwrap().remaining.len(), 1);
        assert!(matches!(poll().unwrap().state, State::Succeeded));
    });
    assert_eq!(cloud.calls()[0].args, json!({"ids": ["s-1", "s-2"]}));
}

#[test]
fn a_trait_default_says_that_it_is_unsupported_and_cleanup_has_nothing_to_do() {
    struct Nothing;
    impl Operations for Nothing {}
    for error in [
        Nothing::execute(request("HostReboot"), None, None).unwrap_err(),
        Nothing::begin(request("HostReboot"), None, None).unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Permanent(failure) if matches!(failure.code, Code::Unsupported)));
        assert!(error.failure().message.contains("HostReboot"));
    }
    Nothing::cleanup(request("HostReboot"), OperationResult::unchanged(), None).unwrap();
}

#[test]
fn a_missing_handle_and_a_foreign_provider_id_are_the_operators_to_cure() {
    let error = Fake::new().run(|| Wide::execute(request("HostReboot"), None, None)).unwrap_err();
    assert_eq!(error.failure().reason, "CredentialsMissing");
    let foreign = testing::request("HostReboot", testing::machine("other://z/s"));
    let error = Fake::new().run(|| Wide::execute(foreign, testing::credentials(), None)).unwrap_err();
    assert_eq!(error.failure().reason, "ProviderIDInvalid");
}

#[test]
fn a_reply_that_is_not_what_the_manifest_declares_is_an_error_and_no_panic() {
    let cloud = Fake::new().reply("create", 201, json!({"id": 7}));
    assert_eq!(cloud.run(begin_allocate).unwrap_err().failure().reason, "ReplyMismatch");
}

#[test]
fn a_resume_token_over_16_kib_is_refused_where_it_is_made() {
    let long = "x".repeat(ResumeToken::MAX_BYTES);
    assert_eq!(ResumeToken::encode(&long).unwrap_err().failure().reason, "ResumeToken");
    assert!(ResumeToken::decode::<u32>("{}").is_err());
}

#[test]
fn an_outcome_in_doubt_without_a_time_waits_for_a_person() {
    let Err(Error::Transient(failure)) = Outcome::<()>::InDoubt(None).done() else { panic!("must wait") };
    assert_eq!(failure.retry_after, None);
}
