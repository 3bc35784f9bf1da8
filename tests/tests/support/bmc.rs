//! The BMC's systems: what its personalities do to power, tags, targets and tasks.

use std::time::Duration;

use holdfast_tests::{
    bmc::{
        Bmc, Etag, IfMatch, Location, OnAfterOff, Options, Personality, Power, ResetAnswer, ResetTarget,
        ResetType, ResetTypesIn, Soft,
    },
    client::{Client, Reply},
    tls::RunCa,
};
use serde_json::{Value, json};

const SYSTEM: &str = "/redfish/v1/Systems/1";
const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

/// Long enough that no test outlives it.
const NEVER: Duration = Duration::from_secs(3600);

async fn started(personality: Personality, power: Power) -> (Bmc, Client) {
    let options = Options::default().systems(1, power).personality(personality);
    let bmc = Bmc::start(&RunCa::new().unwrap(), options).await.unwrap();
    let client = bmc.client().unwrap();
    (bmc, client)
}

async fn reset(client: &Client, reset_type: &str) -> Reply {
    client.post(RESET, &json!({ "ResetType": reset_type })).await.unwrap()
}

fn message_id(reply: &Reply) -> String {
    let json = reply.json();
    json["error"]["@Message.ExtendedInfo"][0]["MessageId"].as_str().unwrap_or("none").to_owned()
}

#[tokio::test]
async fn power_changes_later_than_it_is_accepted_and_each_is_counted_once() {
    let slow = Personality { power_delay: NEVER, transitional_states: true, ..Personality::default() };
    let (bmc, client) = started(slow, Power::Off).await;
    assert_eq!(reset(&client, "On").await.status, 204);
    assert_eq!(reset(&client, "On").await.status, 204);
    assert_eq!(client.get(SYSTEM).await.unwrap().json()["PowerState"], "PoweringOn");
    assert_eq!(bmc.power("1"), Power::Off);

    let (bmc, client) = started(Personality::default(), Power::Off).await;
    for word in ["On", "On", "ForceOff", "ForceOff", "On", "ForceRestart", "GracefulRestart"] {
        assert_eq!(reset(&client, word).await.status, 204, "{word}");
    }
    bmc.until_quiet().await;
    let ledger = bmc.ledger("1");
    assert_eq!((ledger.power_ons, ledger.power_offs, ledger.restarts, ledger.accepted.len()), (2, 1, 2, 7));
    assert_eq!(client.get(SYSTEM).await.unwrap().json()["PowerState"], "On");
}

#[tokio::test]
async fn hundreds_of_systems_are_one_server_and_each_has_its_own_ledger() {
    let options = Options::default().systems(300, Power::Off);
    let bmc = Bmc::start(&RunCa::new().unwrap(), options).await.unwrap();
    let client = bmc.client().unwrap();
    assert_eq!(client.get("/redfish/v1/Systems").await.unwrap().json()["Members@odata.count"], 300);
    client
        .post("/redfish/v1/Systems/250/Actions/ComputerSystem.Reset", &json!({ "ResetType": "On" }))
        .await
        .unwrap();
    bmc.until_quiet().await;
    let on: Vec<String> =
        bmc.ledgers().into_iter().filter(|(_, it)| it.power_ons == 1).map(|(id, _)| id).collect();
    assert_eq!(on, ["250"]);
}

#[tokio::test]
async fn a_service_may_want_if_match_and_refuses_writes_without_it_or_with_a_stale_one_n01() {
    let strict = Personality { if_match: IfMatch::RequiredOnWrites, ..Personality::default() };
    let (bmc, client) = started(strict, Power::Off).await;
    let etag = client.get(SYSTEM).await.unwrap().header("etag").to_owned();
    let tag = json!({ "AssetTag": "rack 7" });
    let with = |etag: &str| client.clone().with_header("if-match", etag);

    assert_eq!(reset(&client, "On").await.status, 428);
    assert_eq!(client.patch(SYSTEM, &tag).await.unwrap().status, 428);
    assert_eq!(with("\"999\"").patch(SYSTEM, &tag).await.unwrap().status, 412);
    assert_eq!(with(&etag).patch(SYSTEM, &tag).await.unwrap().status, 204);
    assert_eq!(
        with(&etag).patch(SYSTEM, &tag).await.unwrap().status,
        412,
        "the tag has changed with the write"
    );
    assert_eq!(reset(&with("*"), "On").await.status, 204);

    let patch_only = Personality { if_match: IfMatch::RequiredOnPatch, ..Personality::default() };
    bmc.set_personality("1", patch_only);
    assert_eq!(reset(&client, "On").await.status, 204);
    assert_eq!(client.patch(SYSTEM, &tag).await.unwrap().status, 428);
    assert_eq!(bmc.ledger("1").conflicts, 5);
}

#[tokio::test]
async fn somebody_else_may_change_a_system_between_the_read_and_the_write() {
    let strict = Personality { if_match: IfMatch::RequiredOnWrites, ..Personality::default() };
    let (bmc, client) = started(strict, Power::Off).await;
    bmc.change_before_writes("1", 1);
    for expected in [412, 204] {
        let etag = client.get(SYSTEM).await.unwrap().header("etag").to_owned();
        let reply = reset(&client.clone().with_header("if-match", &etag), "On").await;
        assert_eq!(reply.status.as_u16(), expected);
    }
}

#[tokio::test]
async fn a_weak_tag_is_taken_back_as_given_or_only_in_its_strong_form_n02() {
    for (etag, as_given, strong) in [(Etag::Weak, 204, 204), (Etag::WeakNotTakenBack, 412, 204)] {
        let (_bmc, client) = started(Personality { etag, ..Personality::default() }, Power::On).await;
        let given = client.get(SYSTEM).await.unwrap().header("etag").to_owned();
        assert!(given.starts_with("W/\""), "{given}");
        let reply = reset(&client.clone().with_header("if-match", &given), "On").await;
        assert_eq!(reply.status.as_u16(), as_given, "{etag:?}");
        let reply = reset(&client.clone().with_header("if-match", &given[2..]), "On").await;
        assert_eq!(reply.status.as_u16(), strong, "{etag:?}");
    }
    let (_bmc, client) =
        started(Personality { etag: Etag::Absent, ..Personality::default() }, Power::On).await;
    assert_eq!(client.get(SYSTEM).await.unwrap().header("etag"), "");
}

#[tokio::test]
async fn reset_types_that_are_not_offered_are_refused_wherever_the_list_is_n03() {
    let limited = Personality::default().without(&[ResetType::GracefulRestart, ResetType::ForceRestart]);
    let (bmc, client) = started(limited.clone(), Power::On).await;
    let action = client.get(SYSTEM).await.unwrap().json()["Actions"]["#ComputerSystem.Reset"].clone();
    let offered = json!(["On", "ForceOn", "ForceOff", "GracefulShutdown", "PowerCycle"]);
    assert_eq!(action["ResetType@Redfish.AllowableValues"], offered);
    let refused = reset(&client, "GracefulRestart").await;
    assert_eq!(
        (refused.status.as_u16(), message_id(&refused).as_str()),
        (400, "Base.1.18.ActionParameterValueNotInList")
    );
    assert_eq!(reset(&client, "Nonsense").await.status, 400);

    bmc.set_personality("1", Personality { reset_types_in: ResetTypesIn::ActionInfo, ..limited.clone() });
    let action = client.get(SYSTEM).await.unwrap().json()["Actions"]["#ComputerSystem.Reset"].clone();
    let info = client.get(action["@Redfish.ActionInfo"].as_str().unwrap()).await.unwrap().json();
    assert_eq!(info["Parameters"][0]["AllowableValues"], offered);

    bmc.set_personality("1", Personality { reset_types_in: ResetTypesIn::Nowhere, ..limited });
    let action = client.get(SYSTEM).await.unwrap().json()["Actions"]["#ComputerSystem.Reset"].clone();
    assert_eq!(action, json!({ "target": RESET }));
}

#[tokio::test]
async fn a_vendor_has_its_reset_action_elsewhere_and_nothing_at_the_standard_place() {
    let vendor = Personality { reset_target: ResetTarget::Vendor, ..Personality::default() };
    let (_bmc, client) = started(vendor, Power::Off).await;
    let system = client.get(SYSTEM).await.unwrap().json();
    let target = system["Actions"]["#ComputerSystem.Reset"]["target"].as_str().unwrap();
    assert_eq!(target, "/redfish/v1/Systems/1/Actions/Oem/Vendor.Reset");
    assert_eq!(reset(&client, "On").await.status, 404);
    assert_eq!(client.post(target, &json!({ "ResetType": "On" })).await.unwrap().status, 204);
}

#[tokio::test]
async fn a_task_monitor_is_gone_once_the_task_is_done_and_the_task_is_not_n09() {
    for location in [Location::Relative, Location::Absolute] {
        let with_tasks = Personality { reset_answer: ResetAnswer::Task(location), ..Personality::default() };
        let (bmc, client) =
            started(Personality { power_delay: NEVER, ..with_tasks.clone() }, Power::Off).await;
        let accepted = reset(&client, "On").await;
        assert_eq!((accepted.status.as_u16(), &accepted.json()["TaskState"]), (202, &Value::from("Running")));
        let monitor = accepted.header("location").to_owned();
        let expected = match location {
            Location::Relative => "/redfish/v1/TaskService/TaskMonitors/1".to_owned(),
            Location::Absolute => format!("{}/redfish/v1/TaskService/TaskMonitors/1", bmc.origin()),
        };
        assert_eq!(monitor, expected);
        assert_eq!(client.get("/redfish/v1/TaskService/TaskMonitors/1").await.unwrap().status, 202);

        let (bmc, client) = started(with_tasks, Power::Off).await;
        reset(&client, "On").await;
        bmc.until_quiet().await;
        assert_eq!(client.get("/redfish/v1/TaskService/TaskMonitors/1").await.unwrap().status, 404);
        let task = client.get("/redfish/v1/TaskService/Tasks/1").await.unwrap().json();
        assert_eq!(task["TaskState"], "Completed");
    }
}

#[tokio::test]
async fn power_on_is_refused_for_a_while_after_power_off_n06() {
    let touchy = Personality { on_after_off: OnAfterOff::RefusedTimes(2), ..Personality::default() };
    let (bmc, client) = started(touchy, Power::On).await;
    reset(&client, "ForceOff").await;
    bmc.until_quiet().await;
    for expected in [409, 409, 204] {
        assert_eq!(reset(&client, "On").await.status.as_u16(), expected);
    }
    bmc.until_quiet().await;
    assert_eq!((bmc.ledger("1").power_ons, bmc.ledger("1").refused), (1, 2));

    bmc.set_personality(
        "1",
        Personality { on_after_off: OnAfterOff::RefusedFor(NEVER), ..Personality::default() },
    );
    reset(&client, "ForceOff").await;
    bmc.until_quiet().await;
    let refused = reset(&client, "On").await;
    assert_eq!((refused.status.as_u16(), message_id(&refused).as_str()), (409, "Base.1.18.ResourceInUse"));
}

#[tokio::test]
async fn a_soft_power_off_that_the_system_ignores_is_accepted_and_does_nothing_n16() {
    let (bmc, client) =
        started(Personality { soft: Soft::Ignored, ..Personality::default() }, Power::On).await;
    assert_eq!(reset(&client, "GracefulShutdown").await.status, 204);
    bmc.until_quiet().await;
    assert_eq!(bmc.power("1"), Power::On);
    assert_eq!(reset(&client, "ForceOff").await.status, 204);
    bmc.until_quiet().await;
    assert_eq!((bmc.power("1"), bmc.ledger("1").power_offs), (Power::Off, 1));
    assert_eq!(reset(&client, "ForceRestart").await.status, 409, "nothing to restart");
}

#[tokio::test]
async fn an_unknown_system_is_404_with_extended_information() {
    let (_bmc, client) = started(Personality::default(), Power::On).await;
    let missing = client.get("/redfish/v1/Systems/2").await.unwrap();
    assert_eq!((missing.status.as_u16(), message_id(&missing).as_str()), (404, "Base.1.18.ResourceNotFound"));
    assert_eq!(missing.json()["error"]["@Message.ExtendedInfo"][0]["MessageArgs"][1], "2");
}
