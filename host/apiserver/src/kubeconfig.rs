//! The kubeconfig that leads `kubectl` to the embedded API. It holds the admin token: mode 0600.

use base64::Engine as _;

/// Renders a kubeconfig.
pub(crate) fn render(server: &str, ca: &str, token: &str) -> String {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: holdfast
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: holdfast-admin
  user:
    token: {token}
contexts:
- name: holdfast
  context:
    cluster: holdfast
    user: holdfast-admin
    namespace: {}
current-context: holdfast
",
        holdfast_api::SYSTEM_NAMESPACE
    )
}

/// The token in a kubeconfig that was rendered here.
pub(crate) fn token_in(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("token:")).map(str::trim)
}
