//! Incarnations (field case A29): each message has a manifest that breaks exactly this.

mod common;

use common::*;
use holdfast_manifest::*;

/// The base with a record of when a server was made, and a look at it before it is destroyed.
fn whole() -> String {
    BASE.replace("fields.state", "incarnation = { server = \"made\" }\nfields.made = { at = \"json:/made\", type = \"time\" }\nfields.state")
        .replace("creates = { server = \"id\" }", "creates = { server = \"id\" }\nincarnation = { server = \"made\" }\nfields.made = { at = \"json:/made\", type = \"time\" }")
        .replace("each = { id", "each = { made = { at = \"json:/made\", type = \"time\" }, id")
        .replace("effect = \"destroy\"", "effect = \"destroy\"\nconfirm = \"get\"")
}

fn but(old: &str, new: &str) -> String {
    let whole = whole();
    assert!(whole.contains(old), "there is no `{old}`");
    whole.replacen(old, new, 1)
}

#[test]
fn a_kind_whose_ids_come_again_is_recorded_with_its_incarnation_and_looked_at_before_it_is_destroyed_a29() {
    let manifest = load(&whole());
    assert_eq!(manifest.calls["create"].incarnation["server"], ["made"]);
    assert_eq!(manifest.calls["delete"].confirm.as_deref(), Some("get"));
    assert_eq!(manifest.calls["get"].confirming(), Some(("id", "server")));
    let meaning = manifest.meaning().join("\n");
    assert!(meaning.contains("if get shows that its id was not given to another"), "{meaning}");
    // What is not written changes no digest of a call set.
    let plain = serde_json::to_string(&load(BASE)).unwrap();
    assert!(!plain.contains("incarnation") && !plain.contains("confirm"));
}

#[test]
fn what_is_recorded_is_looked_at_before_it_is_destroyed_a29() {
    refused(&but("confirm = \"get\"", ""), Rule::L3, "may have been given out again");
    refused(&but("confirm = \"get\"", "confirm = \"gett\""), Rule::L10, "did you mean `get`");
    refused(&but("confirm = \"get\"", "confirm = \"reboot\""), Rule::L10, "`reboot` must be a read");
    refused(&but("confirm = \"get\"", "confirm = \"find\""), Rule::L10, "its argument `name`");
    refused(
        &but(
            "incarnation = { server = \"made\" }\nfields.made = { at = \"json:/made\", type = \"time\" }\nfields.state",
            "fields.made = { at = \"json:/made\", type = \"time\" }\nfields.state",
        ),
        Rule::L3,
        "does not show the incarnation",
    );
    refused(
        &but("effect = \"update\"", "effect = \"update\"\nconfirm = \"get\""),
        Rule::L3,
        "only a call that destroys",
    );
    refused(
        &but(
            "creates = { server = \"id\" }\nincarnation = { server = \"made\" }",
            "creates = { server = \"id\" }",
        ),
        Rule::L3,
        "there is nothing to compare",
    );
    refused(
        &but(
            "args.id = { at = \"path:id\", type = \"id\", on = \"server\" }",
            "args.id = { at = \"path:id\", type = \"id\", on = \"server\" }\nargs.view = { at = \"query:view\", type = \"word\" }",
        ),
        Rule::L10,
        "cannot know its argument `view`",
    );
}

#[test]
fn all_that_make_a_kind_record_its_incarnation_or_none_a29() {
    let another = "[calls.clone]\nendpoint = \"api\"\neffect = \"create\"\nmethod = \"POST\"\npath = \"/v1/clones\"\n\
                   replay = \"never\"\nfields.id = { at = \"json:/id\", type = \"id\" }\ncreates = { server = \"id\" }\n";
    refused(&format!("{}\n{another}", whole()), Rule::L3, "`clone` makes one without");
}

#[test]
fn an_incarnation_is_one_comparable_value_beside_the_id_a29() {
    let shown = "incarnation = { server = \"made\" }\nfields.made = { at = \"json:/made\", type = \"time\" }\nfields.state";
    let with = |lines: &str| but(shown, &format!("{lines}\nfields.state"));
    let made = |rest: &str| {
        format!("incarnation = {{ server = \"made\" }}\nfields.made = {{ at = \"json:/made\", {rest} }}")
    };
    load(&with(&made("type = \"id\"")));
    refused(&with(&made("type = \"text:40\"")), Rule::L1, "not of type text:40");
    refused(&with(&made("type = \"time\", optional = true")), Rule::L3, "always there");
    refused(&with(&made("type = \"time\"").replace("\"made\" }", "\"mad\" }")), Rule::L1, "no scalar field");
    refused(
        &with(&made("type = \"time\"").replace("\"made\" }", "\"made\", disk = \"made\" }")),
        Rule::L3,
        "neither makes a disk nor shows one",
    );
    let listed = r#"
[calls.clone]
endpoint = "api"
effect = "create"
method = "POST"
path = "/v1/clones"
replay = "never"
creates = { server = "id" }
incarnation = { server = "others/*" }
fields.id = { at = "json:/id", type = "id" }
fields.others = { at = "json:/others/*", type = "time", max-items = 2 }
"#;
    refused(&format!("{}{listed}", whole()), Rule::L3, "the same item");
}
