//! Constructs of real APIs that the examples do not use: each is a small manifest in the grammar.

mod common;

use common::{load, refused};
use holdfast_manifest::*;

fn provider(rest: &str) -> String {
    format!(
        "[provider]\nname = 'p'\nversion = '1.0.0'\ncontract = '0.1'\nprovider-id = 'p://{{server}}'\n{rest}"
    )
}

#[test]
fn openstack_keystone_logs_in_at_another_endpoint_and_lives_as_long_as_the_reply_says() {
    let m = load(&provider(
        r#"
[credentials]
app-credential-id = { about = "id", public = true }
app-credential-secret = { about = "secret" }
[endpoints.identity]
about = "Keystone"
auth = "none"
[endpoints.compute]
about = "Nova"
auth = { login = "token", put = { "header:X-Auth-Token" = "{token}" }, life = { at = "json:/token/expires_at", less = "60s" } }
[calls.token]
endpoint = "identity"
effect = "session"
method = "POST"
path = "/v3/auth/tokens"
accept = [201]
body.json = '{"auth": {"identity": {"methods": ["application_credential"], "application_credential": {}}}}'
slots.id = { kind = "credential", key = "app-credential-id", at = "json:/auth/identity/application_credential/id" }
slots.secret = { kind = "credential", key = "app-credential-secret", at = "json:/auth/identity/application_credential/secret" }
captures.token = { at = "header:X-Subject-Token" }
[calls.nova-create]
endpoint = "compute"
effect = "create"
method = "POST"
path = "/servers"
accept = [202]
replay = "lookup"
lookup = { call = "nova-find", item = "servers", absent-after = "120s" }
body.json = '{"server": {"min_count": 1, "max_count": 1, "config_drive": true}}'
args.name = { at = ["json:/server/name", "json:/server/metadata/holdfast"], from = "token" }
args.nets = { at = "json:/server/networks/*/uuid", from = "config:networks", type = "id" }
slots.user-data = { kind = "user-data", at = "json:/server/user_data", encode = ["base64"], max-bytes = 65535, max-of = "encoded" }
captures.admin = { at = "json:/server/adminPass", optional = true, to = "scan" }
fields.id = { at = "json:/server/machine", type = "id" }
creates = { server = "id" }
[calls.nova-find]
endpoint = "compute"
effect = "read"
method = "GET"
path = "/servers/detail"
args.name = { at = "query:name", from = "token" }
fields.servers = { at = "json:/servers/*", each = { id = { at = "json:/machine", type = "id" }, token = { at = "json:/name", type = "word" } } }
[calls.nova-stop]
endpoint = "compute"
effect = "update"
method = "POST"
path = "/servers/{id}/action"
accept = [202]
replay = "idempotent"
body.json = '{"os-stop": null}'
args.id = { at = "path:id", type = "id", on = "server" }
"#,
    ));
    let Auth::Session { life, .. } = &m.endpoints["compute"].auth["default"] else { panic!() };
    assert!(matches!(life, Life::At { less: 60, .. }));
    assert!(m.calls["nova-create"].args["nets"].is_list());
    assert!(!m.needs_credentials(&m.calls["nova-create"]) || m.endpoints["compute"].authenticates());
    assert_eq!(m.needs_grants(), []);
}

#[test]
fn azure_names_by_the_host_and_generates_the_password_nobody_keeps() {
    let text = provider(
        r#"
[credentials]
client-id = { about = "id", public = true }
client-secret = { about = "secret" }
[endpoints.login]
about = "Entra"
vars = ["tenant"]
auth = "none"
[endpoints.arm]
about = "ARM"
vars = ["subscription"]
auth = { login = "aad", put = { "header:Authorization" = "Bearer {token}" }, life = { at = "json:/expires_in", less = "120s" } }
error-code = "json:/error/code"
[calls.aad]
endpoint = "login"
effect = "session"
method = "POST"
path = "/{tenant}/oauth2/v2.0/token"
args.tenant = { at = "path:tenant", from = "binding:tenant" }
body.form = "grant_type=client_credentials&scope=https://management.azure.com/.default"
slots.id = { kind = "credential", key = "client-id", at = "form:client_id" }
slots.secret = { kind = "credential", key = "client-secret", at = "form:client_secret" }
captures.token = { at = "json:/access_token" }
[calls.put-vm]
endpoint = "arm"
effect = "create"
method = "PUT"
replay = "idempotent"
accept = [200, 201, 202]
path = "/subscriptions/{sub}/resourceGroups/{rg}/providers/Microsoft.Compute/virtualMachines/{name}?api-version=2024-07-01"
args.sub = { at = "path:sub", from = "binding:subscription" }
args.rg = { at = "path:rg", from = "config:resource-group" }
args.name = { at = "path:name", from = "token", format = "hf-{}" }
args.image = { at = "json:/properties/storageProfile/imageReference/id", from = "host-image" }
args.nic = { at = "json:/properties/networkProfile/networkInterfaces/0/id", type = "path", on = "nic" }
body.json = '{"properties": {"storageProfile": {"osDisk": {"createOption": "FromImage", "deleteOption": "Delete"}}, "osProfile": {"adminUsername": "holdfast"}, "networkProfile": {"networkInterfaces": [{}]}}}'
slots.user-data = { kind = "user-data", at = "json:/properties/osProfile/customData", encode = ["base64"], max-bytes = 65535, max-of = "plain" }
slots.admin = { kind = "generated", at = "json:/properties/osProfile/adminPassword", alphabet = "mixed", length = 40 }
fields.monitor = { at = ["header:Azure-AsyncOperation", "header:Location"], type = "sealed", optional = true, within = "/subscriptions/*/providers/Microsoft.Compute/locations/*/**" }
creates = { vm = "args.name" }
rejects = { SkuNotAvailable = "capacity-exhausted", QuotaExceeded = "quota-exceeded" }
[calls.put-nic]
endpoint = "arm"
effect = "create"
method = "PUT"
replay = "idempotent"
path = "/nics/{name}"
body.json = "{}"
args.name = { at = "path:name", from = "token" }
fields.id = { at = "json:/id", type = "path" }
creates = { nic = "id" }
[calls.lro]
endpoint = "arm"
effect = "read"
method = "GET"
accept = [200, 202]
args.monitor = { at = "url", from = "put-vm.monitor" }
fields.state = { at = "json:/status", type = "word", optional = true }
"#,
    );
    let m = load(&text);
    assert!(matches!(m.calls["put-vm"].slots["admin"].kind, SlotKind::Generated { length: 40, .. }));
    assert_eq!(m.calls["lro"].args["monitor"].ty, Type::Sealed);
    refused(&text.replace("networkInterfaces\": [{}]", "x\": [{}]"), Rule::L1, "needs the list");
}

#[test]
fn gcp_marks_requests_with_a_uuid_of_the_token_and_fills_element_0() {
    let m = load(&provider(
        r#"
[endpoints.compute]
about = "GCE"
vars = ["project"]
auth = "none"
[calls.insert]
endpoint = "compute"
effect = "create"
method = "POST"
path = "/compute/v1/projects/{project}/zones/{zone}/instances"
replay = "lookup"
lookup = { call = "one", item = "self" }
args.project = { at = "path:project", from = "binding:project" }
args.zone = { at = "path:zone", from = "offering.zone" }
args.rid = { at = "query:requestId", from = "token", format = "uuid" }
args.name = { at = ["json:/name", "json:/labels/holdfast"], from = "token", format = "hf-{}" }
body.json = '{"metadata": {"items": [{"key": "user-data"}]}, "disks": [{"boot": true, "initializeParams": {}}]}'
args.image = { at = "json:/disks/0/initializeParams/sourceImage", from = "host-image" }
slots.user-data = { kind = "user-data", at = "json:/metadata/items/0/value", encode = ["utf8"], max-bytes = 262144 }
fields.op = { at = "json:/name", type = "id", optional = true }
creates = { instance = "args.name" }
[calls.one]
endpoint = "compute"
effect = "read"
method = "GET"
path = "/compute/v1/instances/{name}"
gone = ["404"]
args.name = { at = "path:name", from = "token", format = "hf-{}" }
fields.disk = { at = "json:/disks/*/source", match = "https://www.googleapis.com/compute/v1/{}", type = "path" }
"#,
    ));
    assert_eq!(m.calls["insert"].args["rid"].format, ArgFormat::Uuid);
    let Some(Replay::Lookup(lookup)) = &m.calls["insert"].replay else { panic!() };
    assert_eq!((lookup.item.as_str(), lookup.absent_after), ("self", 600));
}

#[test]
fn proxmox_has_alternative_ways_to_log_in_and_numbers_for_names() {
    let m = load(&provider(
        r#"
[credentials]
token-id = { about = "t", public = true, required = false }
token-secret = { about = "t", required = false }
user = { about = "u", public = true, required = false }
password = { about = "p", required = false }
[endpoints.pve]
about = "Proxmox VE"
[endpoints.pve.auth.by-token]
put = { "header:Authorization" = "PVEAPIToken={token-id}={token-secret}" }
[endpoints.pve.auth.by-ticket]
login = "ticket"
put = { "header:Cookie" = "PVEAuthCookie={ticket}", "header:CSRFPreventionToken" = "{csrf}" }
life = "110m"
[calls.ticket]
endpoint = "pve"
effect = "session"
method = "POST"
path = "/api2/json/access/ticket"
body.form = ""
slots.user = { kind = "credential", key = "user", at = "form:username" }
slots.password = { kind = "credential", key = "password", at = "form:password" }
captures.ticket = { at = "json:/data/ticket" }
captures.csrf = { at = "json:/data/CSRFPreventionToken" }
[calls.clone]
endpoint = "pve"
effect = "create"
method = "POST"
path = "/api2/json/nodes/{node}/qemu/{tpl}/clone"
replay = "lookup"
lookup = { call = "vm", item = "self" }
body.form = "full=1"
args.node = { at = "path:node", from = "config:node" }
args.tpl = { at = "path:tpl", from = "host-image", type = "int" }
args.id = { at = "form:newid", from = "token", format = "int:1000000-99999999" }
fields.task = { at = "json:/data", type = "id", optional = true }
creates = { vm = "args.id" }
[calls.vm]
endpoint = "pve"
effect = "read"
method = "GET"
path = "/api2/json/nodes/{node}/qemu/{id}/status/current"
gone = ["404"]
args.node = { at = "path:node", from = "config:node" }
args.id = { at = "path:id", from = "token", format = "int:1000000-99999999" }
"#,
    ));
    assert_eq!(m.endpoints["pve"].auth.keys().collect::<Vec<_>>(), ["by-ticket", "by-token"]);
    assert_eq!(m.calls["clone"].args["id"].ty, Type::Int);
}

#[test]
fn vsphere_captures_the_root_of_a_reply_and_learns_the_id_from_a_task() {
    let m = load(&provider(
        r#"
[credentials]
user = { about = "u", public = true }
password = { about = "p" }
[endpoints.vc]
about = "vCenter"
auth = { login = "session", put = { "header:vmware-api-session-id" = "{token}" }, logout = "end", life = "25m" }
[calls.session]
endpoint = "vc"
effect = "session"
method = "POST"
path = "/api/session"
accept = [201]
body = "none"
slots.basic = { kind = "credential", at = "header:Authorization", format = "Basic {base64(user:password)}" }
captures.token = { at = "json:" }
[calls.end]
endpoint = "vc"
effect = "session"
method = "DELETE"
path = "/api/session"
accept = [204]
reply = "none"
[calls.clone]
endpoint = "vc"
effect = "create"
method = "POST"
path = "/sdk/vim25/8.0.1.0/VirtualMachine/{tpl}/CloneVM_Task"
replay = "lookup"
lookup = { call = "by-name", item = "vms" }
body.json = '{"name": {}, "spec": {"_typeName": "VirtualMachineCloneSpec", "powerOn": true, "config": {"extraConfig": [{"_typeName": "OptionValue", "key": "guestinfo.userdata"}, {"_typeName": "OptionValue", "key": "guestinfo.userdata.encoding", "value": {"_typeName": "string", "_value": "gzip+base64"}}]}}}'
args.tpl = { at = "path:tpl", from = "host-image", type = "id" }
args.mark = { at = "json:/spec/mark", from = "token" }
slots.user-data = { kind = "user-data", at = "json:/spec/config/extraConfig/0/value/_value", encode = ["gzip", "base64"], max-bytes = 65536, max-of = "encoded" }
fields.task = { at = "json:/value", type = "id", optional = true }
[calls.by-name]
endpoint = "vc"
effect = "read"
method = "GET"
path = "/api/vcenter/vm"
args.mark = { at = "query:names", from = "token" }
fields.vms = { at = "json:/*", each = { vm = { at = "json:/vm", type = "id" }, token = { at = "json:/name", type = "word" } } }
[calls.task]
endpoint = "vc"
effect = "read"
method = "GET"
path = "/sdk/vim25/8.0.1.0/Task/{task}/info"
args.task = { at = "path:task", from = "clone.task" }
fields.state = { at = "json:/state", type = "word" }
fields.vm = { at = "json:/result/value", type = "id", optional = true }
completes = { clone = { arg = "task", when = { field = "state", is = "success" } } }
creates = { vm = "vm" }
"#,
    ));
    assert_eq!(m.calls["session"].captures["token"].at, Place::Json(Pointer::default()));
    assert!(m.calls["clone"].creates.is_empty() && m.calls["task"].completes.contains_key("clone"));
}

#[test]
fn digitalocean_linode_and_vultr_page_in_three_ways() {
    let list = |pages: &str| {
        provider(&format!(
            "[endpoints.api]\nabout='x'\nauth='none'\n[calls.list]\nendpoint='api'\neffect='read'\nmethod='GET'\npath='/v2/droplets'\n\
             args.f = {{ at = 'header:X-Filter', from = 'token', format = '{{\"tags\":\"hf-{{}}\"}}' }}\n\
             fields.items = {{ at = 'json:/items/*', each = {{ id = {{ at = 'json:/id', type = 'id' }} }} }}\npages = {pages}"
        ))
    };
    let pages = |text: &str| load(&list(text)).calls["list"].pages.clone().unwrap();
    assert_eq!(pages("{ items = 'items', next = 'json:/links/pages/next', into = 'url' }").into, Place::Url);
    assert!(matches!(
        pages("{ items = 'items', next = { page = 'json:/page', of = 'json:/pages' }, into = 'query:page' }")
            .next,
        NextPage::Count { .. }
    ));
    assert_eq!(
        pages("{ items = 'items', next = 'json:/meta/links/next', into = 'query:cursor' }").max_pages,
        100
    );
    refused(
        &list("{ items = 'items', next = { page = 'json:/page', of = 'json:/pages' }, into = 'url' }"),
        Rule::L1,
        "takes a URL",
    );
    let m = load(&list("{ items = 'items', next = 'json:/n', into = 'query:p' }"));
    assert_eq!(m.calls["list"].args["f"].format, ArgFormat::Around("{\"tags\":\"hf-".into(), "\"}".into()));
}

#[test]
fn a_service_account_file_is_split_into_keys() {
    let text = provider(
        r#"
[credentials.account]
about = "Service account file"
kind = "json-file"
from-file = { client-email = "json:/client_email", private-key-id = "json:/private_key_id" }
[endpoints.api]
about = "x"
auth = { put = { "header:X-Account" = "{client-email}/{private-key-id}" } }
[calls.get]
endpoint = "api"
effect = "read"
method = "GET"
path = "/"
"#,
    );
    load(&text);
    refused(
        &text.replace("/{private-key-id}", ""),
        Rule::L1,
        "nothing uses the credential key `private-key-id`",
    );
    refused(
        &text.replace("/{private-key-id}", "/{private-key-id}{account}"),
        Rule::L1,
        "no credential key is named `account`",
    );
}

#[test]
fn the_aws_form_lists_work_without_its_signature() {
    let m = load(&provider(
        r#"
[endpoints.ec2]
about = "EC2-like"
per = "config:region"
auth = "none"
[calls.terminate]
endpoint = "ec2"
effect = "destroy"
method = "POST"
path = "/"
replay = "idempotent"
body.form = "Action=TerminateInstances&Version=2016-11-15"
args.ids = { at = "form:InstanceId.*", type = "id", on = "server" }
"#,
    ));
    assert!(m.calls["terminate"].args["ids"].is_list());
    assert_eq!(m.endpoints["ec2"].per, Per::Config("region".into()));
}
