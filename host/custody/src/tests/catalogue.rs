//! Attacks that belong to no other topic: laundering, chunking, smuggling, foreign accounts, bindings per machine.

use super::*;

fn on(_: &Heard) -> Says {
    Says::json(200, r#"{"state": "on"}"#)
}

#[tokio::test]
async fn a_secret_split_over_chunks_is_read_whole_before_it_is_judged_attack_10() {
    let world = World::new(|heard| {
        let body = json!({"state": "on", "note": heard.header("authorization")}).to_string();
        let mut bytes =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
                .to_vec();
        for chunk in body.as_bytes().chunks(3) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        Says::Bytes(bytes)
    })
    .await;
    assert_eq!(refusal(&world.call("server", json!({"id": "s1"})).await.verdict).reason, "ReplyDoesNotFit");
    assert_eq!(world.caught(), 1);
}

#[tokio::test]
async fn a_secret_that_is_captured_again_stays_watched_for_attack_21() {
    let options = Options { grace: std::time::Duration::ZERO, ..Options::default() };
    let world = World::with(options, |heard| {
        let token = heard.header("authorization").unwrap().trim_start_matches("Bearer ");
        Says::json(201, json!({"id": "srv-1", "root_password": token}).to_string())
    })
    .await;
    fields(&world.send(world.create()).await);
    // The capture is forgotten at once, the credential that it repeats is not.
    assert!(world.custody.scan("cloud", Place::Result, TOKEN).is_err());
}

#[tokio::test]
async fn first_boot_data_goes_out_with_our_credentials_only_attack_38() {
    let world = World::new(on).await;
    let mut manifest = (*manifest(CLOUD)).clone();
    manifest.calls.get_mut("create").unwrap().endpoint = "open".into();
    let mut grants = world.service.grants(&["open"]);
    let refused =
        world.custody.register(Revision("x".into()), Arc::new(manifest.clone()), grants.clone()).unwrap_err();
    assert!(refused.to_string().contains("attack 38"), "{refused}");
    grants.calls = names(&["create"]);
    assert!(world.custody.register(Revision("x".into()), Arc::new(manifest), grants).is_ok());
}

#[tokio::test]
async fn framing_and_authority_are_never_a_modules_to_set_attacks_30_34_41() {
    let world = World::new(on).await;
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "te",
        "upgrade",
        "expect",
        "range",
        "connection",
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-http-method-override",
    ] {
        for argument in [true, false] {
            let mut manifest = (*manifest(CLOUD)).clone();
            let call = manifest.calls.get_mut("public").unwrap();
            if argument {
                let mut arg =
                    crate::test_kit::arg(holdfast_manifest::Type::Id, holdfast_manifest::Source::Guest);
                arg.at = vec![holdfast_manifest::Place::Header(name.into())];
                call.args.insert("evil".into(), arg);
            } else {
                call.headers.push((name.into(), "1".into()));
            }
            let registered =
                world.custody.register(Revision("x".into()), Arc::new(manifest), Grants::default());
            assert!(matches!(registered, Err(RegisterError::Manifest { .. })), "{name}");
        }
    }
}

#[tokio::test]
async fn headers_that_repeat_or_digest_the_request_are_no_fields_attacks_6_and_16() {
    let world = World::new(on).await;
    for name in ["set-cookie", "www-authenticate", "content-md5", "digest", "x-amz-checksum-sha256"] {
        let mut manifest = (*manifest(CLOUD)).clone();
        let mut field = crate::test_kit::field(holdfast_manifest::Type::Id, "/x");
        field.at = vec![holdfast_manifest::Place::Header(name.into())];
        manifest.calls.get_mut("public").unwrap().fields.insert("echo".into(), field);
        let registered = world.custody.register(Revision("x".into()), Arc::new(manifest), Grants::default());
        assert!(matches!(registered, Err(RegisterError::Manifest { .. })), "{name}");
    }
}

/// The Redfish shape: an address per machine, within the operator's ranges.
async fn per_machine(ranges: &[&str]) -> World {
    let world = World::new(on).await;
    let mut manifest = (*manifest(CLOUD)).clone();
    let address = crate::test_kit::pointer("/spec/bmc/address");
    manifest.endpoints.get_mut("open").unwrap().per =
        holdfast_manifest::Per::Machine { address, credential: None };
    let mut grants = world.service.grants(&["open"]);
    grants.bindings[0].origin = None;
    grants.bindings[0].ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    world.custody.register(world.revision.clone(), Arc::new(manifest), grants).unwrap();
    world
}

fn at(world: &World, address: String) -> Exchange {
    let mut exchange = world.exchange("public", json!({}));
    exchange.credentials = None;
    exchange.selector = Selector::Machine { site: "lab".into(), address, auth: None };
    exchange
}

#[tokio::test]
async fn an_address_per_machine_lies_in_the_operators_ranges_attack_29() {
    let world = per_machine(&["127.0.0.0/30"]).await;
    let port = world.service.port;
    let answer = world.send(at(&world, format!("127.0.0.1:{port}"))).await;
    assert_eq!(fields(&answer), json!({"state": "on"}));
    assert_eq!(answer.binding, format!("open/lab/127.0.0.1:{port}"));
    for address in ["127.0.0.9", "8.8.8.8", "169.254.169.254", "::1"] {
        let answer = world.send(at(&world, address.into())).await;
        assert!(!answer.sent, "{address}");
        assert!(refusal(&answer.verdict).message.contains("not allowed"), "{address}");
    }
    for address in ["", "127.0.0.1/x", "u@127.0.0.1", "http://127.0.0.1"] {
        assert!(world.custody.prepare(at(&world, address.into())).is_err(), "{address}");
    }
    let mut site = at(&world, String::new());
    site.selector = Selector::Site { site: "lab".into() };
    assert_eq!(world.custody.prepare(site).err().unwrap().reason, "EndpointNotBound");
    let open = Grants {
        bindings: vec![Binding { origin: None, ranges: vec![], ..world.service.binding("open") }],
        ..Grants::default()
    };
    let mut manifest = (*manifest(CLOUD)).clone();
    let address = crate::test_kit::pointer("/a");
    manifest.endpoints.get_mut("open").unwrap().per =
        holdfast_manifest::Per::Machine { address, credential: None };
    let refused = world.custody.register(Revision("x".into()), Arc::new(manifest), open);
    assert!(
        matches!(refused, Err(RegisterError::RangesRequired { .. })),
        "no ranges is none, not any (attack 86)"
    );
}

#[tokio::test]
async fn a_binding_per_value_and_site_serves_exactly_those() {
    let world = World::new(on).await;
    let mut manifest = (*manifest(CLOUD)).clone();
    manifest.endpoints.get_mut("open").unwrap().per = holdfast_manifest::Per::Config("region".into());
    let mut grants = world.service.grants(&["open", "open"]);
    grants.bindings[0].value = Some("eu".into());
    grants.bindings[1].value = Some("us".into());
    grants.bindings[1].site = Some("lab".into());
    world.custody.register(world.revision.clone(), Arc::new(manifest), grants).unwrap();
    let bind = |site: &str, value: &str| {
        let mut exchange = world.exchange("public", json!({}));
        exchange.credentials = None;
        exchange.selector = Selector::Value { site: site.into(), value: value.into() };
        world.custody.prepare(exchange).map(|prepared| prepared.binding().to_owned()).ok()
    };
    assert_eq!(bind("lab", "eu").as_deref(), Some("open/lab/eu"));
    assert_eq!(bind("lab", "us").as_deref(), Some("open/lab/us"));
    assert_eq!(bind("other", "us"), None);
    assert_eq!(bind("lab", "asia"), None);
}

#[tokio::test]
async fn operators_variables_are_the_hosts_to_fill_hole_h2() {
    let world = World::new(on).await;
    let text = CLOUD.replace("auth = \"none\"", "auth = \"none\"\nvars = [\"project\"]");
    let text = text.replace(
        "path = \"/public\"",
        "path = \"/{p}/x\"\nargs.p = { at = \"path:p\", from = \"binding:project\" }",
    );
    let mut grants = world.service.grants(&["open"]);
    grants.bindings[0].vars.insert("project".into(), "ours".into());
    world.custody.register(world.revision.clone(), manifest(&text), grants).unwrap();
    let exchange = |args: Value| Exchange { credentials: None, ..world.exchange("public", args) };
    fields(&world.send(exchange(json!({}))).await);
    assert_eq!(world.service.targets(), ["GET /ours/x"]);
    assert!(world.custody.prepare(exchange(json!({"p": "ours"}))).is_ok());
    assert!(world.custody.prepare(exchange(json!({"p": "theirs"}))).is_err());
}

#[tokio::test]
async fn an_exchange_of_another_providers_owner_is_refused_attack_85() {
    let world = World::new(on).await;
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.scope.provider = "other".into();
    assert!(world.custody.prepare(exchange).is_err());
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    exchange.revision = Revision("gone@1".into());
    assert_eq!(world.custody.prepare(exchange).err().unwrap().reason, "RevisionNotRegistered");
    world.custody.unregister(&world.revision);
    assert!(world.custody.prepare(world.exchange("server", json!({"id": "s1"}))).is_err());
}

/// Every documented API can be served: its bindings, trust and grants fit together.
#[tokio::test]
async fn each_example_manifest_registers_with_the_grants_that_it_asks_for() {
    let world = World::new(on).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifest/examples");
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let manifest = manifest(&std::fs::read_to_string(&path).unwrap());
        let bindings = manifest.endpoints.iter().map(|(name, endpoint)| Binding {
            origin: (!matches!(endpoint.per, holdfast_manifest::Per::Machine { .. }))
                .then(|| "https://api.example".into()),
            vars: endpoint.vars.iter().map(|var| (var.clone(), "v".to_owned())).collect(),
            auth: endpoint.auth.keys().next().cloned(),
            ..world.service.binding(name)
        });
        let mut calls: BTreeSet<String> =
            manifest.needs_grants().into_iter().map(|grant| grant.call).collect();
        let bindings: Vec<Binding> = bindings.collect();
        let register = |calls: &BTreeSet<String>| {
            let grants = Grants { bindings: bindings.clone(), calls: calls.clone() };
            world.custody.register(Revision("x".into()), manifest.clone(), grants)
        };
        assert_eq!(
            register(&calls).map(|registered| registered.unbound),
            Ok(Vec::new()),
            "{}",
            path.display()
        );
        if let Some(call) = calls.pop_first() {
            let refused = register(&calls).unwrap_err();
            assert!(matches!(refused, RegisterError::CallNotGranted { call: named, .. } if named == call));
        }
        seen += 1;
    }
    assert!(seen > 0);
}
