//! The real room below: what effects makes of custody's answers, as far as that needs no TLS server.

mod kit;

use holdfast_custody::{Binding, CredentialDeposit, Custody, Grants, Options, Revision, SecretBytes};
use holdfast_effects::*;
use kit::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;

const TOKEN: &str = "Tk-9f3c1d77a2b84e0f";

/// A session of a registered module whose endpoint lies at this port of the machine.
fn session(port: u16, disk: &Disk) -> Arc<Session> {
    let custody = Custody::new(Options::default()).unwrap();
    let revision = Revision("fake@0".into());
    let binding = Binding {
        endpoint: "api".into(),
        site: None,
        value: None,
        origin: Some(format!("https://127.0.0.1:{port}")),
        ca_pem: None,
        pin_sha256: Some("ab".repeat(32)),
        ranges: vec!["127.0.0.1/32".parse().unwrap()],
        vars: BTreeMap::new(),
        auth: None,
        aliases: Vec::new(),
    };
    let grants = Grants { bindings: vec![binding], ..Grants::default() };
    custody.register(revision.clone(), manifest(), grants).unwrap();
    let deposit = CredentialDeposit {
        revision: revision.clone(),
        name: "fake".into(),
        account: "uid-1".into(),
        values: BTreeMap::from([("api-token".to_owned(), SecretBytes::from(TOKEN.to_owned()))]),
    };
    let mut context = context(Phase::Act);
    context.credentials = Some(custody.deposit_credentials(deposit).unwrap());
    context.deadline = WallClock.now() + jiff::SignedDuration::from_secs(20);
    let journal = MemoryJournal::on(disk, &kit::cloud::Life::long(), 1);
    Effects::new(Arc::new(custody)).open(context, manifest(), Some(journal))
}

#[tokio::test]
async fn a_service_that_nobody_listens_for_is_a_definite_refusal_even_of_a_call_declared_never() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let disk = Disk::default();
    let failure = failed(session(port, &disk).perform("create".into(), no_args("make-never")).await);
    assert!(!failure.permanent, "{failure:?}");
    let effect = disk.lock().unwrap()["create"].clone();
    assert_eq!((effect.state, effect.attempts), (EffectState::Rejected, 1));
    assert!(effect.binding.starts_with("api/") && !effect.fingerprint.is_empty(), "{effect:?}");
}

#[tokio::test]
async fn a_connection_that_is_closed_before_the_request_left_is_a_definite_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let disk = Disk::default();
    failed(session(port, &disk).perform("kick".into(), call("kick", json!({"id": "old"}))).await);
    assert_eq!(disk.lock().unwrap()["kick"].state, EffectState::Rejected);
    server.abort();
}

#[tokio::test]
async fn a_live_secret_in_what_a_guest_says_is_withheld() {
    let session = session(1, &Disk::default());
    let line = LogLine { level: LogLevel::Info, message: format!("it is {TOKEN}"), fields: vec![] };
    assert_eq!(session.log(line).unwrap_err().reason, "SecretInOutput");
    // In an argument it is a misfit like any other (attack 15).
    let argued = failed(session.read(call("find", json!({"name": "create", "x": TOKEN}))).await);
    assert_eq!(argued.reason, "UndeclaredArgument");
    let message = format!("{:?}", session.accept(Returned::Cancel(Err(argued))));
    assert!(!message.contains(TOKEN) || message.contains("SecretInOutput"), "{message}");
}

#[tokio::test]
async fn a_forged_sealed_value_is_refused_and_nothing_is_sent() {
    let disk = Disk::default();
    let args = json!({"target": "hs1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"});
    let failure = failed(session(1, &disk).perform("stop".into(), call("stop", args)).await);
    assert_eq!((failure.reason.as_str(), failure.permanent), ("SealedValueForeign", true));
    assert!(disk.lock().unwrap().is_empty());
}
