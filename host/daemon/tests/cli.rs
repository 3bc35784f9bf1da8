//! The command line as its users meet it. (This file is also why cargo builds the binary for the tests of the
//! workspace.)

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn holdfast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A configuration that names a CA file, a secret file and an environment variable.
const CONFIG: &str = "state-dir = 's'
providers-dir = 'p'
[[provider]]
name = 'simulated'
[[provider.endpoint]]
name = 'api'
site = 'lab'
origin = 'https://cloud.example:8443'
ca = 'ca.pem'
[[secret]]
provider = 'simulated'
site = 'lab'
values = { api-token = { file = 'token' }, other = { env = 'HOLDFAST_TEST_ABSENT' } }
";

#[test]
fn config_check_tells_the_policy_in_words_and_names_all_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdfast.toml");
    std::fs::write(&path, CONFIG).unwrap();
    let check = || holdfast(&["config", "check", "--config", path.to_str().unwrap()]);
    let policy = "endpoint api at site lab is bound to https://cloud.example:8443";
    let output = check();
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains(policy), "the policy is told all the same");
    let told = text(&output.stderr);
    for part in ["ca.pem cannot be read", "key api-token: ", "no HOLDFAST_TEST_ABSENT"] {
        assert_eq!(told.lines().filter(|line| line.contains(part)).count(), 1, "{part}:\n{told}");
    }

    std::fs::write(&path, CONFIG.replace(", other = { env = 'HOLDFAST_TEST_ABSENT' }", "")).unwrap();
    std::fs::write(folder.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "c4n4ry\n").unwrap();
    let private = |mode| std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
    private(0o644);
    let output = check();
    assert!(!output.status.success() && text(&output.stderr).contains("can be read by others: chmod 600 it"));
    private(0o600);
    let output = check();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(policy));
    assert!(!text(&output.stdout).contains("c4n4ry"));
}

#[test]
fn a_wrong_config_names_line_and_key_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdfast.toml");
    std::fs::write(&path, "state-dir = 's'\nproviders-dir = 'p'\n[limits]\nguest-thread = 2\n").unwrap();
    let output = holdfast(&["config", "check", "--config", path.to_str().unwrap()]);
    assert!(!output.status.success());
    let told = text(&output.stderr);
    assert!(told.contains("holdfast.toml:4:") && told.contains("did you mean `guest-threads`"), "{told}");
}

#[test]
fn try_says_which_field_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let reply = folder.path().join("reply.json");
    let manifest = repository().join("providers/simulated/provider.toml");
    let run = |body: &str| {
        std::fs::write(&reply, body).unwrap();
        let (manifest, reply) = (manifest.to_str().unwrap(), reply.to_str().unwrap());
        holdfast(&["provider", "try", "server", "--provider", manifest, "--reply", reply])
    };
    let good = run(
        r#"{"server": {"status": "running", "boots": 3, "created_at": "2026-01-02T03:04:05Z", "root_password": "x"}}"#,
    );
    assert!(good.status.success(), "{}", text(&good.stderr));
    assert!(!text(&good.stdout).contains("root_password"));
    let bad = run(r#"{"server": {"status": "running", "boots": "three"}}"#);
    assert!(!bad.status.success());
    assert!(text(&bad.stdout).contains("boots"), "{}", text(&bad.stdout));
}

#[test]
fn pack_refuses_what_is_no_component() {
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core.wasm");
    std::fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
    let manifest = repository().join("providers/simulated/provider.toml");
    let output = holdfast(&[
        "provider",
        "pack",
        core.to_str().unwrap(),
        "--manifest",
        manifest.to_str().unwrap(),
        "--output",
        folder.path().join("out.wasm").to_str().unwrap(),
    ]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("wasm32-wasip2"));
}

#[test]
fn kubeconfig_of_a_daemon_that_never_ran_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdfast.toml");
    std::fs::write(&path, "state-dir = 's'\nproviders-dir = 'p'\n").unwrap();
    let output = holdfast(&["kubeconfig", "--config", path.to_str().unwrap()]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("has the daemon been started?"));
}
