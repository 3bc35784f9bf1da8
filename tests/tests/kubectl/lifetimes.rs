//! Daemons that stop, start and meet; files that must be private. No provider is needed for it.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use data_encoding::{BASE64, HEXLOWER};
use holdfast_tests::house::{House, binary};

const VALUE: &str = "correct horse battery staple 7Q";

fn version(house: &House, object: &str) -> u64 {
    let path = ["get", object, "-o", "jsonpath={.metadata.resourceVersion}"];
    house.kubectl_ok(&path).unwrap().parse().unwrap()
}

#[tokio::test]
async fn objects_and_their_versions_outlive_the_daemon_and_a_secret_is_never_in_the_store_in_clear() {
    let mut house = House::new().unwrap();
    house.start().await.unwrap();
    let mode = std::fs::metadata(house.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the kubeconfig holds a token");

    house
        .kubectl_ok(&["create", "secret", "generic", "kept", &format!("--from-literal=word={VALUE}")])
        .unwrap();
    house.kubectl_ok(&["create", "configmap", "kept", "--from-literal=shown=in-the-store-in-clear"]).unwrap();
    let given = house.kubectl_ok(&["get", "secret", "kept", "-o", "jsonpath={.data.word}"]).unwrap();
    assert_eq!(given, BASE64.encode(VALUE.as_bytes()), "who may read a Secret reads it");
    let uid = house.kubectl_ok(&["get", "cm", "kept", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let before = version(&house, "secret/kept").max(version(&house, "cm/kept"));

    for round in ["SIGKILL", "SIGTERM"] {
        let bytes = house.state_bytes().unwrap();
        let holds = |what: &str| bytes.windows(what.len()).any(|window| window == what.as_bytes());
        assert!(holds("in-the-store-in-clear"), "the look is real: a ConfigMap is not encrypted");
        for form in [VALUE.to_owned(), given.clone(), HEXLOWER.encode(VALUE.as_bytes())] {
            assert!(!holds(&form), "a Secret's data stands in the store in clear ({round})");
        }
        if round == "SIGKILL" {
            house.kill().unwrap()
        } else {
            house.stop().await.unwrap()
        }
        house.start().await.unwrap();
        assert_eq!(
            house.kubectl_ok(&["get", "secret", "kept", "-o", "jsonpath={.data.word}"]).unwrap(),
            given
        );
        assert_eq!(house.kubectl_ok(&["get", "cm", "kept", "-o", "jsonpath={.metadata.uid}"]).unwrap(), uid);
    }
    house.kubectl_ok(&["label", "cm", "kept", "after=restarts"]).unwrap();
    let after = version(&house, "cm/kept");
    assert!(after > before, "versions only grow: {before}, then {after}");
}

#[tokio::test]
async fn a_second_daemon_on_the_same_state_directory_fails_with_one_clear_sentence() {
    let mut house = House::new().unwrap();
    house.start().await.unwrap();
    let second = Command::new(binary().unwrap())
        .args(["run", "--config"])
        .arg(house.folder().join("holdfast.toml"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!second.status.success(), "two daemons must not share a store");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    let told: Vec<&str> =
        told.lines().filter(|line| !line.contains("TRACE") && !line.contains("DEBUG")).collect();
    assert_eq!(told.len(), 1, "one sentence: {told:#?}");
    assert!(told[0].contains("another daemon uses ") && told[0].contains("stop it first"), "{}", told[0]);
    assert!(house.kubectl_ok(&["get", "ns"]).is_ok(), "the first one serves on, under the same kubeconfig");
}
