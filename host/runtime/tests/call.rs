//! Callbacks of well-behaved and hostile modules: each ends in an answer or in one sentence, and the engine goes on.

mod support;

use holdfast_effects::{
    BeginResult, CallError, Callback, Failure, Lend, LogLevel, OperationResult, PollResult, PollState,
    ProviderOperation, Returned, Violation,
};
use holdfast_runtime::{CallEnd, Engine, EngineOptions, Module, TrapKind};
use std::sync::Arc;
use std::time::Duration;
use support::*;

const CREDENTIALS: Lend = Lend { credentials: true, user_data: false };
const NOTHING: Lend = Lend { credentials: false, user_data: false };

async fn end(imports: &str, body: &str, milliseconds: i64) -> CallEnd {
    let engine = engine();
    let module = load(&engine, &guest(imports, body));
    let end =
        module.call(begin(NOTHING), Arc::new(Listener::default()), soon(milliseconds)).await.unwrap_err();
    // Whatever it did, the engine serves the next module.
    let next = load(&engine, &guest("", "(i32.const 1024)"));
    next.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
    end
}

#[tokio::test]
async fn every_callback_reaches_the_guest_and_its_answer_comes_back() {
    let module = load(&engine(), &guest("", "(i32.const 1024)"));
    let operation = ProviderOperation { operation_id: "1".to_owned(), resume_token: "t".to_owned() };
    let result = OperationResult::default();
    // This guest never drops a loan, so it is lent none.
    let lend = NOTHING;
    let cases = [
        (Callback::Execute { request: request(), lend }, Returned::Execute(Ok(OperationResult::default()))),
        (
            Callback::Begin { request: request(), lend },
            Returned::Begin(Ok(BeginResult {
                operation: ProviderOperation { operation_id: String::new(), resume_token: String::new() },
                message: String::new(),
                requeue_after_ms: None,
            })),
        ),
        (
            Callback::Poll { request: request(), operation: operation.clone(), lend },
            Returned::Poll(Ok(PollResult {
                state: PollState::InProgress,
                result: None,
                reason: String::new(),
                message: String::new(),
                requeue_after_ms: None,
            })),
        ),
        (Callback::Cancel { request: request(), operation, lend }, Returned::Cancel(Ok(()))),
        (Callback::Cleanup { request: request(), result, lend }, Returned::Cleanup(Ok(()))),
    ];
    for (callback, expected) in cases {
        let returned = module.call(callback, Arc::new(Listener::default()), soon(60_000)).await.unwrap();
        assert_eq!(returned, expected);
    }
}

#[tokio::test]
async fn an_endless_loop_ends_at_its_deadline_attack_79() {
    assert_eq!(end("", "(loop (br 0)) (unreachable)", 100).await, CallEnd::Deadline);
}

#[tokio::test]
async fn a_loop_over_host_calls_that_answer_at_once_ends_at_its_deadline_attack_79() {
    let imports = r#"(import "holdfast:provider/clock@0.1.0" "now" (func $now (param i32)))"#;
    let body = "(loop (global.set $heap (i32.const 8192)) (call $now (i32.const 1024)) (br 0)) (unreachable)";
    assert_eq!(end(imports, body, 100).await, CallEnd::Deadline);
}

#[tokio::test]
async fn a_memory_bomb_is_told_no_and_named_when_it_stops_attack_80() {
    let body = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))) (unreachable)";
    assert_eq!(end("", body, 60_000).await, CallEnd::Memory { limit: 64 << 20 });
}

#[tokio::test]
async fn deep_recursion_uses_up_the_modules_stack_alone() {
    let end = end("", "(call $deep (i32.const 0))", 60_000).await;
    assert!(matches!(end, CallEnd::Trap { reason: TrapKind::StackOverflow, .. }), "{end:?}");
}

#[tokio::test]
async fn a_panic_is_named_without_a_trace_of_the_module() {
    let end = end("", "(unreachable)", 60_000).await;
    assert!(matches!(end, CallEnd::Trap { reason: TrapKind::Panic, .. }), "{end:?}");
    assert!(!end.to_string().contains("wasm"), "{end}");
}

#[tokio::test]
async fn an_answer_outside_its_memory_is_a_bad_value() {
    let end = end("", "(i32.const -8)", 60_000).await;
    assert!(
        matches!(end, CallEnd::Trap { reason: TrapKind::BadValue | TrapKind::OutOfBounds, .. }),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_text_of_gigabytes_is_not_copied_attack_80() {
    // begin: ok, operation-id of 60 KiB: over the bound of an identity, within what may be copied.
    let body = "(i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 60000))
                (i32.const 1024)";
    let end = end("", body, 60_000).await;
    assert!(matches!(&end, CallEnd::Violation(v) if v.reason == "TooLarge"), "{end:?}");
    let huge = body.replace("60000", "2147483647");
    let end = self::end("", &huge, 60_000).await;
    assert!(matches!(end, CallEnd::Trap { .. }), "{end:?}");
}

const READ: &str = r#"(import "holdfast:provider/calls@0.1.0" "read"
    (func $read (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;

/// `read("", "", credentials or none, [])`, the answer at 2048.
fn read(credentials: &str) -> String {
    format!(
        "(call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) {credentials} (i32.const 0) (i32.const 0)
                     (i32.const 2048)) (i32.const 1024)"
    )
}

#[tokio::test]
async fn a_failure_of_a_call_is_the_guests_and_a_violation_ends_it() {
    let engine = engine();
    let module = load(&engine, &guest(READ, &read("(i32.const 0) (i32.const 0)")));
    let failure = Failure {
        permanent: false,
        code: "unavailable".to_owned(),
        reason: "R".to_owned(),
        message: "m".to_owned(),
        native: None,
        retry_after_ms: None,
    };
    let port = Listener { refusal: Some(CallError::Failure(failure)), ..Listener::default() };
    module.call(begin(NOTHING), Arc::new(port), soon(60_000)).await.unwrap();

    let violation = Violation { reason: "WrongPhase".to_owned(), message: "no".to_owned() };
    let port = Listener { refusal: Some(CallError::Violation(violation.clone())), ..Listener::default() };
    let end = module.call(begin(NOTHING), Arc::new(port), soon(60_000)).await.unwrap_err();
    assert_eq!(end, CallEnd::Violation(violation));
}

#[tokio::test]
async fn a_handle_that_was_not_lent_cannot_be_presented_attack_85() {
    // The guest makes up the number of a handle.
    let end = {
        let module = load(&engine(), &guest(READ, &read("(i32.const 1) (i32.const 1)")));
        module.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap_err()
    };
    assert!(matches!(end, CallEnd::Trap { .. }), "{end:?}");
}

#[tokio::test]
async fn a_lent_handle_is_seen_by_the_port_and_a_kept_one_ends_the_callback() {
    // The loan is the guest's first handle, and it never drops it.
    let module = load(&engine(), &guest(READ, &read("(i32.const 1) (i32.const 1)")));
    let port = Arc::new(Listener::default());
    let end = module.call(begin(CREDENTIALS), port.clone(), soon(60_000)).await.unwrap_err();
    assert!(port.requests.lock().unwrap()[0].1.credentials);
    assert!(matches!(end, CallEnd::Trap { reason: TrapKind::HandleKept, .. }), "{end:?}");
}

#[tokio::test]
async fn ten_thousand_log_lines_are_256_and_a_word_about_the_rest() {
    let imports = r#"(import "holdfast:provider/log@0.1.0" "write" (func $log (param i32 i32 i32 i32 i32)))"#;
    let body = "(local.set $n (i32.const 10000))
        (loop (call $log (i32.const 1) (i32.const 0) (i32.const 6000) (i32.const 0) (i32.const 0))
              (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (i32.const 1024)";
    let module = load(&engine(), &guest(imports, body));
    let port = Arc::new(Listener::default());
    module.call(begin(NOTHING), port.clone(), soon(60_000)).await.unwrap();
    let lines = port.lines.lock().unwrap();
    assert_eq!(lines.len(), 256);
    assert_eq!(lines[0].message.len(), 4096, "and each is cut");
    assert!(lines[255].level == LogLevel::Warn && lines[255].message.contains("dropped"));
}

#[tokio::test]
async fn a_pure_phase_reaches_neither_clock_nor_log() {
    let cases = [
        (
            r#"(import "holdfast:provider/clock@0.1.0" "now" (func $now (param i32)))"#,
            "(call $now (i32.const 2048)) (i32.const 1024)",
        ),
        (
            r#"(import "holdfast:provider/log@0.1.0" "write" (func $log (param i32 i32 i32 i32 i32)))"#,
            "(call $log (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)) (i32.const 1024)",
        ),
    ];
    for (imports, body) in cases {
        let module = load(&engine(), &guest(imports, body));
        let port = Listener { pure: true, ..Listener::default() };
        let end = module.call(begin(NOTHING), Arc::new(port), soon(60_000)).await.unwrap_err();
        assert!(matches!(&end, CallEnd::Violation(v) if v.reason == "WrongPhase"), "{end:?}");
    }
}

/// `begin` succeeds with a 64-bit number as its wait.
const NUMBER: &str =
    "(i32.store8 (i32.const 1056) (i32.const 1)) (i64.store (i32.const 1064) (call $f)) (i32.const 1024)";

async fn number(module: &Module, port: Listener) -> Result<Option<u64>, CallEnd> {
    match module.call(begin(NOTHING), Arc::new(port), soon(60_000)).await? {
        Returned::Begin(Ok(result)) => Ok(result.requeue_after_ms),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn random_numbers_repeat_for_the_owner_and_a_pure_phase_has_none() {
    let imports = r#"(import "wasi:random/random@0.2.6" "get-random-u64" (func $f (result i64)))"#;
    let bytes = wasi_guest("random", "random", "get-random-u64: func() -> u64", imports, NUMBER);
    let module = load(&engine(), &bytes);
    let first = number(&module, Listener::default()).await.unwrap();
    assert_eq!(first, number(&module, Listener::default()).await.unwrap());
    assert_ne!(first, number(&module, Listener { seed: 8, ..Listener::default() }).await.unwrap());
    let end = number(&module, Listener { pure: true, ..Listener::default() }).await.unwrap_err();
    assert_eq!(end.reason(), "WrongPhase");
}

#[tokio::test]
async fn the_monotonic_clock_stands_still_attack_91() {
    let imports = r#"(import "wasi:clocks/monotonic-clock@0.2.6" "now" (func $f (result i64)))"#;
    let bytes = wasi_guest("clocks", "monotonic-clock", "now: func() -> u64", imports, NUMBER);
    let module = load(&engine(), &bytes);
    assert_eq!(number(&module, Listener::default()).await.unwrap(), Some(1_000_000_000));
    let end = number(&module, Listener { pure: true, ..Listener::default() }).await.unwrap_err();
    assert_eq!(end.reason(), "WrongPhase");
}

#[tokio::test]
async fn exit_ends_the_guest_alone() {
    let imports = r#"(import "wasi:cli/exit@0.2.6" "exit" (func $exit (param i32)))"#;
    let bytes = wasi_guest(
        "cli",
        "exit",
        "exit: func(status: result)",
        imports,
        "(call $exit (i32.const 0)) (unreachable)",
    );
    let module = load(&engine(), &bytes);
    let end = module.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap_err();
    assert!(matches!(end, CallEnd::Trap { reason: TrapKind::Exit, .. }), "{end:?}");
}

#[tokio::test]
async fn what_a_port_spawns_belongs_to_the_callers_runtime() {
    // The guest works for many ticks before it calls, so that it goes on among the guests.
    let work = "(local.set $n (i32.const 400000000))
        (loop (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))";
    let body = format!("{work} {}", read("(i32.const 0) (i32.const 0)"));
    let module = load(&engine(), &guest(READ, &body));
    let port = Arc::new(Listener { spawn: true, ..Listener::default() });
    module.call(begin(NOTHING), port.clone(), soon(60_000)).await.unwrap();
    // This test's runtime has one thread: a spawned task can only have run on it.
    let here = std::thread::current().id();
    assert_eq!(*port.spawned_on.lock().unwrap(), Some(here));
}

#[tokio::test]
async fn a_guest_that_waits_for_an_answer_ends_at_its_deadline_too_attack_79() {
    let module = load(&engine(), &guest(READ, &read("(i32.const 0) (i32.const 0)")));
    let port = Listener { gate: Some(Arc::default()), ..Listener::default() };
    let end = module.call(begin(NOTHING), Arc::new(port), soon(50)).await.unwrap_err();
    assert_eq!(end, CallEnd::Deadline);
}

#[tokio::test]
async fn a_deadline_in_the_past_runs_nothing() {
    let module = load(&engine(), &guest(READ, &read("(i32.const 0) (i32.const 0)")));
    let port = Arc::new(Listener::default());
    let end = module.call(begin(NOTHING), port.clone(), soon(-1)).await.unwrap_err();
    assert_eq!(end, CallEnd::Deadline);
    assert!(port.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_call_that_finds_no_instance_before_its_deadline_is_told_so() {
    let engine = Engine::new(EngineOptions { concurrent_calls: 1, ..EngineOptions::default() }).unwrap();
    let module = load(&engine, &guest(READ, &read("(i32.const 0) (i32.const 0)")));
    let gate = Arc::new(tokio::sync::Notify::new());
    let holder = Arc::new(Listener { gate: Some(gate.clone()), ..Listener::default() });
    let first = tokio::spawn({
        let (module, holder) = (module.clone(), holder.clone());
        async move { module.call(begin(NOTHING), holder, soon(60_000)).await }
    });
    while holder.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let end = module.call(begin(NOTHING), Arc::new(Listener::default()), soon(30)).await.unwrap_err();
    assert_eq!(end, CallEnd::Overloaded);
    gate.notify_one();
    first.await.unwrap().unwrap();
    module.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
}

#[tokio::test]
async fn dropped_and_timed_out_calls_give_their_instances_back() {
    let engine = Engine::new(EngineOptions { concurrent_calls: 2, ..EngineOptions::default() }).unwrap();
    let module = load(&engine, &guest("", "(loop (br 0)) (unreachable)"));
    for _ in 0..6 {
        let call = module.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000));
        assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
    }
    let quiet = load(&engine, &guest("", "(i32.const 1024)"));
    quiet.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
}

#[tokio::test]
async fn others_are_served_while_as_many_guests_spin_as_there_are_threads_i2() {
    let engine = engine();
    let spin = load(&engine, &guest("", "(loop (br 0)) (unreachable)"));
    let quiet = load(&engine, &guest("", "(i32.const 1024)"));
    let spinning: Vec<_> = (0..2)
        .map(|_| {
            let spin = spin.clone();
            tokio::spawn(async move {
                spin.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await
            })
        })
        .collect();
    for _ in 0..20 {
        quiet.call(begin(NOTHING), Arc::new(Listener::default()), soon(60_000)).await.unwrap();
    }
    for task in spinning {
        assert!(!task.is_finished());
        task.abort();
    }
}
