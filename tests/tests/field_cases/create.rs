//! Hosts that are made once and released whole, whatever is said about them meanwhile.

use anyhow::{Context, Result, ensure};
use holdfast_simulated_cloud::{ClockChange, Fault, Rule, Seed};
use serde_json::json;

use crate::world::{Site, status};

const SERVERS: &str = "/v1/servers";

pub async fn a_server_that_is_not_shown_yet_is_waited_for_a06(site: Site) -> Result<()> {
    site.cloud.behave(|behaviour| {
        behaviour.visibility.get_ms = 3_000;
        behaviour.visibility.list_ms = 6_000;
    });
    site.class(json!({ "volumes": "10" })).await?;
    site.allocate(json!({})).await?;
    let allocation = site.allocated().await?;
    ensure!(status(&allocation)?.attempt == 0, "it was no failure");
    site.only_server()?;
    site.release().await
}

pub async fn a_create_behind_a_gateway_that_timed_out_makes_one_server_d08(site: Site) -> Result<()> {
    let late = Fault { status: Some(504), commit: true, body: Some(json!("gateway")), ..Fault::default() };
    site.cloud.set_faults(vec![Rule::on("POST", SERVERS).nth(1).does(late)]);
    site.class(json!({})).await?;
    site.allocate(json!({})).await?;
    site.allocated().await?;
    ensure!(site.asked("POST", SERVERS) == 2, "in doubt, and asked again under the same token");
    site.only_server()?;
    site.release().await
}

pub async fn an_interface_that_is_refused_again_and_again_leaks_no_server_and_no_volume_b01(
    site: Site,
) -> Result<()> {
    site.cloud.behave(|behaviour| behaviour.limits.nics = Some(0));
    site.class(json!({ "volumes": "10", "nics": "1" })).await?;
    site.allocate(json!({})).await?;
    site.until(|_| site.asked("POST", "/v1/nics") >= 2).await?;
    let ledger = site.cloud.ledger();
    ensure!(ledger.live.len() <= 1 && ledger.live_parts.len() <= 1, "one of each at most: {ledger:?}");
    site.cloud.behave(|behaviour| behaviour.limits.nics = None);
    let allocation = site.allocated().await?;
    let owned = status(&allocation)?.owned_resources.len();
    ensure!(owned == 3, "server, volume and interface are recorded: {owned}");
    let ledger = site.cloud.ledger();
    ensure!(ledger.twins().is_empty(), "twins: {:?}", ledger.twins());
    ensure!((ledger.live.len(), ledger.live_parts.len()) == (1, 2), "no more than that is there: {ledger:?}");
    site.release().await
}

pub async fn a_shortage_that_comes_as_an_internal_error_is_one_all_the_same_e09_f02(
    site: Site,
) -> Result<()> {
    site.cloud.set_faults(vec![Rule::on("POST", SERVERS).nth(1).refuses(500, "no_capacity")]);
    site.class(json!({})).await?;
    site.allocate(json!({})).await?;
    let allocation = site.allocated().await?;
    let status = status(&allocation)?;
    ensure!(status.attempt == 1, "the next offering is tried: {status:?}");
    ensure!(status.exhausted.len() == 1, "the offering without room is remembered: {status:?}");
    let chosen = status.offering.as_ref().and_then(|offering| offering.zone.clone());
    ensure!(chosen != status.exhausted[0].zone, "and it is another place: {status:?}");
    site.only_server()?;
    site.release().await
}

/// Somebody deletes the server behind our back, and the cloud gives its number to a stranger's.
pub async fn a_number_that_was_given_to_a_stranger_is_not_destroyed_a29(site: Site) -> Result<()> {
    site.class(json!({ "volumes": "10" })).await?;
    site.allocate(json!({})).await?;
    let allocation = site.allocated().await?;
    let ours = site.only_server()?;
    let path = format!("{SERVERS}/{ours}");
    let created = || {
        let server = site.cloud.server(&ours)?;
        server["created_at"].as_str().map(str::to_owned)
    };
    let server = status(&allocation)?.owned_resources.iter().find(|one| one.kind == "server");
    let server = server.context("the server is on record")?;
    ensure!(
        server.place == Some(format!("{}/", site.cloud.origin())),
        "with where it is: {:?}",
        server.place
    );
    let recorded = server.incarnation.clone();
    ensure!(recorded.is_some() && recorded == created(), "{recorded:?} is recorded, {:?} is true", created());

    site.cloud.behave(|behaviour| behaviour.reuse_ids = true);
    let person = site.person()?;
    ensure!(person.delete(&path).await?.status.is_success(), "a person deletes ours");
    site.cloud.clock(ClockChange { advance_ms: Some(600_000), ..ClockChange::default() });
    ensure!(person.get(&path).await?.status == 404, "it is gone");
    let stranger = site.cloud.seed_server(Seed::named("stranger"))?;
    ensure!(stranger == ours && created() != recorded, "{stranger} bears the number {ours}");

    let before = site.asked("DELETE", &path);
    site.gone().await?;
    ensure!(site.asked("DELETE", &path) == before, "no delete of it was sent");
    let ledger = site.cloud.ledger();
    ensure!(ledger.live == [stranger], "the stranger's lives, and nothing else: {:?}", ledger.live);
    ensure!(ledger.live_parts.is_empty(), "our volume is released: {:?}", ledger.live_parts);
    Ok(())
}

pub async fn first_boot_data_arrives_byte_for_byte_j09(site: Site) -> Result<()> {
    // Looks encoded already, twice; breaks what is careless with quotes, escapes, ends of lines and non-ASCII.
    let data =
        "#cloud-config\r\npassword: \"p\\\"a'}{$%25+\u{fc}\u{1f980}\"\nnested: SDRzSUFBQUE=\n\n\t\u{7f}"
            .as_bytes();
    site.class(json!({})).await?;
    site.allocate(site.first_boot_data(data).await?).await?;
    site.allocated().await?;
    let server = site.only_server()?;
    ensure!(site.cloud.user_data(&server).as_deref() == Some(data), "{:?}", site.cloud.user_data(&server));
    site.release().await
}
