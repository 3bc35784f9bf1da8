//! A small manifest that every rule is broken against, one at a time.

#![allow(dead_code)]

use holdfast_manifest::{Manifest, Rule};

pub const BASE: &str = r#"
[provider]
name = "sim"
version = "1.2.3"
contract = "0.1"
provider-id = "sim://{zone}/{server}"

[operations]
HostReboot = { mode = "immediate" }

[credentials]
api-key = { about = "Key of the account" }

[endpoints.api]
about = "The simulated cloud"
vars = ["project"]
auth = { put = { "header:Authorization" = "Bearer {api-key}" } }
error-code = "json:/error/code"

[calls.get]
endpoint = "api"
effect = "read"
method = "GET"
path = "/v1/{project}/servers/{id}"
gone = ["404"]
args.project = { at = "path:project", from = "binding:project" }
args.id = { at = "path:id", type = "id", on = "server" }
fields.state = { at = "json:/state", type = "word" }
fields.link = { at = "json:/links/self", type = "sealed", within = "/v1/**", optional = true }

[calls.find]
endpoint = "api"
effect = "read"
method = "GET"
path = "/v1/servers?limit=50"
args.name = { at = "query:name", from = "token" }
pages = { items = "servers", next = "json:/next", into = "query:page" }
[calls.find.fields.servers]
at = "json:/servers/*"
each = { id = { at = "json:/id", type = "id" }, name = { at = "json:/name", type = "word" }, token = { at = "json:/labels/holdfast", type = "word" } }

[calls.create]
endpoint = "api"
effect = "create"
method = "POST"
path = "/v1/servers"
accept = [201]
replay = "lookup"
lookup = { call = "find", item = "servers", absent-after = "60s" }
body.json = '{"start": true, "boot": {"mode": "uefi"}, "disks": [{"size": 10}]}'
args.name = { at = "json:/name", from = "token" }
args.image = { at = "json:/image", from = "host-image" }
args.cores = { at = "json:/cores", type = "int", as = "int", optional = true }
slots.user-data = { kind = "user-data", at = "json:/user_data", encode = ["base64"], max-bytes = 16384 }
fields.id = { at = "json:/id", type = "id" }
creates = { server = "id" }
rejects = { NoCapacity = "capacity-exhausted" }

[calls.reboot]
endpoint = "api"
effect = "update"
method = "POST"
path = "/v1/servers/{id}/reboot"
replay = "never"
args.id = { at = "path:id", type = "id", on = "server" }

[calls.delete]
endpoint = "api"
effect = "destroy"
method = "DELETE"
path = "/v1/servers/{id}"
replay = "idempotent"
gone = ["404"]
args.id = { at = "path:id", type = "id", on = "server" }
"#;

/// The base with one text replaced by another; the text must be there.
pub fn with(old: &str, new: &str) -> String {
    assert!(BASE.contains(old), "the base has no `{old}`");
    BASE.replacen(old, new, 1)
}

/// The base with more lines at the end.
pub fn and(more: &str) -> String {
    format!("{BASE}\n{more}")
}

pub fn load(text: &str) -> Manifest {
    Manifest::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Refused, by this rule, with these words.
#[track_caller]
pub fn refused(text: &str, rule: Rule, words: &str) {
    match Manifest::parse(text) {
        Ok(_) => panic!("accepted, though {rule} forbids it: {words}"),
        Err(errors) => {
            let found = errors.0.iter().any(|p| p.rule == rule && p.to_string().contains(words));
            assert!(found, "expected {rule} with `{words}`, found:\n{errors}");
        }
    }
}
