//! Cases from the field (docs/field-cases.md) that no other test of this crate shows.

use super::*;

/// D08: a gateway gives up while the job behind it runs on.
#[tokio::test]
async fn a_gateway_that_gives_up_on_a_change_leaves_it_in_doubt_and_nothing_is_repeated_d08() {
    for status in [502, 503, 504] {
        let page = "<html>the gateway gave up</html>";
        let world = World::new(move |_| Says::with(status, "content-type: text/html\r\n", page)).await;
        let answer = world.send(world.create()).await;
        assert!(answer.sent, "{status}");
        assert!(matches!(answer.verdict, Verdict::Unclear(_)), "{status} is no refusal: {answer:?}");
        assert_eq!(world.service.heard().len(), 1, "{status}");
    }
}

/// L02, L04: only a missing, null or empty token ends a list; how much a page holds says nothing.
#[tokio::test]
async fn a_short_or_empty_page_that_names_a_next_one_is_not_the_last_l02_l04() {
    let world = World::new(|heard| match heard.target.rsplit_once("page=") {
        Some((_, "b")) => Says::json(200, r#"{"servers": [{"id": "one"}], "next": "c"}"#),
        Some((_, "c")) => Says::json(200, r#"{"servers": [{"id": "two"}], "next": ""}"#),
        _ => Says::json(200, r#"{"servers": [], "next": "b"}"#),
    })
    .await;
    let answer = world.call("find", json!({"name": "x"})).await;
    assert_eq!(fields(&answer), json!({"servers": [{"id": "one"}, {"id": "two"}]}));
    assert_eq!(world.service.heard().len(), 3, "and nobody asks beyond the empty token");
}

/// L03: what goes away while a list is read must not pass for the end of the list, nor for absence.
#[tokio::test]
async fn a_not_found_in_the_middle_of_a_list_is_neither_its_end_nor_absence_l03() {
    for (status, body) in [(404, "{}"), (404, r#"{"error": {"code": "not_found"}}"#), (400, "{}")] {
        let world = World::new(move |heard| match heard.target.contains("page=b") {
            false => Says::json(200, r#"{"servers": [{"id": "one"}], "next": "b"}"#),
            true => Says::json(status, body),
        })
        .await;
        let answer = world.call("find", json!({"name": "x"})).await;
        assert!(
            matches!(answer.verdict, Verdict::Rejected(_) | Verdict::Unclear(_)),
            "half a list is no list: {answer:?}"
        );
    }
}

/// J01, J04: the limit stands in the manifest and is looked at before anything leaves.
#[tokio::test]
async fn first_boot_data_over_its_limit_is_refused_before_anything_is_sent_and_the_limit_is_told_j01_j04() {
    let world = World::new(|_| Says::json(201, r#"{"id": "srv-1"}"#)).await;
    let with = |length: usize| {
        let data = SecretBytes::from("x".repeat(length));
        let id = world.custody.deposit_user_data(&world.revision, "web-1", data).unwrap();
        let mut exchange = world.create();
        exchange.user_data.insert("user-data".into(), id);
        world.custody.prepare(exchange)
    };
    assert!(with(32768).is_ok());
    let refused = with(32769).err().unwrap();
    assert_eq!(refused.code, "invalid-input");
    assert!(refused.message.contains("32768 bytes"), "the limit is told: {}", refused.message);
    assert!(!refused.message.contains("32769"), "and not the length of a secret: {}", refused.message);
    assert!(world.service.heard().is_empty());
}

/// K12: a board that lost its time, or a host that did.
#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_told_as_a_matter_of_clocks_k12() {
    for (from, to, told) in [(3000, 4096, "not valid yet"), (1975, 1976, "has expired")] {
        let world = World::new(|_| Says::Silence).await;
        let service = Service::dated(from, to, |_| Says::json(200, r#"{"state": "on"}"#)).await;
        let grants = service.grants(&["api"]);
        world.custody.register(world.revision.clone(), manifest(CLOUD), grants).unwrap();
        let answer = world.call("server", json!({"id": "s1"})).await;
        assert!(!answer.sent);
        let refused = refusal(&answer.verdict);
        assert_eq!(refused.code, "unavailable", "it may pass: nothing is failed for good");
        assert!(refused.message.contains(told) && refused.message.contains("clock"), "{}", refused.message);
    }
}
