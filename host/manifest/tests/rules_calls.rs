//! L6 to L11: each message has a manifest that breaks exactly this.

mod common;

use common::*;
use holdfast_manifest::*;

const SESSION: &str = r#"
[endpoints.old]
about = "An older API with sessions"
auth = { login = "login", put = { "header:X-Session" = "{session}" }, life = "20m" }
[calls.old-read]
endpoint = "old"
effect = "read"
method = "GET"
path = "/x"
[calls.login]
endpoint = "old"
effect = "session"
method = "POST"
path = "/login"
body.json = "{}"
slots.key = { kind = "credential", key = "api-key", at = "json:/key" }
captures.session = { at = "json:/session" }
"#;

#[test]
fn l6_credentials_outside_a_login_need_the_operators_grant_by_call_name() {
    assert_eq!(load(&and(SESSION)).needs_grants(), []);
    let slot = and("[calls.find.slots.k]\nkind = \"credential\"\nkey = \"api-key\"\nat = \"header:X-Key\"");
    let grants = load(&slot).needs_grants();
    assert_eq!((grants.len(), grants[0].call.as_str(), grants[0].rule), (1, "find", Rule::L6));
    let query = load(&with("header:Authorization", "query:key")).needs_grants();
    assert_eq!(query.len(), 5, "every call of the endpoint carries it: {query:?}");
    refused(
        &and("[calls.find.slots.k]\nkind = \"generated\"\nlength = 20\nat = \"json:/k\""),
        Rule::L6,
        "belongs to a call that makes something",
    );
}

#[test]
fn l7_session_calls_take_nothing_from_a_guest_and_give_nothing() {
    let session = and(SESSION);
    refused(
        &format!("{session}\n[calls.login.args.x]\nat = \"json:/x\"\ntype = \"word\""),
        Rule::L7,
        "no argument of the guest",
    );
    refused(
        &format!("{session}\n[calls.login.args.x]\nat = \"json:/x\"\nfrom = \"host-name\""),
        Rule::L7,
        "outlives one operation",
    );
    refused(
        &format!("{session}\n[calls.login.fields.x]\nat = \"json:/x\"\ntype = \"word\""),
        Rule::L7,
        "shows nothing",
    );
    refused(
        &session.replace("kind = \"credential\", key = \"api-key\"", "kind = \"user-data\""),
        Rule::L7,
        "slots for credentials only",
    );
    refused(
        &and("[calls.get.captures]\nx = { at = \"json:/x\", to = \"session\" }"),
        Rule::L7,
        "only session calls",
    );
    refused(
        &session.replace("captures.session", "captures.spare = { at = \"json:/spare\" }\ncaptures.session"),
        Rule::L1,
        "nothing uses this capture",
    );
    refused(
        &session.replace("\"header:X-Session\" = \"{session}\"", "\"header:X-Session\" = \"{sesion}\""),
        Rule::L1,
        "did you mean `session`",
    );
}

const AT_URL: &str = r#"
[calls.poke]
endpoint = "api"
effect = "update"
method = "POST"
replay = "never"
args.target = { at = "url", from = "get.link", on = "server" }
"#;

#[test]
fn l8_sealed_values_name_their_source_and_stay_within_it() {
    load(&and(AT_URL));
    refused(&and(&AT_URL.replace("from = \"get.link\"", "type = \"sealed\"")), Rule::L8, "names its source");
    refused(
        &and(&AT_URL.replace("from = \"get.link\"", "from = \"get.state\"")),
        Rule::L8,
        "accepts sealed values only",
    );
    refused(
        &with(", within = \"/v1/**\"", "").replace("[calls.delete]", &format!("{AT_URL}[calls.delete]")),
        Rule::L8,
        "needs `within`",
    );
    refused(&and(&AT_URL.replace(", on = \"server\"", "")), Rule::L8, "whose target it is");
    let blind = and(AT_URL).replace(
        "args.id = { at = \"path:id\", type = \"id\", on = \"server\" }\nfields.state",
        "args.id = { at = \"path:id\", type = \"id\" }\nfields.state",
    );
    refused(&blind, Rule::L8, "it may speak of a neighbour");
    refused(
        &with("type = \"word\" }\nfields.link", "type = \"word\", within = \"/x\" }\nfields.link"),
        Rule::L8,
        "bounds sealed values only",
    );
}

#[test]
fn l8_what_a_read_returned_is_sealed_or_it_cannot_be_checked() {
    let text = "[calls.other]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/o/{x}'\nargs.x = { at = 'path:x', from = 'get.state' }";
    refused(&and(text), Rule::L8, "is not recorded");
    load(&and(&text.replace("get.state", "create.id")));
}

#[test]
fn l9_no_field_ends_at_a_name_for_secrets() {
    for name in [
        "user_data",
        "userData",
        "UserData",
        "user-data",
        "customData",
        "metadata",
        "password",
        "root_password",
        "passwordHash",
        "adminPass",
        "client_secret",
        "access_token",
        "console",
        "consoleOutput",
        "output",
        "kubeconfig",
        "privateKey",
        "ssh_key",
        "userDatas",
    ] {
        for ty in ["word", "id", "int", "sealed", "text:20"] {
            let text = with(
                "at = \"json:/state\", type = \"word\"",
                &format!("at = \"json:/{name}\", type = \"{ty}\""),
            );
            refused(&text, Rule::L9, "secrets or first-boot data");
        }
        refused(
            &with("at = \"json:/state\"", &format!("at = \"json:/{name}/0\"")),
            Rule::L9,
            "secrets or first-boot data",
        );
        refused(
            &with("at = \"json:/state\"", &format!("at = \"header:X-{name}\"")),
            Rule::L9,
            "secrets or first-boot data",
        );
    }
    refused(
        &with("at = \"json:/state\"", "at = \"json:/items/[key=user-data]/value\""),
        Rule::L9,
        "user-data",
    );
    refused(&with("name = { at = \"json:/name\"", "name = { at = \"json:/password\""), Rule::L9, "password");
    load(&with("at = \"json:/state\"", "at = \"json:/metadata/labels/holdfast\""));
}

#[test]
fn l9_no_field_ends_where_a_slot_puts_a_secret() {
    let text = with("at = \"json:/user_data\"", "at = \"json:/boot/payload\"")
        .replace("at = \"json:/state\"", "at = \"json:/x/payload\"");
    refused(&text, Rule::L9, "where a slot puts a secret");
}

#[test]
fn l9_a_call_that_asks_for_such_a_thing_needs_a_grant_by_name() {
    let grant = |text: String, call: &str| {
        let grants = load(&text).needs_grants();
        assert!(grants.iter().any(|g| g.call == call && g.rule == Rule::L9), "{grants:?}");
    };
    grant(
        with(
            "/servers/{id}\"\ngone = [\"404\"]\nargs.project",
            "/servers/{id}/user-data\"\ngone = [\"404\"]\nargs.project",
        ),
        "get",
    );
    grant(with("/servers/{id}/reboot", "/servers/{id}/console"), "reboot");
    let form = "[calls.attr]\nendpoint = 'api'\neffect = 'read'\nmethod = 'POST'\npath = '/'\nbody.form = ";
    grant(and(&format!("{form}'Action=DescribeInstanceAttribute&Attribute=userData'")), "attr");
    grant(and(&format!("{form}'Action=GetConsoleOutput'")), "attr");
    grant(and(&form.replace("body.form = ", "body.json = '{\"os-getConsoleOutput\": {}}'")), "attr");
    assert_eq!(load(&and(&format!("{form}'Action=DescribeInstances'"))).needs_grants(), []);
}

#[test]
fn l10_calls_name_calls_that_exist_and_fit() {
    refused(&with("call = \"find\"", "call = \"fnd\""), Rule::L10, "did you mean `find`");
    refused(&with("call = \"find\"", "call = \"delete\""), Rule::L10, "must be a read");
    refused(&with("item = \"servers\"", "item = \"server\""), Rule::L10, "did you mean `servers`");
    refused(&with("item = \"servers\"", "item = \"self\""), Rule::L10, "how absence is told");
    refused(
        &with("each = { id = { at = \"json:/id\", type = \"id\" }, name", "each = { name"),
        Rule::L10,
        "must have the mandatory field `id`",
    );
    refused(
        &with("at = \"query:name\", from = \"token\"", "at = \"query:name\", type = \"word\""),
        Rule::L10,
        "cannot know its argument `name`",
    );
    refused(
        &with("args.name = { at = \"query:name\", from = \"token\" }\n", ""),
        Rule::L10,
        "to find this effect by",
    );
    refused(
        &with("contract = \"0.1\"", "contract = \"0.1\"\nlist-owned = \"nope\""),
        Rule::L10,
        "no call is named `nope`",
    );
    refused(
        &with("contract = \"0.1\"", "contract = \"0.1\"\nlist-owned = \"get\""),
        Rule::L10,
        "cannot know its argument `id`",
    );
    refused(&and(&AT_URL.replace("get.link", "got.link")), Rule::L10, "did you mean `get`");
    refused(&and(&AT_URL.replace("get.link", "get.lnk")), Rule::L10, "did you mean `link`");
    refused(
        &and(&SESSION.replace("login = \"login\"", "login = \"logn\"")),
        Rule::L10,
        "did you mean `login`",
    );
    refused(
        &and(&SESSION.replace("login = \"login\"", "login = \"old-read\"")),
        Rule::L10,
        "effect = \"session\"",
    );
}

#[test]
fn l10_there_are_no_circles() {
    let circle = "
[calls.a]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/a/{x}'\nargs.x = { at = 'path:x', from = 'b.y' }\nfields.y = { at = 'json:/y', type = 'sealed' }
[calls.b]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/b/{x}'\nargs.x = { at = 'path:x', from = 'a.y' }\nfields.y = { at = 'json:/y', type = 'sealed' }";
    refused(&and(circle), Rule::L10, "a circle");
}

#[test]
fn l10_a_read_completes_a_create_by_what_that_returned() {
    let task = "
[calls.task]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/tasks/{t}'\nargs.t = { at = 'path:t', from = 'create.id' }
fields.state = { at = 'json:/state', type = 'word' }\nfields.vm = { at = 'json:/vm', type = 'id', optional = true }\ncreates = { server = 'vm' }
completes = { create = { arg = 't', when = { field = 'state', is = 'success' } } }";
    let without = with("creates = { server = \"id\" }\n", "");
    let m = load(&format!("{without}{task}"));
    assert_eq!(m.calls["task"].args["t"].ty, Type::Id);
    refused(
        &format!("{without}{}", task.replace("from = 'create.id'", "type = 'id'")),
        Rule::L10,
        "mandatory argument of this read",
    );
    refused(
        &format!("{without}{}", task.replace("field = 'state'", "field = 'stat'")),
        Rule::L10,
        "did you mean `state`",
    );
    refused(
        &format!("{BASE}{}", task.replace("completes = { create", "completes = { reboot")),
        Rule::L10,
        "a read completes a create",
    );
}

#[test]
fn l11_operations_and_exports_agree() {
    let mode = "HostReboot = { mode = \"immediate\" }";
    refused(
        &with(mode, "HostReboot = { mode = \"long-running\", replay-safe = true }"),
        Rule::L11,
        "`replay-safe` is about immediate",
    );
    refused(
        &with(mode, "HostReboot = { mode = \"immediate\", requires-replace-user-data = true }"),
        Rule::L11,
        "belongs to HostReplace",
    );
    refused(&with(mode, "HostAllocate = { mode = \"long-running\" }"), Rule::L11, "needs HostRelease too");
    refused(&with(mode, "HostRelease = { mode = \"long-running\" }"), Rule::L11, "needs HostAllocate too");
    refused(
        &with(mode, "HostAllocate = { mode = \"immediate\" }\nHostRelease = { mode = \"long-running\" }"),
        Rule::L11,
        "HostAllocate is long-running",
    );
    refused(&with(mode, "\" \" = { mode = \"immediate\" }"), Rule::L11, "not an operation kind");

    let both = load(&with(
        mode,
        "HostAllocate = { mode = \"long-running\" }\nHostRelease = { mode = \"long-running\" }",
    ));
    both.check_exports(&[OPERATIONS, CAPACITY]).unwrap();
    both.check_exports(&[CAPACITY]).unwrap();
    assert!(both.check_exports(&[OPERATIONS]).unwrap_err().cite(Rule::L11));
    let base = load(BASE);
    base.check_exports(&[OPERATIONS]).unwrap();
    for exports in [&[OPERATIONS, CAPACITY][..], &[CLUSTER_MODEL], &[]] {
        assert!(base.check_exports(exports).unwrap_err().cite(Rule::L11), "{exports:?}");
    }
    let none = load(&with(mode, ""));
    assert!(none.check_exports(&[OPERATIONS]).unwrap_err().to_string().contains("registers none"));
}
