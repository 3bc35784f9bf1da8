//! Where requests can go, and where they can't.

use super::*;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn on(_: &Heard) -> Says {
    Says::json(200, r#"{"state": "on"}"#)
}

fn resolver(addresses: &[&str]) -> Options {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
    Options { resolver: Some(Arc::new(move |_| addresses.clone())), ..Options::default() }
}

/// The public call, bound to a name that the given options resolve.
async fn by_name(options: Options, ranges: &[&str]) -> (World, Answer) {
    let world = World::with(options, on).await;
    let mut grants = world.service.grants(&["open"]);
    grants.bindings[0].origin = Some(format!("https://api.example:{}", world.service.port));
    grants.bindings[0].ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
    let mut exchange = world.exchange("public", json!({}));
    exchange.credentials = None;
    let answer = world.send(exchange).await;
    (world, answer)
}

#[tokio::test]
async fn a_name_that_resolves_to_an_inner_address_is_not_connected_to_attack_29() {
    let (world, answer) = by_name(resolver(&["127.0.0.1"]), &[]).await;
    assert!(!answer.sent);
    assert!(refusal(&answer.verdict).message.contains("`ranges` of the binding open/lab"));
    assert_eq!(world.service.connected(), 0);
}

#[tokio::test]
async fn without_the_address_policy_it_is_so_the_test_above_can_fail() {
    let defences = Defences { address: false, ..Defences::default() };
    let (world, answer) = by_name(Options { defences, ..resolver(&["127.0.0.1"]) }, &[]).await;
    assert!(matches!(answer.verdict, Verdict::Fits(_)), "{answer:?}");
    assert_eq!(world.service.connected(), 1);
}

#[tokio::test]
async fn one_inner_address_among_good_ones_spoils_the_name_attack_28() {
    let (world, answer) = by_name(resolver(&["127.0.0.1", "10.0.0.1"]), &["127.0.0.1/32"]).await;
    assert!(!answer.sent);
    assert_eq!(world.service.connected(), 0);
    let (_, answer) = by_name(resolver(&["127.0.0.1"]), &["127.0.0.1/32"]).await;
    assert!(matches!(answer.verdict, Verdict::Fits(_)));
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_checked_address_is_the_one_that_is_used_attack_28() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let rebinding: Resolver = Arc::new(move |_| {
        let first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        vec![if first { "127.0.0.1" } else { "169.254.169.254" }.parse().unwrap()]
    });
    let options = Options { resolver: Some(rebinding), ..Options::default() };
    let (world, answer) = by_name(options, &["127.0.0.1/32"]).await;
    assert!(matches!(answer.verdict, Verdict::Fits(_)));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // A new connection asks and checks again.
    world.custody.inner_pool_close();
    let mut exchange = world.exchange("public", json!({}));
    exchange.credentials = None;
    let answer = world.send(exchange).await;
    assert!(refusal(&answer.verdict).message.contains("not allowed"));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_redirect_is_a_status_and_nothing_more_attack_27() {
    let elsewhere = World::new(on).await;
    let target = format!("location: https://127.0.0.1:{}/v1/servers/s1\r\n", elsewhere.service.port);
    let world = World::new(move |_| Says::with(302, &target, "")).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert!(matches!(answer.verdict, Verdict::Unclear(_)));
    assert_eq!(world.service.heard().len(), 1);
    assert_eq!(elsewhere.service.connected(), 0);
    assert!(!format!("{answer:?}").contains("https://"));
}

#[tokio::test]
async fn what_is_not_bound_is_refused_in_the_same_words_attacks_26_and_90() {
    let world = World::new(on).await;
    world.custody.register(world.revision.clone(), manifest(CLOUD), Grants::default()).unwrap();
    let unbound = world.custody.prepare(world.exchange("server", json!({"id": "s1"}))).err().unwrap();
    assert_eq!((unbound.code.as_str(), unbound.reason.as_str()), ("permission-denied", "EndpointNotBound"));
    let mut grants = world.service.grants(&["api"]);
    grants.bindings[0].site = Some("elsewhere".into());
    let registered = world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
    assert_eq!(registered.unbound, ["login-api", "open"]);
    assert_eq!(world.custody.prepare(world.exchange("server", json!({"id": "s1"}))).err().unwrap(), unbound);
    assert_eq!(world.service.connected(), 0);
}

#[tokio::test]
async fn only_the_bindings_authority_or_pinned_key_is_trusted_attack_50() {
    let world = World::new(on).await;
    let stranger = World::new(on).await;
    let mut exchange = world.exchange("public", json!({}));
    exchange.credentials = None;
    let zeros = "0".repeat(64);
    let cases = [
        (Some(world.service.ca.clone()), None, true),
        (Some(stranger.service.ca.clone()), None, false),
        (None, Some(world.service.pin.clone()), true),
        (None, Some(zeros.clone()), false),
        (Some(world.service.ca.clone()), Some(zeros), false),
        (Some(stranger.service.ca.clone()), Some(world.service.pin.clone()), false),
        (Some(world.service.ca.clone()), Some(world.service.pin.clone()), true),
    ];
    for (index, (ca, pin, trusted)) in cases.into_iter().enumerate() {
        let mut grants = world.service.grants(&["open"]);
        (grants.bindings[0].ca_pem, grants.bindings[0].pin_sha256) = (ca, pin);
        world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
        let answer = world.send(exchange.clone()).await;
        assert_eq!(matches!(answer.verdict, Verdict::Fits(_)), trusted, "case {index}");
        assert_eq!(answer.sent, trusted, "case {index}");
    }
}

#[tokio::test]
async fn registration_refuses_what_could_not_be_served_safely() {
    let world = World::new(on).await;
    let register = |change: &dyn Fn(&mut Binding)| {
        let mut grants = world.service.grants(&["open"]);
        change(&mut grants.bindings[0]);
        world.custody.register(Revision("x".into()), manifest(CLOUD), grants)
    };
    assert!(register(&|_| {}).is_ok());
    assert!(matches!(
        register(&|b| b.origin = Some("http://a.example".into())),
        Err(RegisterError::Origin { .. })
    ));
    assert!(matches!(register(&|b| b.origin = None), Err(RegisterError::Origin { .. })));
    assert!(matches!(register(&|b| b.aliases = vec!["http://a".into()]), Err(RegisterError::Origin { .. })));
    assert!(matches!(register(&|b| b.ca_pem = Some("nonsense".into())), Err(RegisterError::Trust { .. })));
    assert!(matches!(register(&|b| b.pin_sha256 = Some("abc".into())), Err(RegisterError::Trust { .. })));
    assert!(matches!(register(&|b| b.endpoint = "none".into()), Err(RegisterError::UnknownEndpoint { .. })));
    assert!(matches!(register(&|b| b.auth = Some("x".into())), Err(RegisterError::Auth { .. })));
    let text = CLOUD.replace("auth = \"none\"", "auth = \"none\"\nvars = [\"project\"]");
    let text = text.replace(
        "path = \"/public\"",
        "path = \"/{p}\"\nargs.p = { at = \"path:p\", from = \"binding:project\" }",
    );
    let missing =
        world.custody.register(Revision("x".into()), manifest(&text), world.service.grants(&["open"]));
    assert!(matches!(missing, Err(RegisterError::MissingVar { .. })));
}

#[tokio::test]
async fn a_read_back_call_needs_a_grant_and_the_refusal_names_the_line_attacks_4_and_5() {
    let world = World::new(on).await;
    let text = CLOUD.replace("path = \"/public\"", "path = \"/user-data\"");
    let mut grants = world.service.grants(&["open"]);
    let refused = world.custody.register(Revision("x".into()), manifest(&text), grants.clone()).unwrap_err();
    assert!(matches!(&refused, RegisterError::CallNotGranted { call, .. } if call == "public"));
    assert!(refused.to_string().contains("add \"public\" to `calls`"), "{refused}");
    grants.calls = names(&["public"]);
    assert!(world.custody.register(Revision("x".into()), manifest(&text), grants).is_ok());
}

/// Field case K03.
#[tokio::test]
async fn connections_are_reused_for_the_same_credentials_only_attack_35() {
    let world = World::new(on).await;
    for _ in 0..3 {
        fields(&world.call("server", json!({"id": "s1"})).await);
    }
    assert_eq!(world.service.connected(), 1);
    let mut other = deposit(&world.revision, "another-token-2");
    other.account = "uid-2".into();
    let id = world.custody.deposit_credentials(other).unwrap();
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.credentials = Some(id);
    fields(&world.send(exchange).await);
    assert_eq!(world.service.connected(), 2);
}

/// Field case A27.
#[tokio::test]
async fn a_mutation_is_never_sent_twice_and_its_loss_is_unclear_hole_h5() {
    let world = World::new(|heard| if heard.method == "POST" { Says::Hang } else { on(heard) }).await;
    fields(&world.call("server", json!({"id": "s1"})).await);
    let answer = world.send(world.create()).await;
    assert!(answer.sent);
    assert!(matches!(answer.verdict, Verdict::Unclear(_)));
    let posts = world.service.heard().iter().filter(|heard| heard.method == "POST").count();
    assert_eq!(posts, 1);
}

#[tokio::test]
async fn a_read_on_a_connection_that_the_service_closed_is_sent_again() {
    let first = Mutex::new(true);
    let world = World::new(move |heard| {
        match (heard.connection, std::mem::replace(&mut *first.lock().unwrap(), false)) {
            (0, false) => Says::Hang,
            _ => on(heard),
        }
    })
    .await;
    fields(&world.call("server", json!({"id": "s1"})).await);
    fields(&world.call("server", json!({"id": "s1"})).await);
    assert_eq!(world.service.connected(), 2);
}

#[tokio::test]
async fn nothing_was_sent_where_nobody_listens() {
    let world = World::new(on).await;
    let mut grants = world.service.grants(&["api"]);
    // The discard port of this host, on which nothing listens.
    grants.bindings[0].origin = Some("https://127.0.0.1:9".into());
    world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
    let answer = world.send(world.create()).await;
    assert!(!answer.sent);
    assert!(matches!(&answer.verdict, Verdict::Rejected(refused) if refused.code == "unavailable"));
}

#[tokio::test]
async fn failures_tell_no_address_no_path_and_no_text_of_a_library_attack_58() {
    let world = World::new(|_| Says::Bytes(b"not http at all\r\n\r\n".to_vec())).await;
    let garbled = world.call("server", json!({"id": "s1"})).await;
    let mut grants = world.service.grants(&["api"]);
    grants.bindings[0].origin = Some("https://127.0.0.1:9".into());
    world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
    let closed = world.call("server", json!({"id": "s1"})).await;
    for answer in [garbled, closed] {
        let told = serde_json::to_string(&answer).unwrap();
        for hidden in ["127.0.0.1", "/v1", "s1\"", "os error", "refused (", "hyper", "Bearer", "9Xk2"] {
            assert!(!told.contains(hidden), "{hidden}: {told}");
        }
    }
}

/// Field case D11.
#[tokio::test]
async fn a_silent_service_is_left_in_time_and_the_answer_says_what_was_sent() {
    let world = World::new(|_| Says::Silence).await;
    let mut exchange = world.create();
    exchange.timeout_ms = 2_000;
    let answer = world.send(exchange).await;
    assert!(answer.sent && matches!(answer.verdict, Verdict::Unclear(_)));
}
