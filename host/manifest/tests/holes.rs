//! H1 to H8: holes that the grammar closes, each by what a hostile author would write. What only a running host can
//! close (the other half of H3, H5, H7 and H8) is tested there.

mod common;

use common::*;
use holdfast_manifest::*;

#[test]
fn h1_the_guests_body_cannot_choose_the_effect() {
    // `Action` stands in the skeleton: no argument may stand there, beside it in a list, or around it.
    let form = "[calls.act]\nendpoint = 'api'\neffect = 'read'\nmethod = 'POST'\npath = '/'\nbody.form = 'Action=Describe&Filter.1.Name=x'\n";
    refused(
        &and(&format!("{form}args.a = {{ at = 'form:Action', type = 'word' }}")),
        Rule::L1,
        "stands in the skeleton",
    );
    refused(
        &and(&format!("{form}args.a = {{ at = 'form:Filter.*.Name', type = 'word' }}")),
        Rule::L1,
        "stands in the skeleton",
    );
    let json = "[calls.act]\nendpoint = 'api'\neffect = 'read'\nmethod = 'POST'\npath = '/'\nbody.json = '{\"os-stop\": null}'\n";
    for place in ["json:/os-stop", "json:/os-stop/x", "json:"] {
        assert!(
            Manifest::parse(&and(&format!("{json}args.a = {{ at = '{place}', type = 'word' }}"))).is_err(),
            "{place}"
        );
    }
    // There is no type for a piece of JSON.
    for ty in ["json", "object", "any", "raw"] {
        refused(
            &and(&format!("{json}args.a = {{ at = 'json:/x', type = '{ty}' }}")),
            Rule::Grammar,
            "not a type",
        );
    }
}

#[test]
fn h2_the_guest_cannot_choose_who_receives_first_boot_data() {
    for place in ["json:/image_id", "json:/key_name", "json:/startup-script", "json:/project", "json:/subnet"]
    {
        let arg = format!("[calls.create.args.to]\nat = \"{place}\"\ntype = \"id\"");
        refused(&and(&arg), Rule::L4, "int, bool, one-of or has `on`");
        let from_host = arg.replace("type = \"id\"", "from = \"config:receiver\"");
        load(&and(&from_host));
    }
}

#[test]
fn h2_the_guest_cannot_pick_a_receiver_out_of_a_read() {
    let images = "[calls.images]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/images'\nfields.image = { at = 'json:/image', type = 'sealed' }";
    let picked = with("from = \"host-image\"", "from = \"images.image\"");
    refused(&format!("{picked}\n{images}"), Rule::L4, "choose who receives");
}

#[test]
fn h3_ownership_comes_from_what_the_call_made_and_never_from_what_it_mentions() {
    refused(&and("[calls.get.creates]\nserver = \"state\""), Rule::L3, "only a create");
    refused(
        &with("creates = { server = \"id\" }", "creates = { server = \"args.cores\" }"),
        Rule::L3,
        "not the host's own name",
    );
    refused(
        &with("method = \"POST\"\npath = \"/v1/servers\"\n", "method = \"PUT\"\npath = \"/v1/servers\"\n"),
        Rule::L5,
        "hole H3",
    );
}

#[test]
fn h4_no_call_updates_just_any_machine_of_the_account() {
    let free = "args.id = { at = \"path:id\", type = \"id\" }";
    let text = BASE.replace("args.id = { at = \"path:id\", type = \"id\", on = \"server\" }", free);
    let errors = Manifest::parse(&text).unwrap_err();
    assert_eq!(
        errors.0.iter().filter(|p| p.rule == Rule::L3 && p.message.contains("mandatory")).count(),
        2,
        "reboot and delete: {errors}"
    );
}

#[test]
fn h4_a_second_argument_is_not_the_real_target() {
    let own = "args.own = { at = \"header:x-own\", type = \"id\", on = \"server\" }";
    let free = "args.id = { at = \"path:id\", type = \"int\" }";
    let on = "args.id = { at = \"path:id\", type = \"id\", on = \"server\" }";
    let hidden =
        BASE.replace(&format!("replay = \"never\"\n{on}"), &format!("replay = \"never\"\n{own}\n{free}"));
    refused(&hidden, Rule::L3, "may name the real target");
    refused(
        &and("[calls.reboot.args.other]\nat = \"query:other\"\ntype = \"id\""),
        Rule::L3,
        "may name the real target",
    );
    refused(
        &and("[calls.delete.args.other]\nat = \"query:other\"\ntype = \"word\""),
        Rule::L3,
        "may name the real target",
    );
    load(&and("[calls.reboot.args.delay]\nat = \"query:delay\"\ntype = \"int\""));
}

#[test]
fn h4_a_destroy_does_not_pass_for_a_read_or_a_create() {
    for method in ["DELETE", "PUT", "PATCH"] {
        let spy =
            format!("[calls.spy]\nendpoint = 'api'\neffect = 'read'\nmethod = '{method}'\npath = '/v1/x'");
        refused(&and(&spy), Rule::L3, "is no read");
    }
    let create =
        with("method = \"POST\"\npath = \"/v1/servers\"\n", "method = \"DELETE\"\npath = \"/v1/servers\"\n");
    refused(&create, Rule::L3, "is no create");
    for header in ["X-HTTP-Method-Override", "X-Method-Override"] {
        let text =
            with("accept = [201]", &format!("accept = [201]\nheaders = {{ \"{header}\" = \"DELETE\" }}"));
        refused(&text, Rule::Grammar, "written by the host alone");
    }
    refused(
        &and("[calls.spy]\nendpoint = 'api'\neffect = 'read'\nmethod = 'POST'\npath = '/x?_method=DELETE'"),
        Rule::L3,
        "hides the method",
    );
    // What a POST does is the author's word; the operator reads it before approving.
    let post = and(
        "[calls.spy]\nendpoint = 'api'\neffect = 'read'\nmethod = 'POST'\npath = '/'\nbody.form = 'Action=TerminateInstances'",
    );
    let meaning = load(&post).meaning().join("\n");
    assert!(
        meaning
            .contains("Risky: call spy is declared a read but is a POST (/, with Action=TerminateInstances)"),
        "{meaning}"
    );
}

#[test]
fn h5_a_success_that_the_call_does_not_declare_is_no_refusal() {
    let m = load(BASE);
    for status in [200, 202, 204, 207] {
        assert_eq!(m.calls["create"].classify(status, None), Class::Unclear("unavailable".into()));
    }
    refused(
        &with("rejects = { NoCapacity", "rejects = { \"202\" = \"conflict\", NoCapacity"),
        Rule::L1,
        "is a success",
    );
}

#[test]
fn h6_first_boot_data_is_not_read_back_by_another_call() {
    let read = |at: &str| {
        and(&format!(
            "[calls.spy]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '/v1/x'\nfields.a = {{ at = '{at}', type = 'word' }}"
        ))
    };
    for at in [
        "json:/user_data",
        "json:/server/userData/*",
        "json:/metadata/items/[key=user-data]/value",
        "header:X-User-Data",
        "json:/console",
        "json:/UserData/0",
    ] {
        refused(&read(at), Rule::L9, "");
    }
    let path = with(
        "/servers/{id}\"\ngone = [\"404\"]\nargs.project",
        "/servers/{id}/user-data\"\ngone = [\"404\"]\nargs.project",
    );
    assert!(load(&path).needs_grants().iter().any(|grant| grant.call == "get" && grant.rule == Rule::L9));
}

#[test]
fn h7_a_refusal_of_a_repeat_by_conflict_or_twin_settles_nothing() {
    for (code, settles) in
        [("already-exists", false), ("conflict", false), ("quota-exceeded", true), ("invalid-input", true)]
    {
        assert_eq!(Class::Rejected(code.into()).settles_a_repeat(), settles, "{code}");
    }
    assert!(!Class::Unclear("unavailable".into()).settles_a_repeat());
}

#[test]
fn h8_an_identity_is_compared_part_by_part() {
    let p = load(BASE).provider.provider_id.unwrap();
    let mine = p.parse("sim://a/1").unwrap();
    let neighbour = p.parse("sim://a/2").unwrap();
    assert_eq!(mine["zone"], neighbour["zone"]);
    assert_ne!(mine["server"], neighbour["server"], "one part of a neighbour's is not this machine");
    assert!(p.parse("sim://a/1/../2").is_none());
}

#[test]
fn h3_a_create_owns_one_named_thing_and_no_list_of_a_reply() {
    let list = with(
        "replay = \"lookup\"\nlookup = { call = \"find\", item = \"servers\", absent-after = \"60s\" }\n",
        "replay = \"token\"\ntoken-life = \"24h\"\nfields.all = { at = \"json:/all/*\", type = \"id\" }\n",
    );
    load(&list);
    let all = list.replace("creates = { server = \"id\" }", "creates = { server = \"all/*\" }");
    refused(&all, Rule::L3, "a list may mention neighbours (hole H3)");
    // One element is one thing, as a field outside a list is.
    load(&all.replace("/all/*\", type = \"id\"", "/all/*\", type = \"id\", max-items = 1"));
}

#[test]
fn h3_many_things_of_one_create_each_bear_its_token() {
    let made = |each: &str, items: &str| {
        let fields = format!(
            "[calls.create.fields.all]\nat = \"json:/all/*\"\n{items}\neach = {{ id = {{ at = \"json:/id\", type = \"id\" }}{each} }}"
        );
        let base = with(
            "replay = \"lookup\"\nlookup = { call = \"find\", item = \"servers\", absent-after = \"60s\" }\n",
            "replay = \"token\"\ntoken-life = \"24h\"\n",
        );
        format!(
            "{}\n{fields}",
            base.replace("creates = { server = \"id\" }", "creates = { server = \"all/*/id\" }")
        )
    };
    let token = ", token = { at = \"json:/tag\", type = \"word\" }";
    let m = load(&made(token, ""));
    assert_eq!(m.calls["create"].fields["all"].max_items, Some(16), "the bound that nobody has to write");
    assert!(m.meaning().join("\n").contains("Call create may make: server (up to 16)"));
    load(&made("", "max-items = 1"));
    refused(&made("", ""), Rule::L3, "an item must show that this create made it");
    let optional = token.replace(" }", ", optional = true }");
    refused(&made(&optional, ""), Rule::L3, "an item must show");
    refused(&made(&token.replace("word", "int"), ""), Rule::L3, "an item must show");
    refused(&made(token, "max-items = 17"), Rule::L3, "at most 16 of a kind; this path may lead to 17");
    refused(&made(token, "max-items = 65"), Rule::L3, "returns at most 64 elements");
    // Lists in lists multiply.
    let nested = made(
        &format!("{token}, nics = {{ at = \"json:/nics/*\", type = \"id\", max-items = 8 }}"),
        "max-items = 2",
    );
    let nics =
        nested.replace("{ server = \"all/*/id\" }", "{ server = \"all/*/id\", nic = \"all/*/nics/*\" }");
    let m = load(&nics);
    assert_eq!(m.calls["create"].most_of(&["all", "*", "nics", "*"].map(str::to_owned)), 16);
    refused(&nics.replace("max-items = 8", "max-items = 9"), Rule::L3, "may lead to 18");
}

#[test]
fn h3_a_get_is_no_create_that_would_own_what_it_lists() {
    for method in ["GET", "HEAD"] {
        let text = "[calls.spy]\nendpoint = 'api'\neffect = 'create'\nmethod = 'M'\npath = '/v1/x'\nreplay = 'never'\nfields.id = { at = 'json:/id', type = 'id' }\ncreates = { server = 'id' }";
        refused(&and(&text.replace("'M'", &format!("'{method}'"))), Rule::L3, "is no create");
        load(&and(&text.replace("'M'", "'POST'")));
    }
}

#[test]
fn h3_a_lookup_shows_whose_its_item_is() {
    let token = ", token = { at = \"json:/labels/holdfast\", type = \"word\" }";
    refused(&with(token, ""), Rule::L10, "does not show whose it is");
    refused(
        &with(token, &token.replace(" }", ", optional = true }")),
        Rule::L10,
        "does not show whose it is",
    );
    refused(&with(token, &token.replace("\"word\"", "\"int\"")), Rule::L10, "does not show whose it is");
    // A proof of an adoption is the same evidence.
    load(&format!(
        "{}\n[calls.find.adopts]\nserver = {{ field = \"servers/*/id\", proof = \"servers/*/name\" }}",
        with(token, "")
    ));
}

#[test]
fn h3_a_lookup_of_one_thing_names_it_in_the_path() {
    let one = |path: &str, at: &str| {
        let read = format!(
            "[calls.one]\nendpoint = 'api'\neffect = 'read'\nmethod = 'GET'\npath = '{path}'\ngone = ['404']\nargs.name = {{ at = '{at}', from = 'token' }}\nfields.id = {{ at = 'json:/id', type = 'id' }}"
        );
        let create = with("call = \"find\", item = \"servers\"", "call = \"one\", item = \"self\"");
        format!("{create}\n{read}")
    };
    load(&one("/v1/servers/{name}", "path:name"));
    refused(&one("/v1/server", "query:name"), Rule::L10, "needs the token in the path");
}

#[test]
fn h4_the_source_of_a_sealed_target_speaks_of_that_target_alone() {
    let poke = "[calls.poke]\nendpoint = 'api'\neffect = 'update'\nmethod = 'POST'\nreplay = 'never'\nargs.target = { at = 'url', from = 'get.link', on = 'server' }";
    let free = |arg: &str| and(&format!("[calls.get.args.other]\n{arg}\n{poke}"));
    load(&and(poke));
    for arg in [
        "at = 'query:as'\ntype = 'id'",
        "at = 'query:as'\ntype = 'int'\noptional = true",
        "at = 'query:as'\nfrom = 'create.id'",
    ] {
        refused(&free(arg), Rule::L8, "may have chosen a neighbour's");
    }
    load(&free("at = 'query:as'\none-of = ['short', 'long']"));
    for place in ["query:id", "header:x-id"] {
        let filter = and(poke).replacen("/{project}/servers/{id}", "/{project}/servers", 1).replacen(
            "args.id = { at = \"path:id\", type = \"id\", on = \"server\" }\nfields.state",
            &format!("args.id = {{ at = \"{place}\", type = \"id\", on = \"server\" }}\nfields.state"),
            1,
        );
        refused(&filter, Rule::L8, "it may speak of a neighbour");
    }
}

#[test]
fn h4_a_create_has_no_free_name_that_may_be_its_real_target() {
    let arg = |at: &str, ty: &str| {
        and(&format!(
            "[calls.plain]\nendpoint = 'api'\neffect = 'create'\nmethod = 'POST'\npath = '/v1/disks'\nreplay = 'never'\nbody.json = '{{\"Action\": \"clone\"}}'\nargs.x = {{ at = '{at}', type = '{ty}' }}\nfields.id = {{ at = 'json:/id', type = 'id' }}\ncreates = {{ disk = 'id' }}"
        ))
    };
    for at in ["query:x", "header:x-x", "json:/x"] {
        for ty in ["id", "word", "text:40"] {
            refused(&arg(at, ty), Rule::L3, "may name the real target");
        }
    }
    let meaning = load(&arg("json:/x", "int")).meaning().join("\n");
    for told in ["It sends {\"Action\":\"clone\"}.", "The module chooses freely: x."] {
        assert!(meaning.contains(told), "H4, the operator reads it before approving: {told}\n{meaning}");
    }
}
