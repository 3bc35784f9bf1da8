//! Secrets on their way back: echoed, stored and read later, sliced, encoded; and guests that ask by guessing.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

fn note(text: &str) -> Says {
    Says::json(200, json!({"state": "on", "note": text}).to_string())
}

#[tokio::test]
async fn an_echoed_credential_is_withheld_and_counted_attack_2() {
    let world = World::new(|heard| note(heard.header("authorization").unwrap())).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit");
    assert!(!format!("{answer:?}").contains("9Xk2"));
    assert_eq!(world.caught(), 1);
}

#[tokio::test]
async fn without_the_scan_the_echo_comes_through_so_the_test_above_can_fail() {
    let options = Options { defences: Defences { scan: false, ..Defences::default() }, ..Options::default() };
    let world = World::with(options, |heard| note(heard.header("authorization").unwrap())).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(fields(&answer)["note"], json!(format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn without_the_grammar_an_echo_of_any_shape_comes_through_attack_2() {
    let body = r#"{"state": "anything at all: <>"}"#;
    let world = World::new(move |_| Says::json(200, body)).await;
    assert_eq!(refusal(&world.call("server", json!({"id": "s1"})).await.verdict).reason, "ReplyDoesNotFit");
    let options =
        Options { defences: Defences { grammar: false, ..Defences::default() }, ..Options::default() };
    let world = World::with(options, move |_| Says::json(200, body)).await;
    assert_eq!(fields(&world.call("server", json!({"id": "s1"})).await)["state"], "anything at all: <>");
}

#[tokio::test]
async fn every_encoding_of_an_echo_is_withheld_attack_8() {
    let encode: Vec<fn(&str) -> String> = vec![
        |t| STANDARD.encode(t),
        |t| STANDARD.encode(format!("x{t}")),
        |t| STANDARD.encode(STANDARD.encode(t)),
        |t| data_encoding::HEXUPPER.encode(t.as_bytes()),
        |t| t.chars().rev().collect(),
        |t| t.to_uppercase(),
        |t| t.bytes().map(|b| format!("%{b:02x}")).collect(),
        |t| t.chars().flat_map(|c| [c, '.']).collect(),
    ];
    for encode in encode {
        let world = World::new(move |_| note(&encode(TOKEN))).await;
        let answer = world.call("server", json!({"id": "s1"})).await;
        assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit");
        assert_eq!(world.caught(), 1);
    }
}

#[tokio::test]
async fn a_secret_stored_in_one_call_and_read_in_another_is_withheld_attack_3() {
    let world = World::new(|heard| match heard.method.as_str() {
        "POST" => Says::json(201, r#"{"id": "srv-1"}"#),
        _ => note("the password is hunter-Two7"),
    })
    .await;
    let create = world.create();
    let id = create.user_data["user-data"];
    fields(&world.send(create).await);
    assert_eq!(refusal(&world.call("server", json!({"id": "s1"})).await.verdict).reason, "ReplyDoesNotFit");
    // Also after it was revoked: a late echo is still an echo.
    world.custody.revoke_user_data(id);
    world.custody.revoke_credentials(world.credentials);
    assert!(world.custody.scan("cloud", Place::ResumeToken, "x hunter-Two7 y").is_err());
    assert!(world.custody.scan("cloud", Place::Log, TOKEN).is_err());
}

#[tokio::test]
async fn logs_errors_results_and_tokens_of_guests_are_scanned_attacks_52_to_55() {
    let world = World::new(|_| Says::Hang).await;
    for place in [Place::Log, Place::Result, Place::ResumeToken, Place::GuestArgument, Place::Reply] {
        for text in
            [TOKEN.to_owned(), STANDARD.encode(format!("state:{TOKEN}")), json!({"t": TOKEN}).to_string()]
        {
            let leak = world.custody.scan("cloud", place, &format!("so it was {text}.")).unwrap_err();
            assert_eq!(leak, Leak { place }, "no marker, no position");
            assert!(!leak.to_string().contains("9Xk2"));
        }
        assert_eq!(world.custody.scan("cloud", place, "step=wait;server=srv-1;web-1.prod"), Ok(()));
    }
}

#[tokio::test]
async fn secrets_are_forgotten_once_the_grace_is_over() {
    let options = Options { grace: std::time::Duration::ZERO, ..Options::default() };
    let world = World::with(options, |_| Says::Hang).await;
    assert_eq!(world.custody.scan("cloud", Place::Log, TOKEN), Err(Leak { place: Place::Log }));
    world.custody.revoke_credentials(world.credentials);
    assert_eq!(world.custody.scan("cloud", Place::Log, TOKEN), Ok(()));
}

#[tokio::test]
async fn slices_in_a_row_are_put_together_before_they_are_judged_attack_12() {
    let parts: Vec<String> =
        TOKEN.as_bytes().chunks(5).map(|c| String::from_utf8(c.to_vec()).unwrap()).collect();
    let world =
        World::new(move |_| Says::json(200, json!({"state": "on", "parts": parts}).to_string())).await;
    assert_eq!(refusal(&world.call("server", json!({"id": "s1"})).await.verdict).reason, "ReplyDoesNotFit");
    assert_eq!(world.caught(), 1);
}

#[tokio::test]
async fn error_bodies_never_come_through_and_words_only_if_listed_attack_2() {
    let body = json!({"error": {"code": "no_capacity", "message": format!("bad {TOKEN}")}}).to_string();
    let world = World::new(move |_| Says::json(503, &body)).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    let Verdict::Rejected(refused) = &answer.verdict else { panic!("{answer:?}") };
    assert_eq!(
        (refused.code.as_str(), refused.native.as_deref()),
        ("capacity-exhausted", Some("no_capacity"))
    );
    let world = World::new(|_| Says::json(400, r#"{"error": {"code": "Sup3rSecretWord"}}"#)).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(refusal(&answer.verdict).native, None);
    assert!(!format!("{answer:?}").contains("Sup3r"));
}

#[tokio::test]
async fn what_the_cloud_makes_up_is_watched_for_whatever_the_status_attack_47() {
    for (status, fits) in [(201, true), (200, false), (500, false), (400, false), (202, false)] {
        let world = World::new(move |heard| match heard.method.as_str() {
            "POST" => {
                Says::json(status, r#"{"id": "srv-1", "root_password": {"nested": ["Xy7-made-up-9Z"]}}"#)
            }
            _ => note("root is Xy7-made-up-9Z"),
        })
        .await;
        let answer = world.send(world.create()).await;
        assert_eq!(matches!(answer.verdict, Verdict::Fits(_)), fits, "{status}");
        assert!(!format!("{answer:?}").contains("Xy7"));
        assert!(world.custody.scan("cloud", Place::Result, "Xy7-made-up-9Z").is_err(), "{status}");
        assert_eq!(
            refusal(&world.call("server", json!({"id": "s1"})).await.verdict).reason,
            "ReplyDoesNotFit"
        );
    }
}

#[tokio::test]
async fn a_guess_in_an_argument_is_refused_like_any_misfit_attack_15() {
    let world = World::new(|_| Says::json(200, r#"{"servers": []}"#)).await;
    let misfit =
        |value: &str| world.custody.prepare(world.exchange("find", json!({"name": value}))).err().unwrap();
    let guess = misfit(TOKEN);
    let odd = misfit("a\u{0}b");
    assert_eq!(guess, odd, "a guest cannot tell a hit from a misfit");
    assert_eq!(misfit(&STANDARD.encode(TOKEN)), odd);
    assert!(world.service.heard().is_empty(), "nothing was sent");
    // A leaking reply and an odd one look the same, too.
    let leak = World::new(|_| note(TOKEN)).await.call("server", json!({"id": "s1"})).await;
    let odd = World::new(|_| note("odd \u{1} text, as long as this"))
        .await
        .call("server", json!({"id": "s1"}))
        .await;
    assert_eq!(leak.verdict, odd.verdict);
}

#[tokio::test]
async fn a_public_key_may_be_repeated_and_short_words_are_not_withheld_attack_89() {
    let world = World::new(|_| note("user ops on web-1, ubuntu-24.04, 10.0.0.1")).await;
    let answer = world.call("server", json!({"id": "s1"})).await;
    assert_eq!(fields(&answer)["note"], "user ops on web-1, ubuntu-24.04, 10.0.0.1");
}

/// What the cloud makes up is scanned for (`captures.root`). A cloud that puts our own token there must not stop the
/// repeat that settles the create: a token is no word of the guest.
#[tokio::test]
async fn a_token_echoed_into_a_capture_does_not_stop_the_repeat() {
    const NAME: &str = "hfabcdefghijklmnopqrstuvwx23";
    let world =
        World::new(|_| Says::json(201, format!(r#"{{"id": "srv-1", "root_password": "{NAME}"}}"#))).await;
    for _ in 0..2 {
        let mut create = world.create();
        create.args.insert("name".into(), json!(NAME));
        assert_eq!(fields(&world.send(create).await), json!({"id": "srv-1"}));
    }
    let guess = world.custody.prepare(world.exchange("find", json!({"name": NAME})));
    assert!(guess.is_err(), "from a guest the same text is still withheld");
}

#[tokio::test]
async fn short_and_huge_captures_of_a_call_harm_no_other_call_attack_47() {
    let create = |id: &'static str, root: String| async move {
        let world = World::new(move |heard| match heard.method.as_str() {
            "POST" => Says::json(201, json!({"id": id, "root_password": root}).to_string()),
            _ => note("the machine next door"),
        })
        .await;
        let answer = world.send(world.create()).await;
        // Other calls go on whatever was captured.
        let other = world.call("server", json!({"id": "s1"})).await;
        assert_eq!(fields(&other)["note"], "the machine next door");
        (answer, world)
    };
    // Short: part of a field is no leak, a whole field is one, and nothing of it lasts.
    let (answer, world) = create("srv-1", "s".into()).await;
    assert_eq!(fields(&answer), json!({"id": "srv-1"}));
    assert_eq!((world.custody.scan("cloud", Place::Log, "steps"), world.caught()), (Ok(()), 0));
    let (answer, world) = create("hunter7", "hunter7".into()).await;
    assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit");
    assert!(!format!("{answer:?}").contains("hunter7"));
    assert_eq!((world.custody.scan("cloud", Place::Log, "hunter7"), world.caught()), (Ok(()), 1));
    // Huge: the reply is unfit and is not watched for; at the bound it fits and is.
    let text = |length: usize| "Xy7q-Zk3w+".repeat(900)[..length].to_owned();
    let (answer, world) = create("srv-1", text(8193)).await;
    assert!(matches!(answer.verdict, Verdict::Unclear(_)), "{answer:?}");
    assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit");
    assert_eq!(world.custody.scan("cloud", Place::Log, &text(8193)), Ok(()));
    let (answer, world) = create("srv-1", text(8192)).await;
    assert_eq!(fields(&answer), json!({"id": "srv-1"}));
    assert!(world.custody.scan("cloud", Place::Log, &text(8192)).is_err());
}
