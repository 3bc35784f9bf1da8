//! The sushy-tools emulator: starts over TLS with basic authentication, powers systems, survives being killed.

use holdfast_tests::{
    client::Client,
    counterparts::{Account, FakeSystem, Power, Sushy},
    proxy::Proxy,
    tls::RunCa,
};
use serde_json::json;

fn account() -> Account {
    Account { user: "admin".into(), password: "pa:ss \"word\" ü".into() }
}

#[tokio::test]
async fn the_emulator_asks_for_its_account_and_does_what_it_is_told() {
    let systems = [FakeSystem::numbered(1, Power::Off), FakeSystem::numbered(2, Power::On)];
    let emulator = Sushy::start(&RunCa::new().unwrap(), &systems, &account()).await.unwrap();
    let client = emulator.client().unwrap();

    assert_eq!(client.clone().anonymous().get("/redfish/v1/").await.unwrap().status, 200);
    assert_eq!(client.clone().anonymous().get(&systems[0].path()).await.unwrap().status, 401);
    let wrong = client.clone().with_basic("admin", "not the password");
    assert_eq!(wrong.get(&systems[0].path()).await.unwrap().status, 401);
    assert_eq!(client.get("/redfish/v1/Systems/unknown").await.unwrap().status, 404);

    assert_eq!(emulator.power_state(&systems[0].id).await.unwrap(), Power::Off);
    assert_eq!(emulator.power_state(&systems[1].id).await.unwrap(), Power::On);
    let reset = format!("{}/Actions/ComputerSystem.Reset", systems[0].path());
    assert_eq!(client.post(&reset, &json!({ "ResetType": "On" })).await.unwrap().status, 204);
    emulator.until_power(&systems[0].id, Power::On).await.unwrap();
}

#[tokio::test]
async fn killed_in_the_middle_of_a_change_it_comes_back_at_the_same_place_and_ends_the_change() {
    let system = FakeSystem::numbered(7, Power::On);
    let mut emulator =
        Sushy::start(&RunCa::new().unwrap(), std::slice::from_ref(&system), &account()).await.unwrap();
    let origin = emulator.origin();
    let reset = format!("{}/Actions/ComputerSystem.Reset", system.path());
    let reply = emulator.client().unwrap().post(&reset, &json!({ "ResetType": "ForceOff" })).await.unwrap();
    assert_eq!(reply.status, 204);

    emulator.kill().unwrap();
    assert!(emulator.client().unwrap().get("/redfish/v1/").await.is_err());

    emulator.restart().await.unwrap();
    assert_eq!(emulator.origin(), origin);
    emulator.until_power(&system.id, Power::Off).await.unwrap();
}

#[tokio::test]
async fn one_emulator_serves_many_systems_at_once_and_its_certificate_is_trusted_under_its_own_ca_only() {
    let systems: Vec<FakeSystem> = (1..=200).map(|number| FakeSystem::numbered(number, Power::Off)).collect();
    let emulator = Sushy::start(&RunCa::new().unwrap(), &systems, &account()).await.unwrap();
    let list = emulator.client().unwrap().get("/redfish/v1/Systems").await.unwrap();
    assert_eq!(list.json()["Members@odata.count"], 200);
    assert_eq!(emulator.power_state(&systems[199].id).await.unwrap(), Power::Off);

    let proxied = RunCa::new().unwrap();
    let proxy = Proxy::start(&emulator.origin(), emulator.ca_pem(), &proxied).await.unwrap();
    let client =
        Client::new(&proxy.origin(), proxied.pem()).unwrap().with_basic(&account().user, &account().password);
    let paths: Vec<String> = systems.iter().map(FakeSystem::path).collect();
    let all = futures::future::try_join_all(paths.iter().map(|path| client.get(path))).await.unwrap();
    assert!(all.iter().all(|reply| reply.json()["PowerState"] == "Off"));
    assert_eq!(proxy.effects(|record| record.path.starts_with("/redfish/v1/Systems/")), 200);

    let stranger = Client::new(&emulator.origin(), RunCa::new().unwrap().pem()).unwrap();
    let refused = format!("{:#}", stranger.get("/redfish/v1/").await.unwrap_err());
    assert!(refused.contains("certificate"), "{refused}");
}
