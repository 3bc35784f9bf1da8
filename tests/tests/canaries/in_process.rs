//! Guest memory, and what happens without a defence.

use std::collections::BTreeSet;

use holdfast_custody::Defences;
use holdfast_simulated_cloud::{Fault, Rule};

use crate::canary;
use crate::objects;
use crate::plan::Plan;
use crate::rooms::Rooms;

/// Runs a plan to its ends without the named defences; what was seen where it must not be.
async fn seen_without(defences: &str, make: impl FnOnce(&Rooms) -> Plan) -> BTreeSet<String> {
    let rooms = Rooms::open(Defences::without(defences).expect("a defence that there is")).await;
    let plan = make(&rooms);
    plan.lay(&rooms.cloud);
    objects::secrets(&rooms.client).await;
    objects::credential(&rooms.client, "repeating", canary::REPEATING.as_bytes()).await;
    objects::begin(&rooms.client, &plan.jobs).await;
    objects::settled(&rooms.client, &plan.jobs).await;
    assert_eq!(plan.acted(&rooms.cloud), plan.rules(), "every echo was given back");
    rooms.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_are_seen_in_no_guests_memory_whatever_the_cloud_echoes_attack_8() {
    let seen = seen_without("", |rooms| Plan::whole(&rooms.cloud)).await;
    assert!(seen.is_empty(), "seen outside of custody: {seen:#?}");
}

/// A form that is a fine identity by its grammar: only the scan keeps it out.
fn echo_in_hex(rooms: &Rooms) -> Plan {
    let mut plan = Plan::default();
    plan.begins(&rooms.cloud, "plain", "hex");
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_scan_the_look_finds_the_token_in_guest_memory_and_in_objects() {
    let seen = seen_without("scan", echo_in_hex).await;
    for place in ["guest memory", "objects", "the store"] {
        let sighting = format!("plain token, hex in {place}");
        assert!(seen.contains(&sighting), "the check can fail: {sighting} is not among {seen:#?}");
    }
    assert_eq!(seen_without("", echo_in_hex).await, BTreeSet::new(), "the same with the scan");
}

/// A form that no scanner knows: only the grammar of a word, which has no place for it, keeps it out.
fn echo_compressed(rooms: &Rooms) -> Plan {
    let mut plan = Plan::default();
    let server = plan.job(&rooms.cloud, "repeating", "gzip", "HostPowerOff", "running");
    let fault = Fault {
        echo: Some("gzip-base64".to_owned()),
        echo_at: vec!["/server/status".to_owned()],
        ..Fault::default()
    };
    plan.rule(Rule::on("GET", &format!("/v1/servers/{server}")).times(2).does(fault));
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_grammar_the_look_finds_a_compressed_token_in_guest_memory() {
    let seen = seen_without("grammar", echo_compressed).await;
    let sighting = "repeating token as sent, gzip-base64 in guest memory";
    assert!(seen.contains(sighting), "the check can fail: {sighting} is not among {seen:#?}");
    assert_eq!(seen_without("", echo_compressed).await, BTreeSet::new(), "the same with the grammar");
}
