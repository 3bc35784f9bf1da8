//! Objects made, changed and removed in each of kubectl's ways.

use std::os::unix::fs::PermissionsExt;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::world::{machine, stderr, stdout, world};

#[test]
fn an_object_is_created_edited_labelled_annotated_and_deleted() {
    let world = world();
    assert_eq!(
        world.fed(&["create", "-f", "-"], &machine("edited", "srv-900")),
        "machine.holdfast.dev/edited created\n"
    );
    let editor = world.house.folder().join("editor.sh");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/srv-900/srv-901/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let edit = |object: &str| {
        let mut command = world.house.kubectl_command(&["edit", object]).unwrap();
        command.env("KUBE_EDITOR", &editor).output().unwrap()
    };
    let edited = edit("machine/edited");
    assert!(edited.status.success(), "{}", stderr(&edited));
    assert_eq!(stdout(&edited), "machine.holdfast.dev/edited edited\n");
    let object = world.json("machine/edited");
    assert_eq!(object["spec"]["host"]["external"]["providerID"], "sim://srv-901");
    assert_eq!(object["metadata"]["generation"], 2, "an edit of the spec is a new generation");
    let again = edit("machine/edited");
    assert!(stderr(&again).contains("no changes made") || stdout(&again).contains("no changes made"));

    world.ok(&["label", "machine", "edited", "rack=r1"]);
    world.ok(&["annotate", "machine", "edited", "example.net/note=by hand"]);
    assert_eq!(
        world.ok(&["get", "machines", "-l", "rack=r1", "-o", "name"]),
        "machine.holdfast.dev/edited\n"
    );
    let object = world.json("machine/edited");
    assert_eq!(object["metadata"]["annotations"]["example.net/note"], "by hand");
    assert_eq!(object["metadata"]["generation"], 2, "metadata is no new generation");
    world.ok(&["label", "machine", "edited", "rack-"]);
    assert_eq!(world.ok(&["get", "machines", "-l", "rack", "-o", "name"]), "");
    let told = world.refused(&["label", "machine", "edited", "rack=not a value"], "");
    assert!(
        told.contains("metadata.labels: Invalid value") || told.contains("invalid label value"),
        "{told}"
    );

    assert_eq!(world.ok(&["delete", "machine", "edited"]), "machine.holdfast.dev \"edited\" deleted\n");
    assert!(world.refused(&["get", "machine", "edited"], "").contains("not found"));
}

#[test]
fn apply_makes_changes_leaves_alone_and_removes_what_was_taken_out_of_the_file() {
    let world = world();
    let file = |data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: applied}}\ndata: {{{data}}}\n")
    };
    assert_eq!(world.apply(&file("a: '1', b: '2'")), "configmap/applied created\n");
    assert_eq!(world.apply(&file("a: '1', b: '2'")), "configmap/applied unchanged\n");
    assert_eq!(world.apply(&file("a: '3'")), "configmap/applied configured\n");
    assert_eq!(world.ok(&["get", "cm", "applied", "-o", "jsonpath={.data}"]), r#"{"a":"3"}"#);
    let diff = world.house.kubectl_with(&["diff", "-f", "-"], &file("a: '4'")).unwrap();
    assert_eq!(diff.status.code(), Some(1), "a difference: {}", stderr(&diff));
    assert!(stdout(&diff).contains("+  a: \"4\""), "{}", stdout(&diff));
    assert_eq!(
        world.ok(&["get", "cm", "applied", "-o", "jsonpath={.data.a}"]),
        "3",
        "a dry run changes nothing"
    );
}

#[test]
fn the_three_kinds_of_patch_do_what_each_of_them_means() {
    let world = world();
    world.fed(&["create", "-f", "-"], &machine("patched", "srv-910"));
    let merge = r#"{"spec":{"host":{"image":"image-9"}},"metadata":{"labels":{"tier":"gold"}}}"#;
    world.ok(&["patch", "machine", "patched", "--type=merge", "-p", merge]);
    let json = r#"[{"op":"test","path":"/spec/host/image","value":"image-9"},{"op":"remove","path":"/spec/host/image"},
        {"op":"add","path":"/metadata/labels/rack","value":"r2"}]"#;
    world.ok(&["patch", "machine", "patched", "--type=json", "-p", json]);
    let object = world.json("machine/patched");
    assert!(object["spec"]["host"]["image"].is_null());
    let labels = &object["metadata"]["labels"];
    assert_eq!((&labels["tier"], &labels["rack"]), (&"gold".into(), &"r2".into()));
    let failed = world.refused(&["patch", "machine", "patched", "--type=json", "-p", json], "");
    assert!(failed.contains("test") || failed.contains("image"), "a test that does not hold: {failed}");

    world.ok(&[
        "create",
        "secret",
        "generic",
        "keys",
        "--from-literal=one=first",
        "--from-literal=two=second",
    ]);
    let strategic =
        r#"{"stringData":{"one":"changed"},"data":{"two":null},"metadata":{"labels":{"kept":"yes"}}}"#;
    world.ok(&["patch", "secret", "keys", "--type=strategic", "-p", strategic]);
    let object = world.json("secret/keys");
    assert_eq!(
        object["data"],
        serde_json::json!({ "one": STANDARD.encode("changed") }),
        "strategic merge of a Secret"
    );
    assert_eq!(object["metadata"]["labels"]["kept"], "yes");
    let custom = world.refused(&["patch", "machine", "patched", "--type=strategic", "-p", "{}"], "");
    assert!(!custom.is_empty(), "a strategic patch is for core kinds");
}

#[test]
fn namespaces_hold_what_is_in_them_and_take_it_along() {
    let world = world();
    world.ok(&["create", "namespace", "guest"]);
    world.ok(&["create", "configmap", "inside", "-n", "guest", "--from-literal=a=1"]);
    let all = world.ok(&["get", "cm", "-A", "--no-headers"]);
    assert!(all.lines().any(|line| line.split_whitespace().take(2).eq(["guest", "inside"])), "{all}");
    world.ok(&["delete", "namespace", "guest"]);
    assert!(!world.ok(&["get", "cm", "-A", "--no-headers"]).contains("inside"));
    let none = world.refused(&["create", "configmap", "lost", "-n", "guest"], "");
    assert!(none.contains("namespaces \"guest\" not found"), "{none}");
}
