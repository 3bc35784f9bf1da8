//! L1 to L5: each message has a manifest that breaks exactly this.

mod common;

use common::*;
use holdfast_manifest::*;

#[test]
fn l1_every_hole_and_every_path_place_meet_once() {
    refused(
        &with("args.id = { at = \"path:id\", type = \"id\", on = \"server\" }\nfields.state", "fields.state"),
        Rule::L1,
        "filled by 0 arguments",
    );
    refused(
        &and("[calls.reboot.args.twin]\nat = \"path:id\"\ntype = \"id\""),
        Rule::L1,
        "filled by 2 arguments",
    );
    refused(&and("[calls.reboot.args.x]\nat = \"path:idd\"\ntype = \"id\""), Rule::L1, "did you mean `id`");
    refused(
        &with("type = \"id\", on = \"server\" }", "type = \"id\", on = \"server\", optional = true }"),
        Rule::L1,
        "cannot be optional",
    );
    refused(&with("path = \"/v1/servers\"\n", ""), Rule::L1, "`path` is required");
}

#[test]
fn l1_places_are_disjoint_from_each_other_also_as_prefix() {
    refused(&with("at = \"json:/image\"", "at = \"json:/name\""), Rule::L1, "meets");
    refused(&with("at = \"json:/image\"", "at = \"json:/name/inner\""), Rule::L1, "meets");
    refused(&with("at = \"json:/image\"", "at = \"json:/user_data\""), Rule::L1, "meets");
    refused(&with("at = \"query:name\"", "at = \"query:page\""), Rule::L1, "meets");
    refused(
        &and(
            "[calls.reboot.args.x]\nat = \"header:X-A\"\ntype = \"word\"\n[calls.reboot.args.y]\nat = \"header:x-a\"\ntype = \"word\"",
        ),
        Rule::L1,
        "meets",
    );
}

#[test]
fn l1_places_are_disjoint_from_constants() {
    refused(
        &with("at = \"json:/image\"", "at = \"json:/start\""),
        Rule::L1,
        "stands in the skeleton already",
    );
    refused(
        &with("at = \"json:/user_data\"", "at = \"json:/boot\""),
        Rule::L1,
        "stands in the skeleton already",
    );
    refused(&with("at = \"json:/image\"", "at = \"json:/start/x\""), Rule::L1, "goes through a constant");
    refused(&with("at = \"json:/image\"", "at = \"json:/disks/1/image\""), Rule::L1, "needs element 1");
    refused(&with("at = \"json:/image\"", "at = \"json:/nets/0/id\""), Rule::L1, "needs the list");
    refused(&with("at = \"query:name\"", "at = \"query:limit\""), Rule::L1, "constant query already");
    refused(
        &and(
            "[calls.reboot.headers]\nX-A = \"1\"\n[calls.reboot.args.x]\nat = \"header:x-a\"\ntype = \"word\"",
        ),
        Rule::L1,
        "constant header already",
    );
    refused(&and("[calls.reboot.args.x]\nat = \"json:/x\"\ntype = \"word\""), Rule::L1, "needs `body.json`");
    refused(&and("[calls.reboot.args.x]\nat = \"form:x\"\ntype = \"word\""), Rule::L1, "needs `body.form`");
    load(&with("at = \"json:/image\"", "at = \"json:/boot/image\""));
    load(&with("at = \"json:/image\"", "at = \"json:/disks/0/image\""));
}

#[test]
fn l1_everything_named_is_used_and_everything_used_is_named() {
    refused(
        &with("api-key = {", "other = { about = \"x\" }\napi-key = {"),
        Rule::L1,
        "nothing uses the credential key `other`",
    );
    refused(&with("{api-key}", "{api-keys}"), Rule::L1, "did you mean `api-key`");
    refused(
        &with("vars = [\"project\"]", "vars = [\"project\", \"region\"]"),
        Rule::L1,
        "no argument uses the variable `region`",
    );
    refused(&with("binding:project", "binding:projekt"), Rule::L1, "did you mean `project`");
    refused(
        &and("[endpoints.spare]\nabout = \"x\"\nauth = \"none\""),
        Rule::L1,
        "no call uses this endpoint",
    );
    refused(
        &with("effect = \"create\"\nmethod", "effect = \"create\"\nheaders = {}\nmethod")
            .replace("endpoint = \"api\"\neffect = \"update\"", "endpoint = \"apj\"\neffect = \"update\""),
        Rule::L1,
        "no endpoint is named `apj`",
    );
    refused(&with("error-code = \"json:/error/code\"\n", ""), Rule::L1, "which has none");
    refused(&with("items = \"servers\"", "items = \"server\""), Rule::L1, "did you mean `servers`");
    refused(&with("fields.state", "fields.status"), Rule::L1, "always there");
    refused(&with("gone = [\"404\"]", "gone = [\"200\"]"), Rule::L1, "is a success");
    refused(
        &with("gone = [\"404\"]", "gone = [\"404\"]\nrejects = { \"404\" = \"conflict\" }"),
        Rule::L1,
        "listed in two tables",
    );
}

#[test]
fn l1_every_argument_is_typed() {
    refused(
        &with("type = \"int\", as = \"int\", optional", "optional"),
        Rule::L1,
        "has a `type` or a `one-of`",
    );
    refused(
        &with("type = \"int\", as = \"int\"", "type = \"word\", as = \"int\""),
        Rule::L1,
        "cannot be written so",
    );
    refused(
        &with("type = \"int\", as", "type = \"int\", one-of = [\"1\"], as"),
        Rule::L1,
        "instead of a type",
    );
    refused(
        &and("[calls.reboot.args.x]\nat = \"header:x-a\"\ntype = \"path\""),
        Rule::L1,
        "needs `on` or a `from`",
    );
    refused(
        &with("creates = { server = \"id\" }", "creates = { server = \"idd\" }"),
        Rule::L1,
        "no scalar field",
    );
}

#[test]
fn l2_mutations_say_how_a_lost_answer_is_settled() {
    refused(&with("replay = \"never\"\n", ""), Rule::L2, "`replay` is required");
    refused(&with("replay = \"never\"", "replay = \"token\""), Rule::L2, "needs `token-life`");
    refused(
        &with("replay = \"never\"", "replay = \"token\"\ntoken-life = \"1h\""),
        Rule::L2,
        "exactly one argument",
    );
    refused(&with("replay = \"never\"", "replay = \"lookup\""), Rule::L2, "needs `lookup");
    refused(
        &with("replay = \"idempotent\"", "replay = \"idempotent\"\ntoken-life = \"1h\""),
        Rule::L2,
        "belongs to `replay = \"token\"`",
    );
    refused(
        &with("effect = \"read\"\nmethod", "effect = \"read\"\nreplay = \"never\"\nmethod"),
        Rule::L2,
        "only calls that change something",
    );
    let token = with("replay = \"lookup\"\nlookup", "replay = \"token\"\ntoken-life = \"24h\"\nlookup");
    let Some(Replay::Token { life: 86400, lookup: Some(_) }) = &load(&token).calls["create"].replay else {
        panic!("a token may have a lookup for after its life")
    };
}

#[test]
fn l2_a_refusal_that_proves_nothing_needs_a_repeat() {
    let never =
        |rejects: &str| with("replay = \"never\"", &format!("replay = \"never\"\nrejects = {{ {rejects} }}"));
    for rejects in [
        "\"500\" = \"unavailable\"",
        "InternalError = \"internal\"",
        "\"Base.1.8.InternalError\" = \"internal\"",
        "\"503 ServiceUnavailable\" = \"unavailable\"",
    ] {
        refused(&never(rejects), Rule::L2, "does not prove that nothing happened");
    }
    // L2: nothing is looked up after a refusal, so a lookup cures none.
    let looked_up = |word: &str| {
        with("rejects = { NoCapacity", &format!("rejects = {{ {word} = \"unavailable\", NoCapacity"))
    };
    for word in ["\"503\"", "InternalError"] {
        refused(&looked_up(word), Rule::L2, "would be a new effect");
        load(&looked_up(word).replace("replay = \"lookup\"\n", "replay = \"token\"\ntoken-life = \"24h\"\n"));
    }
    load(&never("NoPower = \"conflict\""));
    load(&with(
        "replay = \"idempotent\"",
        "replay = \"idempotent\"\nrejects = { \"500\" = \"unavailable\" }",
    ));
    let defaults = with(
        "error-code = \"json:/error/code\"",
        "error-code = \"json:/error/code\"\nrejects = { \"500\" = \"unavailable\" }",
    );
    refused(&defaults, Rule::L2, "does not prove"); // through the endpoint's defaults too
}

#[test]
fn l2_a_lost_permission_is_not_gone() {
    refused(&with("gone = [\"404\"]\nargs.id", "gone = [\"403\"]\nargs.id"), Rule::L2, "lost permission");
    let grants = load(&with("gone = [\"404\"]\nargs.id", "gone = [\"NotAuthorizedOrNotFound\"]\nargs.id"))
        .needs_grants();
    assert_eq!((grants.len(), grants[0].call.as_str(), grants[0].rule), (1, "delete", Rule::L2));
}

#[test]
fn l3_update_and_destroy_have_a_mandatory_target() {
    let reboot = "path = \"/v1/servers/{id}/reboot\"\nreplay = \"never\"\nargs.id = { at = \"path:id\", type = \"id\", on = \"server\" }";
    refused(
        &with(
            reboot,
            "path = \"/v1/servers/{id}/reboot\"\nreplay = \"never\"\nargs.id = { at = \"path:id\", type = \"id\" }",
        ),
        Rule::L3,
        "an update needs a mandatory argument with `on`",
    );
    refused(
        &with(
            reboot,
            "path = \"/v1/reboot\"\nreplay = \"never\"\nargs.id = { at = \"header:x-id\", type = \"id\", on = \"server\", optional = true }",
        ),
        Rule::L3,
        "an update needs",
    );
    let delete = "path = \"/v1/servers/{id}\"\nreplay = \"idempotent\"\ngone = [\"404\"]\nargs.id = { at = \"path:id\", type = \"id\", on = \"server\" }";
    // `DELETE /v2/droplets?tag_name=` destroys by the dozen.
    refused(
        &with(
            delete,
            "path = \"/v1/servers\"\nreplay = \"idempotent\"\nargs.tag = { at = \"query:tag_name\", type = \"id\", on = \"server\" }",
        ),
        Rule::L3,
        "a destroy needs a mandatory argument with `on`",
    );
}

#[test]
fn l3_targets_are_of_a_kind_that_the_host_knows() {
    refused(&with("on = \"server\"", "on = \"sever\""), Rule::L3, "did you mean `server`");
    refused(
        &with("provider-id = \"sim://{zone}/{server}\"\n", ""),
        Rule::L3,
        "`provider-id` in [provider] is required",
    );
    refused(
        &with("from = \"binding:project\"", "from = \"binding:project\", on = \"server\""),
        Rule::L3,
        "comes from the host",
    );
    refused(
        &with("type = \"int\", as = \"int\"", "type = \"text:9\", on = \"server\""),
        Rule::L3,
        "a target is an id",
    );
}

#[test]
fn l3_a_create_says_what_it_makes() {
    refused(&with("creates = { server = \"id\" }\n", ""), Rule::L3, "says in `creates` what it makes");
    refused(
        &with("creates = { server = \"id\" }", "creates = { server = \"args.image\" }"),
        Rule::L3,
        "not the host's own name",
    );
    refused(
        &with(
            "fields.id = { at = \"json:/id\", type = \"id\" }",
            "fields.id = { at = \"json:/id\", type = \"id\", optional = true }",
        ),
        Rule::L3,
        "an optional field would lose it",
    );
    refused(&and("[calls.reboot.creates]\nserver = \"args.id\""), Rule::L3, "only a create");
    load(&with("creates = { server = \"id\" }", "creates = { server = \"args.name\" }"));
}

#[test]
fn l3_adoption_needs_a_proof_in_the_same_item() {
    load(&and("[calls.find.adopts]\nserver = { field = \"servers/*/id\", proof = \"servers/*/name\" }"));
    let other = and(
        "[calls.find.adopts]\nserver = { field = \"servers/*/id\", proof = \"names/*\" }\n[calls.find.fields.names]\nat = \"json:/names/*\"\ntype = \"word\"",
    );
    refused(&other, Rule::L3, "same item");
}

#[test]
fn l4_beside_first_boot_data_the_guest_chooses_nothing_free() {
    for ty in ["id", "word", "text:64"] {
        let text = with("type = \"int\", as = \"int\", optional", &format!("type = \"{ty}\", optional"));
        refused(&text, Rule::L4, "int, bool, one-of or has `on`");
    }
    load(&with("type = \"int\", as = \"int\", optional", "one-of = [\"2\", \"4\"], optional"));
    load(&with("type = \"int\", as = \"int\", optional", "type = \"id\", on = \"server\", optional"));
}

#[test]
fn l4_a_call_with_first_boot_data_returns_neither_text_nor_sealed_bodies() {
    refused(
        &and("[calls.create.fields.note]\nat = \"json:/note\"\ntype = \"text:64\"\noptional = true"),
        Rule::L4,
        "returns no text",
    );
    refused(
        &and("[calls.create.fields.link]\nat = \"json:/link\"\ntype = \"sealed\"\noptional = true"),
        Rule::L4,
        "from headers only",
    );
    load(&and("[calls.create.fields.link]\nat = \"header:Location\"\ntype = \"sealed\"\noptional = true"));
    let read = and("[calls.get.slots.d]\nkind = \"user-data\"\nat = \"json:/d\"")
        .replace("gone = [\"404\"]\nargs.project", "body.json = '{}'\ngone = [\"404\"]\nargs.project");
    refused(&read, Rule::L4, "a create or an update only");
}

#[test]
fn l5_tokens_are_names_of_the_host() {
    refused(
        &with(
            "args.name = { at = \"json:/name\", from = \"token\" }",
            "args.name = { at = \"json:/name\", from = \"token\", type = \"text:40\" }",
        ),
        Rule::L5,
        "a token is a name",
    );
    refused(
        &with(
            "args.name = { at = \"json:/name\", from = \"token\" }",
            "args.name = { at = \"json:/name\", from = \"token\", optional = true }",
        ),
        Rule::L5,
        "not optional",
    );
    refused(
        &with(
            "args.name = { at = \"json:/name\", from = \"token\" }",
            "args.name = { at = \"json:/name/*\", from = \"token\" }",
        ),
        Rule::L5,
        "neither a list",
    );
    refused(
        &with("from = \"host-image\"", "from = \"host-image\", format = \"uuid\""),
        Rule::L5,
        "forms of a token",
    );
    let put =
        with("method = \"POST\"\npath = \"/v1/servers\"\n", "method = \"PUT\"\npath = \"/v1/servers\"\n");
    refused(&put, Rule::L5, "a PUT create needs its name from the host");
}
