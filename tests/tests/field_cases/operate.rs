//! Long operations whose way is not the usual one.

use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use holdfast_api::{MachineOperation, Phase};
use holdfast_simulated_cloud::{AuthChange, ClockChange, Fault, Rule, Seed};
use holdfast_tests::house::{cloud_machine, operation, settled, until};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{PATIENCE, SYSTEM, Site};

/// A server that is off, and an operation that turns it on by an action that takes its time.
async fn turned_on(site: &Site, action: Fault) -> Result<String> {
    let server = site.cloud.seed_server(Seed { status: "off".into(), ..Seed::named(&site.name) })?;
    let path = format!("/v1/servers/{server}/actions/power_on");
    site.cloud.set_faults(vec![Rule::on("POST", &path).does(action)]);
    cloud_machine(&site.client, &site.name, &site.name, "simulated", &format!("sim://{server}")).await?;
    operation(&site.client, &site.name, &site.name, "HostPowerOn", json!({})).await?;
    until(&site.client, &site.name, PATIENCE, |operation: &MachineOperation| {
        let target = operation.status.as_ref().and_then(|status| status.target.as_ref());
        target.is_some_and(|target| target.provider_operation.is_some())
    })
    .await?;
    Ok(server)
}

pub async fn a_state_that_nobody_has_heard_of_is_waited_out_d09(site: Site) -> Result<()> {
    let erasing =
        Fault { action_ms: Some(600_000), action_status: Some("erasing-disks".into()), ..Fault::default() };
    let server = turned_on(&site, erasing).await?;
    let told = || site.answered("GET", "/v1/actions/") >= 2;
    until(&site.client, &site.name, PATIENCE, |_: &MachineOperation| told()).await?;
    site.cloud.clock(ClockChange { advance_ms: Some(600_000), ..ClockChange::default() });
    let ended = settled(&site.client, &site.name, PATIENCE).await?;
    ensure!(ended.phase == Phase::Complete, "{ended:?}");
    ensure!(site.cloud.server(&server).is_some_and(|server| server["status"] == "running"));
    Ok(())
}

pub async fn a_token_that_is_replaced_in_the_middle_is_used_from_the_next_request_on_d01_c14(
    site: Site,
) -> Result<()> {
    let server = turned_on(&site, Fault { action_ms: Some(600_000), ..Fault::default() }).await?;
    // The old token is refused at once; the operation keeps its handle and waits.
    let token = Some("another-token-of-the-site".to_owned());
    site.cloud.auth(AuthChange { token, end_others_in_ms: Some(0), ..AuthChange::default() });
    until(&site.client, &site.name, PATIENCE, |operation: &MachineOperation| {
        let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason == "PollFailed")
    })
    .await?;
    let secret = json!({ "data": { "api-token": STANDARD.encode("another-token-of-the-site") } });
    let secrets: Api<Secret> = Api::namespaced(site.client.clone(), SYSTEM);
    secrets.patch(&site.name, &PatchParams::default(), &Patch::Merge(secret)).await?;
    site.cloud.clock(ClockChange { advance_ms: Some(600_000), ..ClockChange::default() });
    let ended = settled(&site.client, &site.name, PATIENCE).await?;
    ensure!(ended.phase == Phase::Complete, "{ended:?}");
    let path = format!("/v1/servers/{server}/actions/power_on");
    ensure!(site.asked("POST", &path) == 1, "nothing was begun again");
    Ok(())
}
