//! Knob 1 of the fake cloud: the fault plan, by method, path and which match.

mod common;

use common::{Client, advance, frozen, server};
use holdfast_simulated_cloud::{EffectKind, Fault, Location, Moment, Rule, Seed};
use serde_json::{Value, json};

fn fault(json: Value) -> Fault {
    serde_json::from_value(json).unwrap()
}

#[tokio::test]
async fn the_nth_request_gets_a_status_a_code_a_body_and_headers_without_effect() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.set_faults(vec![
        Rule::on("POST", "/v1/servers").nth(2).refuses(503, "no_capacity"),
        Rule::on("GET", "/v1/servers/*").does(fault(json!({
            "status": 418, "body": { "odd": true }, "headers": { "Retry-After": "7", "Content-Type": "text/odd" }
        }))),
    ]);
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 201);
    let refused = client.post("/v1/servers", server("two")).await;
    assert_eq!((refused.status, refused.code()), (503, "no_capacity".into()));
    assert_eq!(client.post("/v1/servers", server("three")).await.status, 201);
    assert_eq!(cloud.count(EffectKind::Create), 2);
    let odd = client.get("/v1/servers/srv-1").await;
    assert_eq!((odd.status, odd.at("/odd")), (418, json!(true)));
    assert_eq!((odd.header("retry-after"), odd.header("content-type")), ("7", "text/odd"));
    let states = cloud.faults();
    assert_eq!((states[0].matched, states[0].fired, states[1].fired), (3, 1, 1));
}

#[tokio::test]
async fn a_status_with_commit_answers_wrongly_about_an_effect_that_was_done() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.set_faults(vec![
        Rule::on("POST", "/v1/servers").nth(1).does(fault(json!({ "status": 504, "commit": true }))),
        Rule::on("POST", "/v1/servers").nth(2).does(fault(json!({ "body": "not JSON at all" }))),
    ]);
    assert_eq!(client.post("/v1/servers", server("one")).await.status, 504);
    let unfit = client.post("/v1/servers", server("two")).await;
    assert_eq!((unfit.status, unfit.bytes.as_ref()), (201, b"not JSON at all".as_slice()));
    assert_eq!(cloud.count(EffectKind::Create), 2);
}

#[tokio::test]
async fn a_connection_is_reset_before_the_effect_or_after_it() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let create = || client.send("POST", "/v1/servers", server("one").to_string().into_bytes());
    cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).drops(Moment::Before)]);
    assert!(create().await.is_err());
    assert_eq!(cloud.count(EffectKind::Create), 0);
    cloud.set_faults(vec![Rule::on("POST", "/v1/servers").nth(1).drops(Moment::After)]);
    let error = create().await.unwrap_err();
    let reset = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset)
    };
    assert!(error.chain().any(reset), "a reset and not a polite end: {error:?}");
    assert_eq!(cloud.count(EffectKind::Create), 1, "the effect is done, the answer lost");
    assert_eq!(cloud.requests().last().unwrap().status, None);
    assert_eq!(create().await.unwrap().status, 201);
    assert_eq!(cloud.ledger().twins(), ["one"], "a client that just tries again makes a twin");
}

#[tokio::test]
async fn an_answer_is_cut_off_after_its_head_and_some_bytes() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.set_faults(vec![
        Rule::on("POST", "/v1/servers").does(Fault { truncate: Some(20), ..Fault::default() }),
    ]);
    let error = client.send("POST", "/v1/servers", server("one").to_string().into_bytes()).await.unwrap_err();
    assert!(error.to_string().contains("half a body"), "the head arrived: {error:#}");
    assert_eq!(cloud.count(EffectKind::Create), 1);
}

#[tokio::test]
async fn a_success_becomes_202_with_a_location_of_each_form() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let forms = [Location::None, Location::Relative, Location::Absolute];
    let rule = |form| Rule::on("POST", "/v1/**").does(Fault { accepted: Some(form), ..Fault::default() });
    for (form, expected) in forms.into_iter().zip([
        String::new(),
        "/v1/actions/act-2".into(),
        format!("{}/v1/actions/act-3", cloud.origin()),
    ]) {
        cloud.set_faults(vec![rule(form)]);
        let answer = client.act(&format!("/v1/servers/{id}/actions/reset")).await;
        assert_eq!((answer.status, answer.bytes.len()), (202, 0));
        assert_eq!(answer.header("location"), expected);
        advance(&cloud, 50);
    }
    let refused = client.act("/v1/servers/srv-1/actions/reset").await;
    assert_eq!(refused.status, 404, "only a success is changed");
}

#[tokio::test]
async fn a_held_exchange_waits_before_or_after_its_effect_and_survives_its_client() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for (moment, done_while_held) in [(Moment::Before, 0), (Moment::After, 1)] {
        cloud.reset();
        cloud.set_faults(vec![Rule::on("POST", "/v1/servers").times(1).holds(moment)]);
        let sender = client.clone();
        let create = tokio::spawn(async move { sender.post("/v1/servers", server("one")).await });
        let held = cloud.held(1).await;
        assert_eq!((held[0].path.as_str(), held[0].moment), ("/v1/servers", moment));
        assert_eq!(cloud.count(EffectKind::Create), done_while_held);
        create.abort();
        assert!(create.await.unwrap_err().is_cancelled());
        assert_eq!(cloud.release(), 1);
        while cloud.count(EffectKind::Create) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(cloud.count(EffectKind::Create), 1);
    }
}

#[tokio::test]
async fn an_abandoned_exchange_is_reset_and_never_has_its_effect() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.set_faults(vec![Rule::on("POST", "/v1/servers").holds(Moment::Before)]);
    let body = server("one").to_string().into_bytes();
    let create = tokio::spawn(async move { client.send("POST", "/v1/servers", body).await });
    cloud.held(1).await;
    assert_eq!(cloud.abandon(), 1);
    assert!(create.await.unwrap().is_err());
    assert_eq!(cloud.count(EffectKind::Create), 0);
}

#[tokio::test]
async fn a_delay_passes_before_the_effect_or_after_it() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for (name, done_while_waiting) in [("delay_ms", 0), ("delay_after_ms", 1)] {
        cloud.reset();
        cloud.set_faults(vec![Rule::on("POST", "/v1/servers").does(fault(json!({ name: 60_000 })))]);
        let sender = client.clone();
        let create = tokio::spawn(async move { sender.post("/v1/servers", server("one")).await });
        while cloud.faults()[0].fired == 0 || cloud.count(EffectKind::Create) < done_while_waiting {
            tokio::task::yield_now().await;
        }
        assert_eq!(cloud.count(EffectKind::Create), done_while_waiting, "{name}");
        assert!(!create.is_finished(), "the answer waits a minute: {name}");
        create.abort();
    }
    cloud.set_faults(vec![Rule::on("*", "/v1/types").does(fault(json!({ "delay_ms": 20 })))]);
    let before = std::time::Instant::now();
    assert_eq!(client.get("/v1/types").await.status, 200);
    assert!(before.elapsed() >= std::time::Duration::from_millis(20));
}

#[tokio::test]
async fn an_action_fails_without_effect_or_succeeds_without_effect() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    let off = format!("/v1/servers/{id}/actions/power_off");
    cloud.set_faults(vec![
        Rule::on("POST", &off).nth(1).does(fault(json!({ "action_error": "hypervisor_lost" }))),
        Rule::on("POST", &off).nth(2).does(fault(json!({ "no_effect": true }))),
        Rule::on("POST", "/v1/servers").nth(1).does(fault(json!({ "action_error": "port_failed" }))),
        Rule::on("POST", "/v1/servers").nth(2).does(fault(json!({ "no_effect": true }))),
    ]);
    let failed = client.act(&off).await.text("/action/id");
    let idle = client.act(&off).await.text("/action/id");
    let broken = client.post("/v1/servers", server("two")).await.text("/server/id");
    let asleep = client.post("/v1/servers", server("three")).await.text("/server/id");
    advance(&cloud, 50);
    let failed = client.get(&format!("/v1/actions/{failed}")).await;
    assert_eq!(failed.text("/action/status"), "error");
    assert_eq!(failed.text("/action/error/code"), "hypervisor_lost");
    assert_eq!(client.get(&format!("/v1/actions/{idle}")).await.text("/action/status"), "success");
    assert_eq!(cloud.server(&id).unwrap()["status"], "running");
    assert_eq!(cloud.count(EffectKind::PowerOff), 0);
    assert_eq!(cloud.server(&broken).unwrap()["status"], "error", "a failed create leaves a server (B03)");
    assert_eq!(cloud.server(&asleep).unwrap()["status"], "off");
    assert_eq!(cloud.count(EffectKind::Create), 2);
}

#[tokio::test]
async fn an_action_takes_its_own_time_under_a_word_of_its_own() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = cloud.seed_server(Seed::named("one")).unwrap();
    cloud.set_faults(vec![
        Rule::on("DELETE", "").does(fault(json!({ "action_ms": 9000, "action_status": "disk_erasing" }))),
    ]);
    let action = client.delete(&format!("/v1/servers/{id}")).await.text("/action/id");
    advance(&cloud, 8999);
    let target = format!("/v1/actions/{action}");
    assert_eq!(client.get(&target).await.text("/action/status"), "disk_erasing");
    advance(&cloud, 1);
    assert_eq!(client.get(&target).await.text("/action/status"), "success");
    cloud.behave(|behaviour| behaviour.action_ttl_ms = Some(10));
    advance(&cloud, 10);
    assert_eq!(client.get(&target).await.status, 404, "the handle is forgotten");
}

#[tokio::test]
async fn an_answer_of_the_real_api_gives_back_what_it_was_sent() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.set_faults(vec![Rule::on("POST", "/v1/servers").does(Fault {
        echo: Some("hex".into()),
        echo_at: vec!["/server/id".into()],
        ..Fault::default()
    })]);
    let answer = client.post("/v1/servers", server("one")).await;
    let secret = data_encoding::HEXLOWER.encode(cloud.api_token().as_bytes());
    assert_eq!(answer.status, 201);
    for text in [answer.text("/echo"), answer.text("/server/id"), answer.header("x-echo").to_owned()] {
        assert!(text.contains(&secret));
    }
}
