//! Deposits: what is refused, what is counted, what is shown.

use super::*;

async fn world() -> World {
    World::new(|_| Says::json(200, r#"{"state": "on"}"#)).await
}

fn with(revision: &Revision, key: &str, value: &str) -> CredentialDeposit {
    let mut deposit = deposit(revision, TOKEN);
    deposit.values.insert(key.into(), SecretBytes::from(value.to_owned()));
    deposit
}

#[tokio::test]
async fn deposits_are_checked_against_the_manifest_and_errors_hold_no_value() {
    let world = world().await;
    let deposit =
        |key: &str, value: &str| world.custody.deposit_credentials(with(&world.revision, key, value));
    assert_eq!(deposit("password", "s3cret!"), Err(DepositError::TooShort { key: "password".into() }));
    assert!(deposit("user", "x").is_ok(), "a public key may be short");
    assert!(matches!(deposit("passwd", "longer-than-8"), Err(DepositError::Unknown { .. })));
    let mut missing = super::deposit(&world.revision, TOKEN);
    missing.values.remove("password");
    assert_eq!(
        world.custody.deposit_credentials(missing),
        Err(DepositError::Missing { key: "password".into() })
    );
    let unknown = super::deposit(&Revision("x".into()), TOKEN);
    assert_eq!(world.custody.deposit_credentials(unknown), Err(DepositError::UnknownRevision));
}

#[tokio::test]
async fn a_value_that_would_end_a_header_is_refused_where_it_goes_to_one_attack_33() {
    let world = world().await;
    for evil in ["token\r\nX-Evil: 1", "token-with-nul\0", "token-ünïcode", " leading-space"] {
        let refused =
            world.custody.deposit_credentials(with(&world.revision, "api-token", evil)).unwrap_err();
        assert_eq!(refused, DepositError::NotAHeader { key: "api-token".into() });
        assert!(!refused.to_string().contains(evil));
    }
    assert!(
        world.custody.deposit_credentials(with(&world.revision, "password", "json\r\nis fine\u{1}")).is_ok()
    );
}

#[tokio::test]
async fn the_same_bytes_are_one_deposit_until_the_last_is_revoked() {
    let world = world().await;
    let again = world.custody.deposit_credentials(deposit(&world.revision, TOKEN)).unwrap();
    assert_eq!(again, world.credentials);
    world.custody.revoke_credentials(again);
    fields(&world.call("server", json!({"id": "s1"})).await);
    world.custody.revoke_credentials(again);
    let refused = world.custody.prepare(world.exchange("server", json!({"id": "s1"}))).err().unwrap();
    assert_eq!(refused.reason, "CredentialsMissing");
    let new = world.custody.deposit_credentials(deposit(&world.revision, TOKEN)).unwrap();
    assert_ne!(new, again, "a number is never used again");
}

#[tokio::test]
async fn evidence_counts_splices_and_catches_by_name_only() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    fields(&world.send(world.create()).await);
    let _ = world.custody.scan("cloud", Place::Log, &format!("so {TOKEN}"));
    let evidence = world.custody.evidence();
    let of =
        |name: &str| evidence.iter().find(|e| e.secret == name).unwrap_or_else(|| panic!("{evidence:?}"));
    assert_eq!((of("cloud-account/api-token").spliced, of("cloud-account/api-token").caught), (1, 1));
    assert_eq!(of("first-boot data of web-1").spliced, 1);
    assert_eq!(of("generated create.admin").spliced, 1);
    assert_eq!(of("cloud-account/password").spliced, 0);
    assert!(!format!("{evidence:?}").contains("hunter"));
}

#[tokio::test]
async fn counters_of_secrets_that_nobody_holds_are_forgotten_once_there_are_many_attack_a10() {
    let options = Options { grace: std::time::Duration::ZERO, ..Options::default() };
    let world = World::with(options, |_| Says::json(200, r#"{"state": "on"}"#)).await;
    for machine in 0..4096 {
        let data = SecretBytes::from(format!("first-boot data of number {machine}"));
        let id = world.custody.deposit_user_data(&world.revision, &format!("web-{machine}"), data).unwrap();
        world.custody.revoke_user_data(id);
    }
    let evidence = world.custody.evidence();
    assert!(evidence.len() <= 1100, "{} names are counted and three are held", evidence.len());
    assert!(evidence.iter().any(|e| e.secret == "cloud-account/api-token"), "what is deposited stays");
}

#[tokio::test]
async fn a_service_account_file_is_split_and_its_parts_are_watched() {
    let text = CLOUD.replace(
        "api-token = { about = \"Token.\", required = false }",
        "file = { about = \"File.\", kind = \"json-file\", from-file = { api-token = \"json:/nested/token\" } }",
    );
    let world = world().await;
    let revision = Revision("cloud@2".into());
    world.custody.register(revision.clone(), manifest(&text), world.service.grants(&["api"])).unwrap();
    let file = json!({"type": "service_account", "nested": {"token": "from-the-file-77Xy"}}).to_string();
    let mut deposit = deposit(&revision, TOKEN);
    deposit.values.remove("api-token");
    deposit.values.insert("file".into(), SecretBytes::from("{}".repeat(5)));
    assert!(matches!(world.custody.deposit_credentials(deposit), Err(DepositError::NotAFile { .. })));
    let mut deposit = super::deposit(&revision, TOKEN);
    deposit.values.remove("api-token");
    deposit.values.insert("file".into(), SecretBytes::from(file));
    let id = world.custody.deposit_credentials(deposit).unwrap();
    let mut exchange = world.exchange("server", json!({"id": "s1"}));
    (exchange.revision, exchange.credentials) = (revision, Some(id));
    fields(&world.send(exchange).await);
    assert_eq!(world.service.heard()[0].header("authorization"), Some("Bearer from-the-file-77Xy"));
    assert!(world.custody.scan("cloud", Place::Log, "x from-the-file-77Xy").is_err());
}

#[tokio::test]
async fn one_providers_secrets_are_not_another_providers_business() {
    let world = world().await;
    assert!(world.custody.scan("cloud", Place::Log, TOKEN).is_err());
    assert!(world.custody.scan("other", Place::Log, TOKEN).is_ok());
}

#[tokio::test]
async fn keys_of_a_purpose_are_stable_under_one_master_key_only() {
    let options = |byte| Options { master_key: zeroize::Zeroizing::new([byte; 32]), ..Options::default() };
    let (one, same, other) = (options(1), options(1), options(2));
    let key = |options| Custody::new(options).unwrap().keyed("tokens", &["op-1", "create"]);
    let first = key(one);
    assert_eq!(first, key(same));
    assert_ne!(first, key(other));
}
