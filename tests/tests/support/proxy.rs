//! The proxy records what reaches a server and what a client sees, and makes the two differ on demand.

use std::time::Duration;

use holdfast_tests::{
    bmc::{Bmc, Options, Power},
    client::{Client, Reply},
    proxy::{Fault, Gate, Kind, Proxy, Seen},
    tls::RunCa,
};
use http::Method;
use serde_json::json;

const SYSTEM: &str = "/redfish/v1/Systems/1";
const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

struct Setting {
    bmc: Bmc,
    proxy: Proxy,
    client: Client,
}

async fn setting() -> Setting {
    let (server_ca, ca) = (RunCa::new().unwrap(), RunCa::new().unwrap());
    let bmc = Bmc::start(&server_ca, Options::default()).await.unwrap();
    let proxy = Proxy::start(&bmc.origin(), bmc.ca_pem(), &ca).await.unwrap();
    let account = Options::default();
    let client = Client::new(&proxy.origin(), ca.pem()).unwrap().with_basic(&account.user, &account.password);
    Setting { bmc, proxy, client }
}

impl Setting {
    async fn power_on(&self) -> anyhow::Result<Reply> {
        self.client.post(RESET, &json!({ "ResetType": "On" })).await
    }
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_is_recorded_without_any_secret() {
    let it = setting().await;
    assert_eq!(it.client.get(SYSTEM).await.unwrap().json()["PowerState"], "Off");
    assert_eq!(it.client.get(SYSTEM).await.unwrap().header("etag"), "\"1\"");
    assert_eq!(it.power_on().await.unwrap().status, 204);

    let records = it.proxy.records();
    let told: Vec<_> = records
        .iter()
        .map(|it| (it.method.as_str(), it.path.as_str(), it.status.unwrap().as_u16()))
        .collect();
    assert_eq!(told, [("GET", SYSTEM, 200), ("GET", SYSTEM, 200), ("POST", RESET, 204)]);
    assert_eq!(records[2].seen, Some(Seen::Whole(204)));
    assert_eq!(records[2].authentication.as_deref(), Some("Basic"));
    assert_eq!(records[0].request_sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(records[0].reply_sha256, records[1].reply_sha256);
    let written = format!("{records:?}");
    assert!(!written.contains(&Options::default().password) && !written.contains("b3BlcmF0b3I"), "{written}");
}

#[tokio::test]
async fn a_request_that_is_dropped_before_the_server_takes_no_effect() {
    let it = setting().await;
    it.proxy.fault(Fault::new(Kind::DropBefore).on_method(Method::POST).nth(1));
    assert!(it.power_on().await.is_err());
    it.bmc.until_quiet().await;
    assert_eq!((it.bmc.power("1"), it.bmc.ledger("1").accepted.len()), (Power::Off, 0));
    let record = &it.proxy.records()[0];
    assert_eq!((record.forwarded, record.status, record.seen), (false, None, Some(Seen::Nothing)));
    assert_eq!(it.proxy.effects(|_| true), 0);

    assert_eq!(it.power_on().await.unwrap().status, 204, "only the first was to be struck");
}

#[tokio::test]
async fn a_reply_that_is_dropped_leaves_an_effect_that_the_client_never_hears_of() {
    let it = setting().await;
    it.proxy.fault(Fault::new(Kind::DropReply).on_path("/redfish/v1/Systems/*/Actions/*").first(2));
    for _ in 0..2 {
        assert!(it.power_on().await.is_err());
    }
    assert_eq!(it.power_on().await.unwrap().status, 204);
    it.bmc.until_quiet().await;
    assert_eq!(it.bmc.ledger("1").power_ons, 1);
    assert_eq!(it.proxy.effects(|record| record.is("POST", "/ComputerSystem.Reset")), 3);
    assert_eq!(it.proxy.count(|record| record.took_effect() && record.seen == Some(Seen::Nothing)), 2);
}

#[tokio::test]
async fn a_truncated_reply_breaks_off_at_the_client_and_is_whole_in_the_record() {
    let it = setting().await;
    it.proxy.fault(Fault::new(Kind::Truncate).on_path(SYSTEM));
    let broken = format!("{:#}", it.client.get(SYSTEM).await.unwrap_err());
    assert!(broken.contains("the reply broke off"), "{broken}");
    assert_eq!(it.proxy.records()[0].seen, Some(Seen::CutOff(200)));
    it.proxy.clear_faults();
    assert_eq!(it.client.get(SYSTEM).await.unwrap().json()["Id"], "1");
}

#[tokio::test]
async fn a_503_comes_from_the_proxy_alone_and_a_delay_loses_nothing() {
    let it = setting().await;
    it.proxy.fault(Fault::new(Kind::Unavailable).on_path("/redfish/v1/Systems").nth(1));
    it.proxy.fault(Fault::new(Kind::Delay(Duration::from_millis(30))).on_path(SYSTEM));
    let refused = it.client.get("/redfish/v1/Systems").await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, "1"));
    assert!(!it.proxy.records()[0].forwarded);
    assert_eq!(it.client.get(SYSTEM).await.unwrap().status, 200);
    assert!(it.proxy.records()[1].took.unwrap() >= Duration::from_millis(30));
}

#[tokio::test]
async fn a_gate_holds_an_exchange_at_either_side_of_the_server_even_when_its_client_is_gone() {
    let it = setting().await;
    let (before, after) = (Gate::closed(), Gate::closed());
    it.proxy.fault(Fault::new(Kind::HoldBefore(before.clone())).on_method(Method::POST).nth(1));
    it.proxy.fault(Fault::new(Kind::HoldReply(after.clone())).on_method(Method::POST).nth(2));

    let client = it.client.clone();
    let held = tokio::spawn(async move { client.post(RESET, &json!({ "ResetType": "On" })).await });
    before.until_arrived(1).await;
    held.abort();
    it.bmc.until_quiet().await;
    assert_eq!(it.bmc.ledger("1").accepted.len(), 0, "it stands before the server");
    before.open();

    let client = it.client.clone();
    let held = tokio::spawn(async move { client.post(RESET, &json!({ "ResetType": "ForceOff" })).await });
    after.until_arrived(1).await;
    assert!(it.proxy.records()[1].took_effect() && it.proxy.records()[1].seen.is_none());
    after.refuse();
    assert!(held.await.unwrap().is_err());
}

#[tokio::test]
async fn a_server_that_is_down_looks_down_and_is_found_again_elsewhere() {
    let Setting { bmc, proxy, client } = setting().await;
    drop(bmc);
    assert!(client.get(SYSTEM).await.is_err());
    let record = &proxy.records()[0];
    assert_eq!((record.forwarded, record.status, record.seen), (true, None, Some(Seen::Nothing)));

    let other = Bmc::start(&RunCa::new().unwrap(), Options::default()).await.unwrap();
    proxy.set_upstream(&other.origin(), other.ca_pem()).unwrap();
    assert_eq!(client.get(SYSTEM).await.unwrap().status, 200);
}
