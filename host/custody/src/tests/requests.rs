//! What leaves: exact bytes, by place, once, and nothing where a place or a value does not fit.

use super::*;
use holdfast_manifest::{Body, Method, Place, Source, Type};

#[tokio::test]
async fn a_create_is_the_skeleton_with_arguments_and_secrets_in_their_places() {
    let world =
        World::new(|_| Says::json(201, r#"{"id": "srv-1", "root_password": "Made-by-cloud-1"}"#)).await;
    let prepared = world.custody.prepare(world.create()).unwrap();
    assert_eq!(prepared.binding(), "api/lab");
    assert_eq!(prepared.fingerprint().len(), 52);
    let answer = world.custody.send(prepared).await;
    assert!(answer.sent);
    assert_eq!(fields(&answer), json!({"id": "srv-1"}));
    let heard = &world.service.heard()[0];
    assert_eq!(heard.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(heard.header("accept-encoding"), Some("identity"));
    assert_eq!(heard.header("host"), Some(format!("127.0.0.1:{}", world.service.port).as_str()));
    assert_eq!(heard.header("content-type"), Some("application/json"));
    assert_eq!(heard.head.to_lowercase().matches("content-length").count(), 1);
    let mut body: Value = serde_json::from_slice(&heard.body).unwrap();
    let made = body.as_object_mut().unwrap().remove("admin_pass").unwrap();
    assert_eq!(made.as_str().unwrap().len(), 20);
    assert_eq!(
        body,
        json!({"start": true, "name": "hfabc", "labels": {"holdfast": "hfabc"}, "image": "img-1", "user_data": DATA})
    );
    assert_eq!(heard.text().matches("hunter-Two7").count(), 1, "spliced exactly once");
}

#[tokio::test]
async fn a_repeat_has_the_same_fingerprint_and_other_first_boot_data_has_another() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    let first = world.create();
    let mut second = first.clone();
    let other = SecretBytes::from("#cloud-config\npassword: another-9Pass\n".to_owned());
    let once = world.custody.prepare(first.clone()).unwrap();
    let again = world.custody.prepare(first).unwrap();
    assert_eq!(once.fingerprint(), again.fingerprint());
    let id = world.custody.deposit_user_data(&world.revision, "web-1", other).unwrap();
    second.user_data.insert("user-data".into(), id);
    assert_ne!(once.fingerprint(), world.custody.prepare(second).unwrap().fingerprint());
    // A key of this host: another host can't tell what was sent (attack 16).
    let elsewhere = World::new(|_| Says::Hang).await;
    assert_ne!(once.fingerprint(), elsewhere.custody.prepare(elsewhere.create()).unwrap().fingerprint());
    assert!(world.service.heard().is_empty(), "preparing sends nothing");
}

#[tokio::test]
async fn empty_first_boot_data_leaves_its_place_unwritten() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    let with = world.create();
    let mut without = with.clone();
    let nothing = SecretBytes::from(String::new());
    let id = world.custody.deposit_user_data(&world.revision, "web-1", nothing).unwrap();
    without.user_data.insert("user-data".into(), id);
    let empty = world.custody.prepare(without).unwrap();
    assert_ne!(empty.fingerprint(), world.custody.prepare(with).unwrap().fingerprint());
    let answer = world.custody.send(empty).await;
    assert_eq!(fields(&answer), json!({"id": "srv-1"}), "nothing of a reply is taken for the secret");
    let body: Value = serde_json::from_slice(&world.service.heard()[0].body).unwrap();
    assert_eq!((body.get("user_data"), body["image"].as_str()), (None, Some("img-1")));
    world.custody.revoke_user_data(id);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_anything_is_sent_attacks_31_to_33() {
    let world = World::new(|_| Says::json(200, r#"{"state": "on"}"#)).await;
    for evil in ["..", ".", "a/b", "a?b", "a#b", "a\r\nX: y", "", "a b", "%2e%2e", "\u{ff0e}\u{ff0e}"] {
        let refused = world.custody.prepare(world.exchange("server", json!({"id": evil}))).err().unwrap();
        assert_eq!(refused.reason, "ArgumentDoesNotFit", "{evil:?}");
        assert!(!refused.message.contains(evil) || evil.len() < 2, "{}", refused.message);
    }
    for args in [json!({}), json!({"id": null}), json!({"id": ["a"]}), json!({"id": "a", "more": 1})] {
        assert!(world.custody.prepare(world.exchange("server", args)).is_err());
    }
    for call in ["login", "logout", "nothing"] {
        let refused = world.custody.prepare(world.exchange(call, json!({}))).err().unwrap();
        assert_eq!(refused.reason, "CallNotDeclared", "sessions are run by the host only");
    }
    assert!(world.service.heard().is_empty());
}

#[tokio::test]
async fn first_boot_data_needs_its_slot_and_its_own_provider_attacks_20_and_85() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    let mut without = world.create();
    without.user_data.clear();
    assert!(world.custody.prepare(without).is_err(), "a missing slot sends nothing (attack 87)");
    let mut wrong = world.create();
    let id = wrong.user_data.remove("user-data").unwrap();
    wrong.user_data.insert("admin".into(), id);
    assert!(world.custody.prepare(wrong).is_err());
    let other = Revision("other@1".into());
    let mut manifest = (*manifest(CLOUD)).clone();
    manifest.provider.name = "other".into();
    world.custody.register(other.clone(), Arc::new(manifest), Grants::default()).unwrap();
    let mut stolen = world.create();
    let foreign =
        world.custody.deposit_user_data(&other, "web-9", SecretBytes::from(DATA.to_owned())).unwrap();
    stolen.user_data.insert("user-data".into(), foreign);
    assert!(world.custody.prepare(stolen).is_err());
    let mut stolen = world.create();
    stolen.credentials = Some(world.custody.deposit_credentials(deposit(&other, "another-token-1")).unwrap());
    assert_eq!(world.custody.prepare(stolen).err().unwrap().reason, "CredentialsMissing");
    let mut nobody = world.create();
    nobody.credentials = None;
    assert_eq!(world.custody.prepare(nobody).err().unwrap().code, "unauthenticated");
}

#[tokio::test]
async fn a_declared_slot_over_an_existing_leaf_is_refused_attack_43() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    let mut manifest = (*manifest(CLOUD)).clone();
    manifest.calls.get_mut("create").unwrap().body = Body::Json(json!({"user_data": "constant"}));
    let grants = world.service.grants(&["api"]);
    world.custody.register(world.revision.clone(), Arc::new(manifest), grants).unwrap();
    let refused = world.custody.prepare(world.create()).err().unwrap();
    assert_eq!(refused.code, "internal");
}

#[tokio::test]
async fn forms_lists_formats_and_host_values_go_to_their_places() {
    let world = World::new(|_| Says::json(200, r#"{"state": "on"}"#)).await;
    let mut manifest = (*manifest(CLOUD)).clone();
    let call = manifest.calls.get_mut("public").unwrap();
    call.method = Method::Post;
    call.body = Body::Form(vec![("Action".into(), "List".into())]);
    let arg = |at: &str, ty| {
        let mut arg = crate::test_kit::arg(ty, Source::Guest);
        arg.at = vec![Place::Form(at.into())];
        arg
    };
    call.args.insert("ids".into(), arg("Id.*", Type::Id));
    call.args.insert("text".into(), arg("Text", Type::Text(20)));
    world
        .custody
        .register(world.revision.clone(), Arc::new(manifest), world.service.grants(&["open"]))
        .unwrap();
    let mut exchange = world.exchange("public", json!({"ids": ["a", "b"], "text": "x&y=z +"}));
    exchange.credentials = None;
    assert_eq!(fields(&world.send(exchange).await), json!({"state": "on"}));
    let heard = &world.service.heard()[0];
    assert_eq!(heard.text(), "Action=List&Id.1=a&Id.2=b&Text=x%26y%3Dz%20%2B");
    assert_eq!(heard.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(heard.header("authorization"), None);
}
