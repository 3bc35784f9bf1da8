//! What survives, what is encrypted, and who may open the store.

mod common;

use std::path::Path;

use common::{Memory, machine, start, start_on};
use holdfast_api::{Machine, MachineSpec};
use holdfast_apiserver::store::{Row, StoreError};
use holdfast_apiserver::{ApiServer, Options, ServerError};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

async fn open(directory: &Path) -> Result<ApiServer, ServerError> {
    ApiServer::open(directory, Options::default()).await
}

fn secret(value: &str) -> Secret {
    serde_json::from_value(json!({ "metadata": { "name": "s", "annotations": { "copy": value } },
        "stringData": { "password": value } }))
    .unwrap()
}

fn sim(name: &str) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    machine.spec.host.external.provider = "sim".into();
    machine.spec.host.external.provider_id = Some("i-1".into());
    machine
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening_and_versions_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path()).await.unwrap();
    let machines: Api<Machine> = Api::all(server.client());
    let kept = machines.create(&PostParams::default(), &sim("kept")).await.unwrap();
    machines.create(&PostParams::default(), &sim("gone")).await.unwrap();
    machines.delete("gone", &DeleteParams::default()).await.unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(server.client());
    secrets.create(&PostParams::default(), &secret("open sesame")).await.unwrap();
    let last = server.metrics().version;
    server.shutdown().await;
    drop((machines, secrets, server));

    let server = open(directory.path()).await.unwrap();
    let machines: Api<Machine> = Api::all(server.client());
    assert_eq!(machines.get("kept").await.unwrap(), kept);
    assert!(machines.get_opt("gone").await.unwrap().is_none());
    let secrets: Api<Secret> = Api::default_namespaced(server.client());
    let data = secrets.get("s").await.unwrap().data.unwrap();
    assert_eq!(data["password"].0, b"open sesame");
    let next = machines.create(&PostParams::default(), &sim("next")).await.unwrap();
    assert!(next.resource_version().unwrap().parse::<u64>().unwrap() > last);
    let error = machines.watch(&kube::api::WatchParams::default(), &last.to_string()).await;
    assert!(matches!(error.err(), Some(kube::Error::Api(status)) if status.code == 410));
}

#[tokio::test]
async fn bytes_of_a_secret_are_nowhere_in_the_files_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path()).await.unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(server.client());
    let canary = "c4n4ry-0f-th3-st0r3";
    secrets.create(&PostParams::default(), &secret(canary)).await.unwrap();
    let look = || {
        let encoded = data_encoding::BASE64.encode(canary.as_bytes());
        let mut files = 0;
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            files += 1;
            for needle in [canary.as_bytes(), encoded.as_bytes()] {
                assert!(!bytes.windows(needle.len()).any(|w| w == needle));
            }
        }
        assert!(files >= 2);
    };
    look();
    secrets.delete("s", &DeleteParams::default()).await.unwrap();
    server.shutdown().await;
    drop((secrets, server));
    look();
}

#[tokio::test]
async fn a_second_daemon_is_refused_with_a_clear_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path()).await.unwrap();
    let error = open(directory.path()).await.err().expect("two daemons on one store");
    assert!(matches!(error, ServerError::Locked(_)));
    assert!(error.to_string().contains("another daemon uses"));
    server.shutdown().await;
    drop(server);
    open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn a_store_without_its_key_or_with_another_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("holdfast.key");
    open(directory.path()).await.unwrap().shutdown().await;
    let right = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(open(directory.path()).await.err(), Some(ServerError::KeyMissing { .. })));

    std::fs::write(&key, [7; 32]).unwrap();
    assert!(matches!(open(directory.path()).await.err(), Some(ServerError::PrivateFile { .. })), "mode 0644");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(open(directory.path()).await.err(), Some(ServerError::KeyWrong { .. })));

    std::fs::write(&key, right).unwrap();
    open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn private_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let server = open(&directory).await.unwrap();
    let path = server.default_kubeconfig();
    server.write_kubeconfig(&path, "127.0.0.1:1".parse().unwrap()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    for name in ["holdfast.db", "holdfast.key", "api-server.key", "admin-token.sha256", "kubeconfig"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn writes_that_wait_together_share_one_commit() {
    let fixture = start().await;
    let before = fixture.memory.commits.lock().unwrap().len();
    let (open, gate) = std::sync::mpsc::channel();
    *fixture.memory.gate.lock().unwrap() = Some(gate);
    // The first commit holds the writer; the others queue behind it.
    let names: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let creates = names.iter().map(|name| fixture.post(common::MACHINES, machine(name)));
    let mut all = Box::pin(futures::future::join_all(creates));
    assert!(futures::poll!(&mut all).is_pending());
    drop(open);
    assert!(all.await.iter().all(|a| a.code == 201));
    let commits = fixture.memory.commits.lock().unwrap()[before..].to_vec();
    assert_eq!(commits.iter().map(|c| c.0).sum::<usize>(), 20);
    assert!(commits.len() <= 2, "{commits:?}");
}

#[tokio::test]
async fn a_write_that_the_store_refuses_is_not_visible_and_not_acknowledged() {
    let fixture = start().await;
    *fixture.memory.fails.lock().unwrap() = Some(StoreError::Refused("the disk is full".into()));
    let answer = fixture.post(common::MACHINES, machine("m")).await;
    assert_eq!(answer.code, 500);
    assert!(answer.message().contains("the disk is full"));
    assert_eq!(fixture.get(&format!("{}/m", common::MACHINES)).await.code, 404);
    assert_eq!(fixture.post(common::MACHINES, machine("m")).await.code, 201);
}

#[tokio::test]
async fn only_events_may_be_lost_and_only_by_themselves() {
    let fixture = start().await;
    let event =
        json!({ "metadata": { "generateName": "e-" }, "involvedObject": { "kind": "Machine", "name": "m" } });
    fixture.post("/api/v1/namespaces/default/events", event).await.ok();
    assert_eq!(fixture.memory.commits.lock().unwrap().last(), Some(&(1, false)));
    for (path, object) in [
        (common::MACHINES, machine("m")),
        (common::SECRETS, json!({ "metadata": { "name": "s" } })),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", json!({ "metadata": { "name": "l" } })),
    ] {
        fixture.post(path, object).await.ok();
        assert_eq!(fixture.memory.commits.lock().unwrap().last(), Some(&(1, true)), "{path}");
    }
}

#[tokio::test]
async fn after_a_failure_of_the_store_the_server_is_not_healthy() {
    let fixture = start().await;
    assert_eq!(fixture.get("/readyz").await.code, 200);
    *fixture.memory.fails.lock().unwrap() = Some(StoreError::Refused("the disk is full".into()));
    assert_eq!(fixture.post(common::MACHINES, machine("m")).await.code, 500);
    assert!(!fixture.server.store_failed(), "a full disk needs no restart");
    *fixture.memory.fails.lock().unwrap() = Some(StoreError::Failed("input/output error".into()));
    assert_eq!(fixture.post(common::MACHINES, machine("m")).await.code, 500);
    assert_eq!(fixture.get("/readyz").await.code, 500);
    assert!(fixture.server.store_failed());
}

#[tokio::test]
async fn a_secret_that_is_not_encrypted_in_the_store_is_damage() {
    let row = |sealed| Row {
        kind: "/secrets".into(),
        namespace: "holdfast-system".into(),
        name: "s".into(),
        version: 1,
        body: r#"{"metadata":{"name":"s"}}"#.into(),
        sealed,
    };
    for (sealed, opens) in [(true, true), (false, false)] {
        let memory = Memory::default();
        memory.rows.lock().unwrap().push(row(sealed));
        assert_eq!(start_on(memory).await.is_ok(), opens);
    }
}
