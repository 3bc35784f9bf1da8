//! Phases (architecture, "Phases") and what a call must bring with it.

mod kit;

use holdfast_custody::UserDataId;
use holdfast_effects::*;
use kit::cloud::SECRET;
use kit::*;
use serde_json::json;

fn owned(id: &str) -> Owned {
    Owned::new("api/here", "server", id)
}

/// A session in which only the phase can stand in the way.
fn ready(house: &House, phase: Phase) -> std::sync::Arc<Session> {
    let mut context = context(phase);
    context.owned = vec![owned("mine"), owned("gone")];
    context.cleanup_provider_id = Some("fake://gone".into());
    house.open(context)
}

#[tokio::test]
async fn each_phase_may_do_what_the_table_says_and_nothing_else() {
    use Phase::{Act, Cleanup, Observe, Pure, Release, Track};
    let table = [
        (Pure, [false, false, false, false]),
        (Observe, [true, false, false, false]),
        (Act, [true, true, true, false]),
        (Track, [true, true, true, false]),
        (Cleanup, [true, false, false, true]),
        (Release, [true, false, true, true]),
    ];
    for (phase, [read, create, update, destroy]) in table {
        let house = House::new();
        let session = ready(&house, phase);
        let reason = if phase == Pure { "PureCallback" } else { "WrongPhase" };
        let outcome = session.read(call("find", json!({"name": "create"}))).await;
        assert_eq!(outcome.is_ok(), read, "read in {phase:?}");
        if !read {
            assert_eq!(violated(outcome).reason, reason);
        }
        for (name, args, may) in [
            ("make-bare", json!({}), create),
            ("power", json!({"id": "mine", "state": "On"}), update),
            ("remove", json!({"id": "gone"}), destroy),
        ] {
            let outcome = session.perform(name.into(), call(name, args)).await;
            assert_eq!(outcome.is_ok(), may, "{name} in {phase:?}: {outcome:?}");
            if !may {
                let violation = violated(outcome);
                assert_eq!(violation.reason, reason, "{name} in {phase:?}");
                if phase != Pure {
                    let words = [name, &format!("{phase:?}").to_lowercase()]
                        .map(|word| violation.message.contains(word));
                    assert_eq!(words, [true, true], "{}", violation.message);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_pure_callback_reaches_nothing_not_even_clock_or_log_r2_24() {
    let house = House::new();
    let session = house.open(context(Phase::Pure));
    let line = LogLine { level: LogLevel::Info, message: "hello".into(), fields: vec![] };
    assert_eq!(session.now().unwrap_err().reason, "PureCallback");
    assert_eq!(session.log(line).unwrap_err().reason, "PureCallback");
    assert_eq!(session.token("create").unwrap_err().reason, "PureCallback");
    assert_eq!(session.recorded("create").unwrap_err().reason, "PureCallback");
}

#[tokio::test]
async fn an_undeclared_call_and_a_call_through_the_wrong_import_end_the_guest() {
    let house = House::new();
    let session = house.act();
    assert_eq!(violated(session.read(no_args("nothing")).await).reason, "UndeclaredCall");
    assert_eq!(violated(session.perform("k".into(), no_args("nothing")).await).reason, "UndeclaredCall");
    assert_eq!(violated(session.read(no_args("make-bare")).await).reason, "WrongImport");
    assert_eq!(violated(session.perform("k".into(), no_args("find")).await).reason, "WrongImport");
}

#[tokio::test]
async fn an_authenticated_call_without_the_credentials_is_refused() {
    let house = House::new();
    let mut bare = no_args("make-bare");
    bare.credentials = false;
    let failure = failed(house.perform("create", bare).await);
    assert_eq!(
        (failure.code.as_str(), failure.reason.as_str()),
        ("unauthenticated", "CredentialsNotPresented")
    );
    let mut unlent = context(Phase::Act);
    unlent.credentials = None;
    let session = house.open(unlent);
    assert_eq!(failed(session.perform("k".into(), no_args("make-bare")).await).reason, "CredentialsNotLent");
    assert_eq!(house.cloud.sent("make-bare"), 0);
}

#[tokio::test]
async fn first_boot_data_fills_exactly_its_declared_slots_and_only_when_lent() {
    let house = House::new();
    let (lent, good) = with_data(7);
    let slots = |names: &[&str]| CallRequest {
        user_data: names.iter().map(|name| (*name).to_owned()).collect(),
        ..no_args("make-token")
    };
    for bad in [slots(&[]), slots(&["other"]), slots(&["user-data", "user-data"]), slots(&["user-data", "x"])]
    {
        let outcome = house.open(lent.clone()).perform("k".into(), bad).await;
        assert_eq!(failed(outcome).reason, "UserDataSlots");
    }
    assert_eq!(failed(house.act().perform("k".into(), good.clone()).await).reason, "UserDataSlots");
    let mut uninvited = no_args("make-bare");
    uninvited.user_data = vec!["user-data".into()];
    let mut both = context(Phase::Act);
    both.user_data = Some(UserDataId(7));
    assert_eq!(failed(house.open(both).perform("k".into(), uninvited).await).reason, "UserDataSlots");
    done(house.open(lent).perform("k".into(), good).await);
}

#[tokio::test]
async fn arguments_are_the_declared_ones_of_a_guest_and_nothing_else() {
    let house = House::new();
    let session = house.act();
    for (args, reason) in [
        (json!({"id": "old", "state": "On", "Action": "x"}), "UndeclaredArgument"),
        (json!({"id": "old"}), "MissingArgument"),
        (json!({"id": "old", "state": null}), "MissingArgument"),
        (json!({"id": "old", "state": "Explode"}), "BadArgument"),
        (json!({"id": "old", "state": ["On"]}), "BadArgument"),
        (json!({"id": "old", "state": {"x": 1}}), "BadArgument"),
        (json!(["old", "On"]), "MalformedArguments"),
    ] {
        assert_eq!(
            failed(session.perform("p".into(), call("power", args.clone())).await).reason,
            reason,
            "{args}"
        );
    }
    // What the host supplies, a guest cannot (H2).
    for (name, args) in [("make-bare", json!({"name": "mine"})), ("make-token", json!({"image": "evil"}))] {
        assert_eq!(failed(session.perform("c".into(), call(name, args)).await).reason, "UndeclaredArgument");
    }
    assert!(house.disk.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_secret_in_a_key_or_a_calls_name_ends_the_guest_without_a_byte_of_it_attack_54() {
    let house = House::new();
    let session = house.act();
    let violations = [
        violated(session.perform(SECRET.into(), no_args("make-bare")).await),
        violated(session.perform("create".into(), no_args(SECRET)).await),
        violated(session.read(no_args(SECRET)).await),
    ];
    for violation in violations {
        assert_eq!(violation.reason, "SecretInOutput");
        assert!(!violation.message.contains(SECRET));
    }
    assert!(house.disk.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_guests_clock_is_frozen_to_the_second_and_its_seed_is_the_same_for_every_repeat() {
    let house = House::new();
    let session = house.act();
    assert_eq!(session.now().unwrap(), "2027-01-15T08:00:00Z");
    house.cloud.clock.pass(100);
    assert_eq!(session.now().unwrap(), "2027-01-15T08:00:00Z");
    assert_eq!(session.seed(), house.restarted().act().seed());
    assert_ne!(session.seed(), house.open(context(Phase::Track)).seed());
}

#[tokio::test]
async fn a_flood_of_log_lines_is_bounded_and_counted_and_a_secret_in_one_ends_the_guest() {
    let house = House::new();
    let session = house.act();
    let line = |message: &str| LogLine { level: LogLevel::Info, message: message.into(), fields: vec![] };
    for _ in 0..10_000 {
        session.log(line("again\u{1b}[2J")).unwrap();
    }
    let lines = session.logs();
    assert_eq!((lines.len(), lines[0].message.as_str()), (257, "again\u{fffd}[2J"));
    assert_eq!(lines[256].message, "9744 further lines of this callback were dropped");

    let session = house.act();
    session.log(line(&"x".repeat(100_000))).unwrap();
    let fields = vec![("k".repeat(100), "v".repeat(10_000)); 40];
    session.log(LogLine { fields, ..line("m") }).unwrap();
    for line in session.logs() {
        let size = line.message.len()
            + line.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        assert!(size <= 4096, "{size}");
    }
    assert_eq!(session.log(line(SECRET)).unwrap_err().reason, "SecretInOutput");
    let hidden = LogLine { fields: vec![("k".into(), SECRET.into())], ..line("m") };
    assert_eq!(session.log(hidden).unwrap_err().reason, "SecretInOutput");
}

#[tokio::test]
async fn a_callback_that_asks_in_a_loop_is_stopped_after_256_calls_whatever_they_are_attack_79() {
    let house = House::new();
    let session = house.act();
    for n in 0..256 {
        match n % 2 {
            0 => drop(session.read(call("find", json!({"name": "create"}))).await.unwrap()),
            _ => drop(failed(session.perform("p".into(), call("power", json!({}))).await)),
        }
    }
    let sent = house.cloud.sent("find");
    let violation = violated(session.read(call("find", json!({"name": "create"}))).await);
    assert_eq!(violation.reason, "TooManyCalls");
    assert!(violation.message.contains("more than 256 calls"), "{}", violation.message);
    assert_eq!(violated(session.perform("create".into(), no_args("make-bare")).await).reason, "TooManyCalls");
    assert_eq!((house.cloud.sent("find"), house.cloud.sent("make-bare")), (sent, 0));
    // The next callback begins anew.
    done(house.perform("create", no_args("make-bare")).await);
}
