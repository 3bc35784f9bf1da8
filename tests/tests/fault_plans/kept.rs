//! Plans that failed once, as small as they were made.

use crate::plan::{Act, Bad, Claim, How, Kind, Manners, Plan, Replays, Route, Thing, What};
use crate::run::alone;

/// A cloud with good manners, in which nothing goes wrong.
fn plain(things: Vec<Thing>) -> Plan {
    let cloud = Manners {
        action_ms: 0,
        get_ms: 0,
        list_ms: 0,
        deleted_get_ms: 0,
        deleted_list_ms: 0,
        tokens_end: false,
        full: None,
        capacity_status: 409,
        quota: None,
        rate: None,
        lock_while_busy: false,
        date_offset_s: 0,
        offers_valid_s: 86_400,
        refuses: None,
    };
    Plan { replays: Replays::Token, cloud, rules: Vec::new(), things, crashes: Vec::new(), acts: Vec::new() }
}

fn holds(plan: &Plan) {
    let violations = alone(plan);
    assert!(violations.is_empty(), "{violations:#?}\n{plan:#?}");
}

/// The new server ended in `error`, and was polled for ever (I9).
#[test]
fn a_replacement_whose_server_never_runs_comes_to_an_end() {
    let mut plan = plain(vec![Thing::Machine(vec![(Kind::Replace, 0)])]);
    plan.rules = vec![Bad { route: Route::Any, nth: 1, times: 1, how: How::Failing }];
    holds(&plan);
}

/// A deletion was accepted and failed, and the release waited for what nobody deleted any more (I9).
#[test]
fn a_release_whose_deletion_fails_in_the_cloud_comes_to_an_end() {
    let claim = Claim { with_parts: true, user_data: false, deadline: None };
    let mut plan = plain(vec![Thing::Allocation(claim)]);
    let bad = |route| Bad { route, nth: 1, times: 1, how: How::Failing };
    plan.rules = vec![bad(Route::Delete), Bad { how: How::Idle, ..bad(Route::DeleteParts) }];
    // Before the cloud becomes kind.
    plan.acts = vec![Act { before: 12, what: What::DeleteAllocation(0) }];
    holds(&plan);
}

/// Made, and a gateway said that it was not; the repeat by token was refused, and what had been made was on no record (I5).
#[test]
fn a_replacement_whose_repeat_is_refused_is_not_taken_for_never_made() {
    let mut plan = plain(vec![Thing::Machine(vec![(Kind::Replace, 0)])]);
    let bad = |nth, how| Bad { route: Route::Replace, nth, times: 1, how };
    plan.rules = vec![bad(1, How::Committed(500)), bad(2, How::Status(400))];
    holds(&plan);
}

/// People deleted the operation that replaced a host, and its Machine, before the new host was recorded there: theirs, and
/// no leak.
#[test]
fn a_replacement_whose_operation_and_machine_are_deleted_is_the_persons_own() {
    let mut plan = plain(vec![Thing::Machine(vec![(Kind::Replace, 0)])]);
    plan.cloud.action_ms = 6_000;
    plan.acts = vec![
        Act { before: 5, what: What::DeleteOperation(0) },
        Act { before: 5, what: What::DeleteMachine(0) },
    ];
    holds(&plan);
}
