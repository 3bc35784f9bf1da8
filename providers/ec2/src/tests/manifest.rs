//! What the manifest says of the service's words, and of what may be touched.

use holdfast_manifest::{Call, EffectKind, Manifest, Replay};

fn manifest() -> Manifest {
    Manifest::parse(include_str!("../../provider.toml")).unwrap()
}

/// What a word means in a call: refused, unclear or gone, and the contract's code for it.
fn meaning(manifest: &Manifest, call: &Call, word: &str) -> String {
    let endpoint = &manifest.endpoints[&call.endpoint].answers;
    for answers in [&call.answers, endpoint] {
        if answers.gone.iter().any(|key| key.word.as_deref() == Some(word)) {
            return "gone".to_owned();
        }
        for (how, codes) in [("refused", &answers.rejects), ("unclear", &answers.fails)] {
            if let Some((_, code)) = codes.iter().find(|(key, _)| key.word.as_deref() == Some(word)) {
                return format!("{how}: {code}");
            }
        }
    }
    "unclear".to_owned()
}

/// Field cases E07 and F09.
#[test]
fn every_word_of_the_service_has_the_class_that_says_what_happened_e09() {
    let manifest = manifest();
    for (call, word, expected) in [
        ("run", "InsufficientInstanceCapacity", "refused: capacity-exhausted"),
        ("run", "InsufficientFreeAddressesInSubnet", "refused: capacity-exhausted"),
        ("run", "Unsupported", "refused: capacity-exhausted"),
        ("run", "InstanceLimitExceeded", "refused: quota-exceeded"),
        ("run", "VcpuLimitExceeded", "refused: quota-exceeded"),
        ("run", "UnauthorizedOperation", "refused: permission-denied"),
        ("run", "AccessDenied", "refused: permission-denied"),
        ("run", "AuthFailure", "refused: unauthenticated"),
        ("run", "SignatureDoesNotMatch", "refused: unauthenticated"),
        ("run", "RequestExpired", "refused: unavailable"),
        ("run", "RequestLimitExceeded", "refused: throttled"),
        ("run", "InvalidAMIID.NotFound", "refused: invalid-input"),
        // Something with our token is there, whatever the journal knows.
        ("run", "IdempotentParameterMismatch", "unclear: conflict"),
        ("run", "IdempotentInstanceTerminated", "unclear: conflict"),
        ("run", "InternalError", "unclear"),
        ("run", "Unavailable", "unclear"),
        ("start", "InsufficientInstanceCapacity", "refused: capacity-exhausted"),
        ("stop", "IncorrectInstanceState", "refused: conflict"),
        ("terminate", "InvalidInstanceID.NotFound", "gone"),
        ("terminate", "OperationNotPermitted", "refused: permission-denied"),
        ("terminate", "UnauthorizedOperation", "refused: permission-denied"),
        ("delete-volume", "InvalidVolume.NotFound", "gone"),
        ("delete-volume", "VolumeInUse", "refused: conflict"),
        ("delete-nic", "InvalidNetworkInterfaceID.NotFound", "gone"),
        ("delete-nic", "InvalidParameterValue", "refused: conflict"),
    ] {
        assert_eq!(meaning(&manifest, &manifest.calls[call], word), expected, "{word} of {call}");
    }
}

/// Field case B12.
#[test]
fn a_create_is_looked_up_before_it_is_sent_again_and_its_token_goes_out_in_both_ways() {
    let manifest = manifest();
    let run = &manifest.calls["run"];
    let Some(Replay::Lookup(lookup)) = &run.replay else { panic!("a repeat needs a lookup first") };
    assert_eq!(lookup.call, "find");
    let places: Vec<String> = run.args["token"].at.iter().map(ToString::to_string).collect();
    assert!(places.contains(&"form:ClientToken".to_owned()));
    assert_eq!(places.iter().filter(|place| place.ends_with("Tag.1.Value")).count(), 3);
}

#[test]
fn every_destroy_names_one_thing_of_a_kind_that_the_host_recorded() {
    let manifest = manifest();
    let destroys: Vec<(&str, &str)> = manifest
        .calls
        .values()
        .filter(|call| call.effect == EffectKind::Destroy)
        .map(|call| (call.name.as_str(), call.args["id"].on.as_deref().unwrap()))
        .collect();
    assert_eq!(destroys, [("delete-nic", "nic"), ("delete-volume", "volume"), ("terminate", "instance")]);
}

#[test]
fn first_boot_data_is_counted_before_base64_and_never_read_back_j08() {
    let manifest = manifest();
    let text = include_str!("../../provider.toml");
    assert!(!text.contains("DescribeInstanceAttribute") && !text.contains("GetConsoleOutput"));
    assert!(manifest.calls.values().filter(|call| call.has_user_data()).map(|call| &call.name).eq(["run"]));
    assert!(text.contains("max-bytes = 16384, max-of = \"plain\""));
}
