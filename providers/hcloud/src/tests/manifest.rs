//! What the manifest says of the service's words, and of what may be touched.

#[test]
fn the_manifest_is_accepted_and_every_destroy_names_a_server() {
    let manifest = holdfast_manifest::Manifest::parse(include_str!("../../provider.toml")).unwrap();
    let create = &manifest.calls["create"];
    // A taken name is a doubt that the lookup settles, never a refusal (A11).
    let taken = |key: &holdfast_manifest::AnswerKey| key.word.as_deref() == Some("uniqueness_error");
    assert!(create.answers.fails.keys().any(taken) && !create.answers.rejects.keys().any(taken));
    let destroys: Vec<&str> = manifest
        .calls
        .values()
        .filter(|call| call.effect == holdfast_manifest::EffectKind::Destroy)
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(destroys, ["delete"]);
    assert_eq!(manifest.calls["delete"].args["id"].on.as_deref(), Some("server"));
}

/// Field cases E07 and F07.
#[test]
fn every_word_of_the_service_has_the_class_that_says_what_happened_e09() {
    let manifest = holdfast_manifest::Manifest::parse(include_str!("../../provider.toml")).unwrap();
    let meaning = |call: &str, word: &str| {
        let answers = [&manifest.calls[call].answers, &manifest.endpoints["api"].answers];
        let named = |key: &holdfast_manifest::AnswerKey| key.word.as_deref() == Some(word);
        answers.into_iter().find_map(|answers| {
            let code = |codes: &std::collections::BTreeMap<_, String>| {
                codes.iter().find(|(key, _)| named(key)).map(|(_, code)| code.clone())
            };
            let gone = answers.gone.iter().any(&named).then(|| "gone".to_owned());
            gone.or_else(|| code(&answers.rejects))
                .or_else(|| code(&answers.fails).map(|it| format!("unclear: {it}")))
        })
    };
    for (call, word, expected) in [
        ("create", "resource_unavailable", Some("capacity-exhausted")),
        ("create", "placement_error", Some("capacity-exhausted")),
        ("create", "resource_limit_exceeded", Some("quota-exceeded")),
        ("create", "uniqueness_error", Some("unclear: already-exists")),
        ("create", "invalid_input", Some("invalid-input")),
        ("create", "unauthorized", Some("unauthenticated")),
        ("create", "forbidden", Some("permission-denied")),
        ("create", "rate_limit_exceeded", Some("throttled")),
        ("create", "service_error", None),
        ("delete", "locked", Some("conflict")),
        ("delete", "protected", Some("permission-denied")),
        ("delete", "not_found", Some("gone")),
        ("rebuild", "locked", Some("conflict")),
        ("power-on", "conflict", Some("conflict")),
    ] {
        assert_eq!(meaning(call, word).as_deref(), expected, "{word} of {call}");
    }
}
