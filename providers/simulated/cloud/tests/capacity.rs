//! What allocations need of a cloud: volumes and interfaces, room by place, and the list of what bears an owner's label.

mod common;

use common::{Client, advance, frozen, server};
use holdfast_simulated_cloud::{Behaviour, Capacity, EffectKind, Idempotency, Seed, Visibility};
use serde_json::{Value, json};

fn volume(label: &str, server: Option<&str>) -> Value {
    let labels = json!({ "holdfast": label, "managed-by": "holdfast" });
    json!({ "name": label, "size_gib": 20, "labels": labels, "server": server })
}

fn nic(label: &str) -> Value {
    json!({ "name": label, "labels": { "holdfast": label, "managed-by": "holdfast" } })
}

#[tokio::test]
async fn a_volume_outlives_its_server_and_cannot_be_deleted_while_it_is_attached() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let id = client.post("/v1/servers", server("one")).await.text("/server/id");
    let made = client.post("/v1/volumes", volume("v1", Some(&id))).await;
    assert_eq!((made.status, made.text("/volume/id")), (201, "vol-1".to_owned()));
    assert_eq!((made.text("/volume/server"), made.at("/volume/size_gib")), (id.clone(), json!(20)));
    let refused = client.delete("/v1/volumes/vol-1").await;
    assert_eq!((refused.status, refused.code()), (409, "in_use".to_owned()));
    client.delete(&format!("/v1/servers/{id}")).await;
    assert_eq!(client.delete("/v1/volumes/vol-1").await.status, 409, "while the server is being deleted");
    advance(&cloud, 50);
    assert_eq!(client.get("/v1/volumes/vol-1").await.at("/volume/server"), Value::Null);
    assert_eq!(cloud.ledger().live_parts, ["vol-1"]);
    assert_eq!(client.delete("/v1/volumes/vol-1").await.status, 204);
    assert_eq!(client.get("/v1/volumes/vol-1").await.status, 404);
    assert_eq!(client.delete("/v1/volumes/vol-1").await.code(), "not_found");
    let ledger = cloud.ledger();
    assert_eq!(ledger.count(EffectKind::CreateVolume, "vol-1"), 1);
    assert_eq!(ledger.count(EffectKind::DeleteVolume, "vol-1"), 1);
    assert!(ledger.live_parts.is_empty() && ledger.creates().len() == 1);
}

#[tokio::test]
async fn an_interface_is_made_read_listed_by_label_and_deleted() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for label in ["n1", "n2"] {
        assert_eq!(client.post("/v1/nics", nic(label)).await.status, 201);
    }
    let found = client.get("/v1/nics?label=n2").await;
    assert_eq!(found.at("/nics").as_array().unwrap().len(), 1);
    assert_eq!((found.text("/nics/0/id"), found.text("/nics/0/zone")), ("nic-2".into(), "zone-a".into()));
    assert_eq!(client.get("/v1/nics/nic-2").await.text("/nic/status"), "available");
    assert_eq!(client.delete("/v1/nics/nic-2").await.status, 204);
    assert_eq!(client.get("/v1/nics?label=n2").await.at("/nics"), json!([]));
    for (path, body) in [
        ("/v1/volumes", json!({ "name": "v" })),
        ("/v1/volumes", json!({ "size_gib": 1 })),
        ("/v1/nics", json!({ "name": "n", "zone": "zone-z" })),
        ("/v1/nics", json!({ "name": "n", "colour": "red" })),
    ] {
        assert!(client.post(path, body).await.status >= 400, "{path}");
    }
    assert_eq!(client.post("/v1/nics", json!({ "name": "n", "server": "srv-9" })).await.status, 404);
}

#[tokio::test]
async fn a_key_makes_one_volume_unless_the_cloud_forgets_or_ignores_it() {
    let cloud = frozen().await;
    let client = Client::of(&cloud).with("idempotency-key", "key-1");
    let make = async || client.post("/v1/volumes", volume("v1", None)).await.text("/volume/id");
    assert_eq!((make().await, make().await), ("vol-1".to_owned(), "vol-1".to_owned()));
    cloud.behave(|it| it.idempotency = Idempotency { honoured: true, expire_ms: Some(1000) });
    advance(&cloud, 1000);
    assert_eq!(make().await, "vol-2");
    assert_eq!(cloud.ledger().twins(), ["v1"], "a twin of a volume is a twin");
    cloud.behave(|it| it.idempotency.honoured = false);
    assert_eq!(make().await, "vol-3");
}

#[tokio::test]
async fn volumes_and_interfaces_have_quotas_of_their_own() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    cloud.behave(|it| it.limits.volumes = Some(1));
    cloud.behave(|it| it.limits.nics = Some(0));
    assert_eq!(client.post("/v1/volumes", volume("v1", None)).await.status, 201);
    assert_eq!(client.post("/v1/volumes", volume("v2", None)).await.code(), "quota_exceeded");
    assert_eq!(client.post("/v1/nics", nic("n1")).await.code(), "quota_exceeded");
    client.delete("/v1/volumes/vol-1").await;
    assert_eq!(client.post("/v1/volumes", volume("v2", None)).await.status, 201, "room again");
}

#[tokio::test]
async fn lags_hold_for_volumes_as_for_servers_a03_and_c05() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let visibility = Visibility {
        get_ms: 100,
        list_ms: 300,
        deleted_get_ms: 50,
        deleted_list_ms: 200,
        ..Visibility::default()
    };
    cloud.behave(|it| it.visibility = visibility);
    client.post("/v1/volumes", volume("v1", None)).await;
    let listed = async || client.get("/v1/volumes?label=v1").await.at("/volumes").as_array().unwrap().len();
    assert_eq!((client.get("/v1/volumes/vol-1").await.status, listed().await), (404, 0));
    advance(&cloud, 100);
    assert_eq!(
        (client.get("/v1/volumes/vol-1").await.status, listed().await),
        (200, 0),
        "the list lags behind"
    );
    advance(&cloud, 200);
    assert_eq!(listed().await, 1);
    client.delete("/v1/volumes/vol-1").await;
    assert_eq!(client.get("/v1/volumes/vol-1").await.text("/volume/status"), "deleting");
    advance(&cloud, 50);
    assert_eq!(
        (client.get("/v1/volumes/vol-1").await.status, listed().await),
        (404, 1),
        "deleted, still listed"
    );
    advance(&cloud, 150);
    assert_eq!(listed().await, 0);
}

#[tokio::test]
async fn an_owners_resources_are_paged_by_place_so_that_changes_meanwhile_move_nothing() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let ours = json!({ "holdfast": "s", "managed-by": "holdfast" });
    for n in 0..3 {
        let body = json!({ "name": format!("s{n}"), "image": "image-1", "labels": ours });
        client.post("/v1/servers", body).await;
        client.post("/v1/volumes", volume(&format!("v{n}"), None)).await;
        client.post("/v1/nics", nic(&format!("n{n}"))).await;
    }
    client.post("/v1/servers", server("a-stranger")).await;
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.get(&format!("/v1/resources?managed_by=holdfast&per_page=2&after={after}")).await;
        for item in page.at("/resources").as_array().unwrap() {
            let lists = ["servers", "volumes", "nics"].map(|list| item[list].as_array().unwrap().clone());
            let [one] =
                lists.concat().try_into().unwrap_or_else(|all| panic!("one resource an item: {all:?}"));
            let one: Value = one;
            seen.push(one["id"].as_str().unwrap().to_owned());
        }
        if seen.len() == 2 {
            // What was seen goes, and what comes later is seen later.
            client.delete(&format!("/v1/servers/{}", seen[0])).await;
            advance(&cloud, 50);
        }
        match page.at("/meta/next") {
            Value::String(next) => after = next,
            _ => break,
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 9, "{seen:?}");
    assert_eq!(client.get("/v1/resources?managed_by=nobody").await.at("/resources"), json!([]));
    assert_eq!(client.get("/v1/resources").await.status, 422);
}

#[tokio::test]
async fn a_page_of_an_owners_resources_holds_five_hundred_and_no_more() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    for number in 0..501 {
        let seed = Seed { name: format!("s{number}"), manager: Some("holdfast".into()), ..Seed::default() };
        cloud.seed_server(seed).unwrap();
    }
    let page = async |per_page: u32, after: &str| {
        let path = format!("/v1/resources?managed_by=holdfast&per_page={per_page}&after={after}");
        let page = client.get(&path).await;
        (page.at("/resources").as_array().unwrap().len(), page.at("/meta/next"))
    };
    let (first, next) = page(9_000, "").await;
    assert_eq!(first, 500);
    assert_eq!(page(9_000, next.as_str().unwrap()).await, (1, Value::Null));
}

#[tokio::test]
async fn room_is_told_and_kept_by_zone_and_type_and_offers_say_how_long_they_hold() {
    let cloud = frozen().await;
    let client = Client::of(&cloud);
    let full = Capacity { zone: Some("zone-a".into()), kind: Some("small".into()), max: 1, until_ms: None };
    cloud.behave(|it: &mut Behaviour| it.limits.capacity = vec![full]);
    cloud.behave(|it| it.offers_valid_s = 5);
    let left = async |zone: usize, kind: usize| {
        client.get("/v1/zones").await.at(&format!("/zones/{zone}/capacity/{kind}/left"))
    };
    assert_eq!((left(0, 0).await, left(0, 1).await, left(1, 0).await), (json!(1), Value::Null, Value::Null));
    assert_eq!(client.get("/v1/zones").await.at("/valid_seconds"), json!(5));
    let make = async |zone: &str, kind: &str| {
        let body = json!({ "name": "n", "image": "image-1", "zone": zone, "type": kind });
        client.post("/v1/servers", body).await
    };
    assert_eq!(make("zone-a", "small").await.status, 201);
    assert_eq!(left(0, 0).await, json!(0));
    assert_eq!(make("zone-a", "small").await.code(), "no_capacity");
    assert_eq!((make("zone-a", "large").await.status, make("zone-b", "small").await.status), (201, 201));
}
