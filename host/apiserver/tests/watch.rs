//! Watches: order, replay, selectors, bookmarks, and the ways in which they end.

mod common;

use common::{MACHINES, event, machine, start};
use futures::{StreamExt as _, TryStreamExt as _};
use holdfast_api::Machine;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::json;

fn labelled(name: &str, value: &str) -> serde_json::Value {
    let mut machine = machine(name);
    machine["metadata"]["labels"] = json!({ "l": value });
    machine
}

#[tokio::test]
async fn a_watch_replays_what_came_after_its_version_and_goes_on() {
    let fixture = start().await;
    let first = fixture.post(MACHINES, machine("a")).await;
    fixture.post(MACHINES, machine("b")).await.ok();
    let mut watch =
        fixture.watch(&format!("{MACHINES}?watch=true&resourceVersion={}", first.version())).await;
    assert_eq!(watch.brief().await, event("ADDED", "b"));
    fixture.merge(&format!("{MACHINES}/a"), json!({ "metadata": { "labels": { "x": "y" } } })).await.ok();
    fixture.delete(&format!("{MACHINES}/b"), json!({})).await.ok();
    assert_eq!(watch.brief().await, event("MODIFIED", "a"));
    let deleted = watch.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    let version: u64 = deleted["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(version, fixture.server.metrics().version);
}

#[tokio::test]
async fn a_watch_from_before_the_start_or_from_the_future_is_answered_410() {
    let fixture = start().await;
    for version in ["1", "99999999"] {
        let answer = fixture.get(&format!("{MACHINES}?watch=true&resourceVersion={version}")).await;
        assert_eq!((answer.code, answer.body["reason"].as_str().unwrap()), (410, "Expired"));
    }
    assert_eq!(fixture.get(&format!("{MACHINES}?watch=true&resourceVersion=x")).await.code, 400);
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_is_deleted_and_one_that_enters_is_added() {
    let fixture = start().await;
    let a = fixture.post(MACHINES, labelled("a", "1")).await;
    let mut watch = fixture
        .watch(&format!("{MACHINES}?watch=true&labelSelector=l%3D1&resourceVersion={}", a.version()))
        .await;
    let relabel = |value: &str| json!({ "metadata": { "labels": { "l": value } } });
    fixture.merge(&format!("{MACHINES}/a"), relabel("2")).await.ok();
    fixture.merge(&format!("{MACHINES}/a"), relabel("3")).await.ok();
    let back = fixture.merge(&format!("{MACHINES}/a"), relabel("1")).await;
    let left = watch.next().await.unwrap();
    assert_eq!(
        (left["type"].as_str(), left["object"]["metadata"]["labels"]["l"].as_str()),
        (Some("DELETED"), Some("1"))
    );
    let entered = watch.next().await.unwrap();
    assert_eq!(entered["type"], "ADDED");
    assert_eq!(entered["object"]["metadata"]["resourceVersion"], back.version());
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    let mut watch = fixture.watch(&format!("{MACHINES}?watch=true")).await;
    assert_eq!(watch.brief().await, event("ADDED", "a"));
    fixture.post(MACHINES, machine("b")).await.ok();
    assert_eq!(watch.brief().await, event("ADDED", "b"));
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true";
    assert_eq!(fixture.get(&format!("{MACHINES}?{query}")).await.code, 400);
    let mut watch = fixture.watch(&format!("{MACHINES}?{query}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(watch.brief().await, event("ADDED", "a"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    let version = fixture.server.metrics().version;
    let query = format!("watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={version}");
    let mut watch = fixture.watch(&format!("{MACHINES}?{query}")).await;
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(bookmark["object"]["kind"], "Machine");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watcher_that_falls_behind_is_told_410() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    let version = fixture.server.metrics().version;
    let mut watch = fixture.watch(&format!("{MACHINES}?watch=true&resourceVersion={version}")).await;
    for n in 0..1030 {
        let patch = json!({ "metadata": { "labels": { "n": n.to_string() } } });
        fixture.merge(&format!("{MACHINES}/a"), patch).await.ok();
    }
    let mut events = 0;
    loop {
        let event = watch.next().await.expect("the watch ended without a word");
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410);
            break;
        }
        events += 1;
    }
    assert_eq!(events, 1024);
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops() {
    let fixture = start().await;
    let version = fixture.server.metrics().version;
    let mut watch = fixture.watch(&format!("{MACHINES}?watch=true&resourceVersion={version}")).await;
    assert_eq!(fixture.server.metrics().watches, 1);
    fixture.server.shutdown().await;
    assert!(watch.next().await.is_none());
    assert_eq!(fixture.post(MACHINES, machine("late")).await.code, 500);
}

#[tokio::test]
async fn a_watch_of_tables_sends_its_columns_once() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    fixture.post(MACHINES, machine("b")).await.ok();
    let request = http::Request::get(format!("{MACHINES}?watch=true"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .body(kube::client::Body::empty())
        .unwrap();
    let mut body = fixture.raw(request).await.into_body();
    for columns in [7, 0] {
        use http_body_util::BodyExt as _;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: serde_json::Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!(event["object"]["columnDefinitions"].as_array().unwrap().len(), columns);
    }
}

#[tokio::test]
async fn the_watcher_of_kube_follows_in_both_of_its_ways() {
    let fixture = start().await;
    fixture.post(MACHINES, machine("a")).await.ok();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let machines: Api<Machine> = Api::all(fixture.server.client());
        let mut events = watcher(machines, config).boxed();
        let mut seen = Vec::new();
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                watcher::Event::InitApply(m) => seen.push(m.name_any()),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        assert_eq!(seen, ["a"]);
        fixture.post(MACHINES, machine("b")).await.ok();
        let next = events.try_next().await.unwrap();
        assert!(matches!(next, Some(watcher::Event::Apply(m)) if m.name_any() == "b"));
        fixture.delete(&format!("{MACHINES}/b"), json!({})).await.ok();
        let next = events.try_next().await.unwrap();
        assert!(matches!(next, Some(watcher::Event::Delete(m)) if m.name_any() == "b"));
    }
}
