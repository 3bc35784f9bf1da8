//! First-boot data: templates, what may go wrong in them, and the bytes that are kept while a repeat may need them
//! (R2.14, 2(b).7: "user data may have been rebuilt and differ").

use std::collections::BTreeMap;

use crate::support::cloud::Fate;
use crate::support::hosts::*;
use crate::support::modules::*;
use crate::support::*;
use holdfast_api::Phase;
use holdfast_controllers::Next;
use holdfast_controllers::first_boot::{Facts, Given, MAX_BUILT, render};
use holdfast_controllers::rooms::Secret;
use holdfast_effects::PollState;
use serde_json::{Value, json};

const HOSTILE: &str = "a\"b\\c\nd\u{1}\t'{{ x }} \u{e9}\r</script>";

fn facts() -> Facts {
    Facts {
        name: "web-1".to_owned(),
        site: SITE.to_owned(),
        image: "img-1".to_owned(),
        instance_type: Some("small".to_owned()),
        zone: None,
    }
}

fn secret(name: &str, value: &[u8]) -> (String, Given) {
    (name.to_owned(), Given::Secret(Secret::new(value.to_vec())))
}

fn plain_value(name: &str, value: &str) -> (String, Given) {
    (name.to_owned(), Given::Plain(value.to_owned()))
}

fn made(source: &str, values: Vec<(String, Given)>) -> String {
    String::from_utf8(render(source, &facts(), values).unwrap().to_vec()).unwrap()
}

fn refused(source: &str, values: Vec<(String, Given)>) -> (usize, String) {
    let error = render(source, &facts(), values).expect_err("the template should be refused");
    (error.line, error.to_string())
}

#[test]
fn cloud_init_with_keys_and_files_comes_out_byte_for_byte() {
    let source = "#cloud-config\nhostname: {{ machine.name }}\nssh_authorized_keys:\n\
        {% for key in values.keys | split(',') %}\n  - {{ key }}\n{% endfor %}\nwrite_files:\n- path: /etc/token\n  content: |\n    \
        {{ values.token | indent(4) }}\n- path: /etc/cert\n  encoding: b64\n  content: {{ values.cert | b64encode }}\n";
    let values = vec![
        plain_value("keys", "ssh-ed25519 AAA a,ssh-ed25519 BBB b"),
        secret("token", b"line one\nline two\n\nline four"),
        secret("cert", &[0, 159, 146, 150, 255]),
    ];
    let expected = "#cloud-config\nhostname: web-1\nssh_authorized_keys:\n  - ssh-ed25519 AAA a\n  - ssh-ed25519 BBB b\n\
        write_files:\n- path: /etc/token\n  content: |\n    line one\n    line two\n\n    line four\n- path: /etc/cert\n  \
        encoding: b64\n  content: AJ+Slv8=\n";
    assert_eq!(made(source, values), expected);
}

#[test]
fn the_example_of_the_operator_guide_is_rendered_as_it_says() {
    let guide = include_str!("../../../../docs/operator-guide.md");
    let (_, rest) = guide.split_once("```\n#cloud-config\n").expect("the guide has an example");
    let (example, _) = rest.split_once("```").unwrap();
    let facts = Facts { zone: Some("z1".to_owned()), ..facts() };
    let values = vec![plain_value("role", "worker"), secret("token", b"one\ntwo")];
    let text = render(example, &facts, values).unwrap();
    let text = std::str::from_utf8(&text).unwrap();
    assert!(text.starts_with("hostname: web-1\n") && text.contains("    one\n    two\n"), "{text}");
    let line = text.lines().last().unwrap().trim().strip_prefix("content: ").unwrap();
    let role: Value = serde_json::from_str(&serde_json::from_str::<String>(line).unwrap()).unwrap();
    assert_eq!(role, json!({ "role": "worker", "zone": "z1" }));
}

#[test]
fn bytes_that_are_no_text_are_written_as_they_are() {
    let built = render("<{{ values.raw }}>", &facts(), vec![secret("raw", &[255, 0, 254])]).unwrap();
    assert_eq!(**built, [b'<', 255, 0, 254, b'>']);
    let (line, error) = refused("\n{{ values.raw | tojson }}", vec![secret("raw", &[255, 0, 254])]);
    assert!(line == 2 && error.contains("values.raw is no UTF-8 text"), "{error}");
}

#[test]
fn hostile_values_are_data_in_json_and_are_not_rendered_again() {
    let source = "{{ {'plain': values.plain, 'secret': values.secret, 'list': [values.secret, machine.name, 7, true, none]} \
        | tojson }}";
    let text = made(source, vec![plain_value("plain", HOSTILE), secret("secret", HOSTILE.as_bytes())]);
    let parsed: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let expected = json!({ "plain": HOSTILE, "secret": HOSTILE, "list": [HOSTILE, "web-1", 7, true, null] });
    assert_eq!(parsed, expected);
    assert_eq!(made("{{ values.secret }}", vec![secret("secret", HOSTILE.as_bytes())]), HOSTILE);
    let text = made("{{ ('pw=' ~ values.secret) | tojson }}", vec![secret("secret", HOSTILE.as_bytes())]);
    assert_eq!(serde_json::from_str::<String>(&text).unwrap(), format!("pw={HOSTILE}"));
}

#[test]
fn filters_on_secrets_and_on_plain_values_do_the_same() {
    let filters = [
        "tojson",
        "b64encode",
        "trim",
        "indent",
        "indent(2, true)",
        "indent(2, true, true)",
        "trim | tojson | b64encode",
    ];
    for filter in filters {
        let source = format!("{{{{ values.x | {filter} }}}}");
        let value = "  a \"b\"\n\n c \u{1f511}\n";
        let from_secret = made(&source, vec![secret("x", value.as_bytes())]);
        assert_eq!(from_secret, made(&source, vec![plain_value("x", value)]), "{filter}");
        let concatenated =
            made(&source.replace("values.x", "(values.x ~ '')"), vec![secret("x", value.as_bytes())]);
        assert_eq!(concatenated, from_secret, "{filter}");
    }
}

#[test]
fn what_is_not_there_is_an_error_that_names_its_line() {
    for source in [
        "one\ntwo\n{{ values.missing }}\n",
        "one\ntwo\n{{ machine.zone }}\n",
        "one\ntwo\n{% if values.missing %}x{% endif %}\n",
        "one\ntwo\n{{ nothing }}\n",
        "one\ntwo\n{{ values.missing | tojson }}\n",
        "one\ntwo\n{{ values.missing | b64encode }}\n",
    ] {
        let (line, error) = refused(source, vec![plain_value("there", "x")]);
        assert_eq!(line, 3, "{source}: {error}");
        assert!(error.contains("something that is not there"), "{source}: {error}");
    }
    assert_eq!(made("{{ values.missing | default('none') }}", vec![]), "none");
}

#[test]
fn bad_templates_are_refused_at_their_line() {
    let cases: &[(&str, &str)] = &[
        ("a\n{{ values.", "syntax"),
        ("a\n{{ machine.name | rot13 }}", "rot13"),
        ("a\n{% include 'other' %}", "syntax"),
        ("a\n{% set x = 1 %}", "`set` is not served"),
        ("a\n{%- with x = 1 %}{% endwith %}", "`with` is not served"),
        ("a\n{{ values }}", "tojson"),
        ("a\n\u{fdd0}0\u{fdd1}", "stand for no text"),
        ("a\n{% for i in range(5) %}{% endfor %}", "range"),
    ];
    for (source, what) in cases {
        let (line, error) = refused(source, vec![plain_value("x", "y")]);
        assert!(line == 2 && error.contains(what), "{source}: {error}");
    }
}

#[test]
fn a_secret_can_be_neither_cut_nor_changed_nor_counted() {
    for expression in [
        "values.x | upper",
        "values.x | lower",
        "values.x | length",
        "values.x | split('a')",
        "values.x[0]",
        "values.x[:2]",
        "(values.x ~ 'more')[:2]",
        "(values.x ~ 'more')[1:]",
        "(values.x ~ 'more') | upper",
        "('' ~ values.x) | split('0')",
    ] {
        let (line, error) =
            refused(&format!("\n{{{{ {expression} }}}}"), vec![secret("x", b"hunter2hunter2")]);
        assert!(line >= 1 && !error.contains("hunter"), "{expression}: {error}");
    }
}

#[test]
fn too_much_is_refused_however_it_is_made() {
    let big = "x".repeat(64 * 1024);
    let nine = "{{ values.x }}".repeat(9);
    for values in [vec![plain_value("x", &big)], vec![secret("x", big.as_bytes())]] {
        let (_, error) = refused(&nine, values);
        assert!(error.contains("more than 512 KiB"), "{error}");
    }
    assert_eq!(made(&"{{ values.x }}".repeat(8), vec![secret("x", big.as_bytes())]).len(), MAX_BUILT);
    let loops =
        "{% for a in values.x | split(',') %}{% for b in values.x | split(',') %}{% endfor %}{% endfor %}";
    let (_, error) = refused(loops, vec![plain_value("x", &",".repeat(1000))]);
    assert!(error.contains("steps"), "{error}");
    let (_, error) = refused(&"y".repeat(64 * 1024 + 1), vec![]);
    assert!(error.contains("64 KiB"), "{error}");
}

#[test]
fn no_error_tells_a_secret() {
    let value = "hunter2-hunter2";
    for source in [
        "{{ values.x + 1 }}",
        "{{ values.x | indent(999) }}",
        "{{ values.x | indent('a') }}",
        "{{ values.x() }}",
        "{{ values.x.y }}",
        "{{ values.x.y() }}",
        "{{ -values.x }}",
        "{{ values.x * 3 }}",
        "{{ values.x < 3 }}{{ boom }}",
        "{% for c in values.x %}{% endfor %}",
        "{{ values[values.x] }}",
        "{{ machine.name | split(values.x) }}",
        "{{ values.x is divisibleby 3 }}",
        "{{ values.x | join(',') }}",
        "{{ [values.x, boom] | join(',') }}",
        "{{ values.x | tojson | tojson | upper }}",
        "{{ values.x | default(boom) }}",
    ] {
        if let Err(error) = render(source, &facts(), vec![secret("x", value.as_bytes())]) {
            assert!(!format!("{error} {error:?}").contains("hunter"), "{source}: {error}");
        }
    }
}

fn templated() -> Value {
    json!({ "classRef": { "name": "small" }, "userData": { "template": {
        "configMapRef": { "name": "boot" },
        "values": [
            { "name": "token", "secretRef": { "name": "join" } },
            { "name": "role", "value": "worker" },
        ],
    } } })
}

const TEMPLATE: &str = "#cloud-config\nhost: {{ machine.name }} {{ machine.instanceType }} {{ machine.zone }}\n\
    join: {{ values.token | tojson }} as {{ values.role }}\n";

async fn with_template() -> World {
    let world = World::for_allocate_with(templated()).await;
    world.template("boot", "template", TEMPLATE).await;
    world.secret_of_type("join", "Opaque", "", &[("token", b"abc\"def-0123456789")]).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    world
}

fn built(token: &str) -> Vec<u8> {
    let text = format!("#cloud-config\nhost: web-1 small z1\njoin: {} as worker\n", json!(token));
    text.into_bytes()
}

#[tokio::test]
async fn an_allocation_is_lent_what_its_template_makes_and_nothing_of_it_is_written_anywhere() {
    let world = with_template().await;
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [built("abc\"def-0123456789")]);
    daemon.step("op").await;
    let operation = world.get("op").await;
    assert_eq!(operation.status.as_ref().unwrap().phase, Phase::Complete);
    assert!(!serde_json::to_string(&operation).unwrap().contains("0123456789"));
    assert!(world.kept().await.is_empty());
}

#[tokio::test]
async fn what_is_not_there_yet_is_waited_for() {
    let world = World::for_allocate_with(templated()).await;
    *world.module.default.lock().unwrap() = Some(hosts());
    let daemon = world.daemon().await;
    let says = |what: &'static str| {
        let (world, daemon) = (&world, &daemon);
        async move {
            daemon.step("op").await;
            let status = world.status("op").await;
            assert_eq!(status.phase, Phase::InProgress);
            assert_eq!(status.waiting.clone().unwrap().reason, "InputUnavailable");
            assert!(status.message.clone().unwrap().contains(what), "{:?}", status.message);
            world.pass_backoff("op").await;
        }
    };
    says("there is no ConfigMap holdfast-system/boot").await;
    world.template("boot", "other", TEMPLATE).await;
    daemon.step("op").await;
    world.pass_backoff("op").await;
    assert_eq!(world.module.called().len(), 0);
    world.change_template("boot", "template", TEMPLATE).await;
    daemon.step("op").await;
    world.pass_backoff("op").await;
    world.secret_of_type("join", "Opaque", "", &[("token", b"abc\"def-0123456789")]).await;
    daemon.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [built("abc\"def-0123456789")]);
}

#[tokio::test]
async fn a_bad_template_ends_the_operation_and_names_its_line() {
    let world = with_template().await;
    world.change_template("boot", "template", "#cloud-config\n{{ values.nope }}\n").await;
    world.daemon().await.step("op").await;
    let status = world.status("op").await;
    assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("BootstrapDataFailed")));
    let message = status.message.unwrap();
    assert!(
        message.contains("holdfast-system/boot") && message.contains("line 2 of the template"),
        "{message}"
    );
    assert_eq!(world.cloud.sends(), 0);
}

#[tokio::test]
async fn a_repeat_sends_the_bytes_of_the_first_send_though_the_token_has_changed() {
    let world = with_template().await;
    world.cloud.fates.lock().unwrap().extend([Fate::Done, Fate::Lost]);
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.kept().await, [format!("first-boot-{}", uid(&world.get("op").await))]);
    rotate(&world, b"another-token-9876").await;
    drop(daemon);
    let daemon = world.daemon().await;
    for _ in 0..5 {
        world.pass_backoff("op").await;
        daemon.step("op").await;
    }
    let status = world.status("op").await;
    assert_eq!(status.phase, Phase::Complete, "{:?} {:?}", status.reason, status.message);
    assert_eq!(world.cloud.effects().len(), 2, "one volume, one server");
    let ever = world.vault.user_data_ever.lock().unwrap().clone();
    assert!(ever.iter().all(|one| *one == built("abc\"def-0123456789")), "{} deposits", ever.len());
    assert!(world.kept().await.is_empty(), "removed once the handle is stored");
}

#[tokio::test]
async fn bytes_that_were_lost_are_built_anew_and_are_never_sent_as_a_repeat() {
    let world = with_template().await;
    world.cloud.fates.lock().unwrap().extend([Fate::Done, Fate::Lost]);
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let [kept] = &world.kept().await[..] else { panic!() };
    world.secrets().delete(kept, &Default::default()).await.unwrap();
    rotate(&world, b"another-token-9876").await;
    let sends = world.cloud.sends();
    for _ in 0..3 {
        world.pass_backoff("op").await;
        daemon.step("op").await;
    }
    let again = world.cloud.sends.lock().unwrap()[sends..].to_vec();
    assert!(!again.iter().any(|send| send.starts_with("make")), "{again:?}");
    assert!(world.kept().await.is_empty());
}

#[tokio::test]
async fn before_anything_was_sent_a_token_may_change() {
    let world = with_template().await;
    world.module.say(allocate_refused(false, "unavailable"));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    rotate(&world, b"another-token-9876").await;
    world.pass_backoff("op").await;
    daemon.step("op").await;
    let ever = world.vault.user_data_ever.lock().unwrap().clone();
    assert_eq!(ever, [built("abc\"def-0123456789"), built("another-token-9876")]);
}

#[tokio::test]
async fn kept_bytes_are_removed_when_the_operation_ends_also_after_a_crash_between() {
    let world = with_template().await;
    world.cloud.fates.lock().unwrap().extend([Fate::Done, Fate::Refused("invalid-input")]);
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(world.kept().await.len(), 1);
    // As if the daemon had died between the end and the removal.
    world.set_status("op", |status| status.phase = Phase::Failed).await;
    daemon.step("op").await;
    assert!(world.kept().await.is_empty());
    assert!(world.get("op").await.metadata.finalizers.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn a_secret_of_somebody_else_under_the_name_is_not_touched() {
    let world = with_template().await;
    let name = format!("first-boot-{}", uid(&world.get("op").await));
    world.secret_of_type(&name, "Opaque", "", &[("userData", b"theirs")]).await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("BootstrapDataFailed"));
    let data: BTreeMap<_, _> = world.secrets().get(&name).await.unwrap().data.unwrap();
    assert_eq!(data["userData"].0, b"theirs");
}

#[tokio::test]
async fn credentials_are_never_put_into_first_boot_data() {
    for user_data in [
        json!({ "secretRef": { "name": "token-secret", "key": "token" } }),
        json!({ "template": { "configMapRef": { "name": "boot" },
            "values": [{ "name": "token", "secretRef": { "name": "token-secret" } }] } }),
    ] {
        let spec = json!({ "classRef": { "name": "small" }, "userData": user_data });
        let world = World::for_allocate_with(spec).await;
        world.template("boot", "template", "{{ values.token }}").await;
        label(&world, holdfast_api::SYSTEM_NAMESPACE, "token-secret").await;
        world.daemon().await.step("op").await;
        let status = world.status("op").await;
        assert_eq!((status.phase, status.reason.as_deref()), (Phase::Failed, Some("BootstrapDataFailed")));
        assert!(world.vault.user_data_ever.lock().unwrap().is_empty());
    }
}

/// Whoever may write an allocation would read the cluster's own tokens on the machine that it becomes.
#[tokio::test]
async fn tokens_of_service_accounts_are_never_put_into_first_boot_data() {
    let spec = json!({ "classRef": { "name": "small" },
        "userData": { "secretRef": { "name": "account", "key": "token" } } });
    let world = World::for_allocate_with(spec).await;
    world.secret_of_type("account", "kubernetes.io/service-account-token", "", &[("token", b"a.b.c")]).await;
    world.daemon().await.step("op").await;
    assert_eq!(world.status("op").await.reason.as_deref(), Some("BootstrapDataFailed"));
    assert!(world.vault.user_data_ever.lock().unwrap().is_empty());
}

/// The same builder for a machine that is there, which knows the type and the zone of its allocation.
#[tokio::test]
async fn a_replacement_uses_the_same_templates() {
    let world = World::of_hosts().await;
    let uid = world.planned(json!({ "classRef": { "name": "small" } })).await;
    world.template("boot", "template", TEMPLATE).await;
    world.secret_of_type("join", "Opaque", "", &[("token", b"abc-0123456789")]).await;
    let user_data = templated()["userData"].clone();
    let patch = kube::api::Patch::Merge(json!({ "spec": { "userData": user_data } }));
    world.machines().patch("web-1", &Default::default(), &patch).await.unwrap();
    let mut machine = world.machines().get("web-1").await.unwrap();
    machine.status.get_or_insert_default().allocation = Some("web-1".to_owned());
    world.machines().replace_status("web-1", &Default::default(), &machine).await.unwrap();
    world.set_allocation(|status| status.result = Some(Default::default())).await;
    mark(&world, &uid).await;
    world
        .operation_with("op", json!({ "machineRef": { "name": "web-1" }, "operationKind": "HostReplace" }))
        .await;
    world.module.say(accepted("h")).say(poll(PollState::Succeeded));
    let daemon = world.daemon().await;
    daemon.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [built("abc-0123456789")]);
    assert_eq!(daemon.step("op").await, Next::Done);
    assert!(world.kept().await.is_empty());
}

/// An allocation made anew under the name says nothing about this machine.
#[tokio::test]
async fn a_replacement_takes_no_facts_from_another_allocation_of_the_name() {
    let world = World::of_hosts().await;
    world.planned(json!({ "classRef": { "name": "small" } })).await;
    world.template("boot", "template", "zone: {{ machine.zone | default('none') }}").await;
    let user_data = json!({ "template": { "configMapRef": { "name": "boot" } } });
    let patch = kube::api::Patch::Merge(json!({ "spec": { "userData": user_data } }));
    world.machines().patch("web-1", &Default::default(), &patch).await.unwrap();
    let mut machine = world.machines().get("web-1").await.unwrap();
    machine.status.get_or_insert_default().allocation = Some("web-1".to_owned());
    world.machines().replace_status("web-1", &Default::default(), &machine).await.unwrap();
    world.set_allocation(|status| status.result = Some(Default::default())).await;
    mark(&world, "0a1b2c3d-0000-4000-8000-000000000000").await;
    world
        .operation_with("op", json!({ "machineRef": { "name": "web-1" }, "operationKind": "HostReplace" }))
        .await;
    world.module.say(accepted("h"));
    world.daemon().await.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [b"zone: none".to_vec()]);
}

/// The machine bears the uid of the allocation that made it.
async fn mark(world: &World, allocation: &str) {
    let annotations = json!({ holdfast_api::allocation::ALLOCATION_UID_ANNOTATION: allocation });
    let patch = kube::api::Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    world.machines().patch("web-1", &Default::default(), &patch).await.unwrap();
}

/// Who may write a machine or an allocation names a Secret of any namespace: whoever may write the Secret has to agree.
/// Whether it has the named key is not told before.
#[tokio::test]
async fn a_secret_becomes_first_boot_data_only_if_it_is_labelled_so_and_tells_nothing_of_its_keys_attack_a4()
{
    let value = |namespace: &str| json!({ "name": "join", "namespace": namespace, "key": "token" });
    for namespace in [holdfast_api::SYSTEM_NAMESPACE, "default"] {
        for user_data in [
            json!({ "secretRef": value(namespace) }),
            json!({ "template": { "configMapRef": { "name": "boot" },
                "values": [{ "name": "token", "secretRef": value(namespace) }] } }),
        ] {
            let mut said = Vec::new();
            for key in ["token", "other"] {
                let spec = json!({ "classRef": { "name": "small" }, "userData": user_data });
                let world = World::for_allocate_with(spec).await;
                world.template("boot", "template", "{{ values.token }}").await;
                *world.module.default.lock().unwrap() = Some(hosts());
                unlabelled(&world, namespace, "join", key).await;
                let daemon = world.daemon().await;
                daemon.step("op").await;
                let status = world.status("op").await;
                assert_eq!(status.waiting.unwrap().reason, "InputUnavailable");
                said.push(status.message.unwrap());
                assert!(world.vault.user_data_ever.lock().unwrap().is_empty() && world.cloud.sends() == 0);
                label(&world, namespace, "join").await;
                world.pass_backoff("op").await;
                daemon.step("op").await;
                let lent = world.vault.user_data_ever.lock().unwrap().clone();
                let expected = if key == "token" { vec![b"hush-hush".to_vec()] } else { vec![] };
                assert_eq!(lent, expected, "{key}");
            }
            assert_eq!(said[0], said[1]);
            let line = format!("kubectl label secret join -n {namespace} holdfast.dev/first-boot-data=true");
            assert!(said[0].contains(&line), "{}", said[0]);
        }
    }
}

#[tokio::test]
async fn the_secret_of_a_machines_user_data_ref_needs_the_label_too_attack_a4() {
    let world = World::for_replace().await;
    world.secrets().delete("boot", &Default::default()).await.unwrap();
    unlabelled(&world, holdfast_api::SYSTEM_NAMESPACE, "boot", "userData").await;
    world.operation("op", "HostReplace").await;
    let daemon = world.daemon().await;
    daemon.step("op").await;
    let status = world.status("op").await;
    assert_eq!(status.waiting.unwrap().reason, "InputUnavailable");
    assert!(status.message.unwrap().contains("kubectl label secret boot -n holdfast-system"));
    label(&world, holdfast_api::SYSTEM_NAMESPACE, "boot").await;
    world.pass_backoff("op").await;
    world.module.say(accepted("h"));
    daemon.step("op").await;
    assert_eq!(*world.vault.user_data_ever.lock().unwrap(), [b"hush-hush".to_vec()]);
}

fn secrets_of(world: &World, namespace: &str) -> kube::Api<k8s_openapi::api::core::v1::Secret> {
    kube::Api::namespaced(world.client.clone(), namespace)
}

async fn unlabelled(world: &World, namespace: &str, name: &str, key: &str) {
    let secret = json!({ "metadata": { "name": name }, "stringData": { key: "hush-hush" } });
    let secret = serde_json::from_value(secret).unwrap();
    secrets_of(world, namespace).create(&Default::default(), &secret).await.unwrap();
}

async fn label(world: &World, namespace: &str, name: &str) {
    let labels = json!({ "metadata": { "labels": { "holdfast.dev/first-boot-data": "true" } } });
    let patch = kube::api::Patch::Merge(labels);
    secrets_of(world, namespace).patch(name, &Default::default(), &patch).await.unwrap();
}

async fn rotate(world: &World, token: &[u8]) {
    let mut secret = world.secrets().get("join").await.unwrap();
    let value = k8s_openapi::ByteString(token.to_vec());
    secret.data.as_mut().unwrap().insert("token".to_owned(), value);
    world.secrets().replace("join", &Default::default(), &secret).await.unwrap();
}
