//! The example manifests are real: they load, and mean what they say.

use holdfast_manifest::*;

const REDFISH: &str = include_str!("../examples/redfish.toml");
const HCLOUD: &str = include_str!("../examples/hcloud.toml");

fn load(text: &str) -> Manifest {
    Manifest::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_examples_load_and_need_no_grant() {
    for text in [REDFISH, HCLOUD] {
        assert_eq!(load(text).needs_grants(), Vec::new());
    }
}

#[test]
fn a_redfish_login_is_the_hosts_and_its_token_goes_to_one_header() {
    let m = load(REDFISH);
    let Auth::Session { login, put, life, logout } = &m.endpoints["bmc"].auth["default"] else {
        panic!("not a session")
    };
    assert_eq!((login.as_str(), logout.as_deref()), ("login", Some("logout")));
    assert_eq!(put, &vec![(Place::Header("x-auth-token".into()), Format::key("token"))]);
    assert_eq!(life, &Life::Seconds(1500));
    assert_eq!(m.calls["reset"].args["target"].ty, Type::Sealed);
}

#[test]
fn an_endpoint_gives_its_answers_to_every_call() {
    let m = load(HCLOUD);
    let key = AnswerKey::parse("rate_limit_exceeded").unwrap();
    assert!(m.calls.values().all(|call| call.answers.rejects.contains_key(&key)));
}

#[test]
fn meaning_tells_an_operator_where_secrets_go_and_what_may_be_destroyed() {
    let all = load(HCLOUD).meaning().join("\n");
    for expected in [
        "Credential api-token (required; API token of the project, with read and write permission) goes to header:authorization of every call to endpoint api, as \"Bearer {api-token}\".",
        "First-boot data goes to json:/user_data of call create (POST /v1/servers at endpoint api).",
        "Call create may make: server (POST /v1/servers at endpoint api). If its answer is lost, it is looked up by find, and sent again if absent after 60 s.",
        "Call delete may DESTROY: server of this machine or owned (DELETE /v1/servers/{id} at endpoint api). If its answer is lost, it is sent again, which changes nothing more.",
        "Call reboot may change: server of this machine or owned (POST /v1/servers/{id}/actions/reboot at endpoint api). If its answer is lost, it is never sent again: a person settles it.",
        "It performs HostReboot as a long-running operation.",
    ] {
        assert!(all.contains(expected), "missing: {expected}\nin:\n{all}");
    }
}

#[test]
fn what_hetzner_lists_under_the_marker_says_which_id_has_which_token() {
    let m = load(HCLOUD);
    let listed = &m.calls[m.provider.list_owned.as_deref().unwrap()];
    let path = |name: &str| ["servers", "*", name].map(str::to_owned).to_vec();
    assert_eq!(listed.adopts["server"], Adopt { field: path("id"), proof: path("token") });
    // The marker is a constant of the list and of the create alike.
    assert!(listed.path.as_ref().unwrap().text.contains("label_selector=managed-by%3Dholdfast"));
    let Body::Json(body) = &m.calls["create"].body else { panic!("no skeleton") };
    assert_eq!(body["labels"]["managed-by"], "holdfast");
    // A lost create is looked up by name, in all pages, and believed by its label.
    let find = &m.calls[&m.calls["create"].lookup().unwrap().call];
    assert!(find.pages.is_some() && find.args["name"].from == Source::Token);
}

#[test]
fn the_call_set_forgets_the_version_and_nothing_else() {
    let base = load(HCLOUD);
    let newer = load(&HCLOUD.replace("version = \"0.1.0\"", "version = \"0.2.0\""));
    assert_eq!(base.call_set, newer.call_set);
    assert!(newer.diff(&base).is_empty());
    assert_eq!(base.call_set.len(), 64);
    let spaced = load(&HCLOUD.replace(" = ", "   = "));
    assert_eq!(base.call_set, spaced.call_set, "layout is no meaning");

    let other =
        load(&HCLOUD.replace(
            "path = \"/v1/servers/{id}/actions/reboot\"",
            "path = \"/v1/servers/{id}/actions/reset\"",
        ));
    assert_ne!(base.call_set, other.call_set);
    let diff = other.diff(&base).join("\n");
    assert!(diff.contains("/actions/reset") && diff.contains("was:"), "{diff}");
    let quiet = load(&HCLOUD.replace("\"json:/server/status\"", "\"json:/server/state\""));
    assert_eq!(quiet.diff(&base), ["changed: call server differs in fields."]);
}

#[test]
fn a_manifest_survives_the_way_through_json() {
    for text in [REDFISH, HCLOUD] {
        let m = load(text);
        let again: Manifest = serde_json::from_str(&serde_json::to_string(&m).unwrap()).unwrap();
        assert_eq!(m, again);
    }
}

#[test]
fn no_truncation_or_mutation_makes_the_parser_panic() {
    for text in [REDFISH, HCLOUD] {
        let bytes = text.as_bytes();
        for end in (0..bytes.len()).step_by(7) {
            let _ = Manifest::parse(&String::from_utf8_lossy(&bytes[..end]));
        }
        // A fixed linear congruence: the same mutations on every run.
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |bound: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % bound
        };
        let alphabet = b"{}[]=\"'*~/.:\\\n-0aZ\xc3%#,";
        for _ in 0..600 {
            let mut copy = bytes.to_vec();
            for _ in 0..=next(3) {
                let at = next(copy.len());
                match next(3) {
                    0 => copy[at] = alphabet[next(alphabet.len())],
                    1 => {
                        copy.remove(at);
                    }
                    _ => copy.insert(at, alphabet[next(alphabet.len())]),
                }
            }
            let text = String::from_utf8_lossy(&copy);
            if let Err(errors) = Manifest::parse(&text) {
                assert!(!errors.0.is_empty());
                assert!(!errors.to_string().is_empty());
            }
        }
    }
}
