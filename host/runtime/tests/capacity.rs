//! Callbacks of `capacity`: answers come back bounded, and planning reaches nothing (R2.21, R2.24).

mod support;

use holdfast_effects::{
    AllocatePollResult, BeginResult, Callback, Lend, Plan, PollState, ProviderOperation, ReleasePollResult,
    Returned,
};
use holdfast_runtime::{CallEnd, TrapKind};
use std::sync::Arc;
use support::*;

const NOTHING: Lend = Lend { credentials: false, user_data: false };
const DATA: Lend = Lend { credentials: false, user_data: true };

async fn call(bytes: &[u8], callback: Callback) -> Result<Returned, CallEnd> {
    load(&engine(), bytes).call(callback, Arc::new(Listener::default()), soon(60_000)).await
}

fn operation() -> ProviderOperation {
    ProviderOperation { operation_id: "1".to_owned(), resume_token: "t".to_owned() }
}

fn begun() -> BeginResult {
    let operation = ProviderOperation { operation_id: String::new(), resume_token: String::new() };
    BeginResult { operation, message: String::new(), requeue_after_ms: None }
}

fn begin_allocate(lend: Lend) -> Callback {
    let config = vec![("image".to_owned(), "i".to_owned())];
    Callback::BeginAllocate { request: request(), allocation: allocation(), config, lend }
}

fn poll_allocate() -> Callback {
    let (request, allocation) = (request(), allocation());
    Callback::PollAllocate { request, allocation, operation: operation(), lend: NOTHING }
}

fn poll_release() -> Callback {
    let (request, allocation) = (request(), allocation());
    Callback::PollRelease { request, allocation, owned: Vec::new(), operation: operation(), lend: NOTHING }
}

#[tokio::test]
async fn every_callback_of_capacity_reaches_the_guest_and_its_answer_comes_back() {
    let engine = engine();
    let module = load(&engine, &capacity_guest("", "(i32.const 1024)"));
    let owned = vec![holdfast_effects::OwnedResource { kind: "k".into(), id: "i".into(), zone: None }];
    let cases = [
        (resolve(NOTHING), Returned::ResolveClass(Ok(Vec::new()))),
        (
            plan(),
            Returned::PlanAllocation(Ok(Plan { provider_id: String::new(), host_image: String::new() })),
        ),
        (
            poll_allocate(),
            Returned::PollAllocate(Ok(AllocatePollResult {
                state: PollState::InProgress,
                result: None,
                owned_resources: Vec::new(),
                reason: String::new(),
                message: String::new(),
                requeue_after_ms: None,
            })),
        ),
        (
            Callback::BeginRelease { request: request(), allocation: allocation(), owned, lend: NOTHING },
            Returned::BeginRelease(Ok(begun())),
        ),
        (
            poll_release(),
            Returned::PollRelease(Ok(ReleasePollResult {
                state: PollState::InProgress,
                remaining: Vec::new(),
                reason: String::new(),
                message: String::new(),
                requeue_after_ms: None,
            })),
        ),
        // The same module operates machines.
        (begin(NOTHING), Returned::Begin(Ok(begun()))),
    ];
    for (callback, expected) in cases {
        let returned = module.call(callback, Arc::new(Listener::default()), soon(60_000)).await.unwrap();
        assert_eq!(returned, expected);
    }
}

#[tokio::test]
async fn an_allocation_is_lent_first_boot_data_and_gives_it_back() {
    let drop =
        r#"(import "holdfast:provider/custody@0.1.0" "[resource-drop]user-data" (func $drop (param i32)))"#;
    let good = capacity_guest(drop, "(call $drop (i32.const 1)) (i32.const 1024)");
    for lend in [DATA, NOTHING] {
        // The contract has a loan in any case; what stands behind it is the host's business.
        assert_eq!(call(&good, begin_allocate(lend)).await, Ok(Returned::BeginAllocate(Ok(begun()))));
    }
    let kept = call(&capacity_guest("", "(i32.const 1024)"), begin_allocate(DATA)).await.unwrap_err();
    assert!(matches!(kept, CallEnd::Trap { reason: TrapKind::HandleKept, .. }), "{kept:?}");
}

#[tokio::test]
async fn a_module_that_only_operates_machines_is_asked_for_no_capacity_l11() {
    let end = call(&guest("", "(i32.const 1024)"), resolve(NOTHING)).await.unwrap_err();
    assert_eq!(end.reason(), "NotExported");
}

#[tokio::test]
async fn a_plan_that_reaches_for_anything_ends_there_r2_24() {
    let cases = [
        (
            r#"(import "holdfast:provider/clock@0.1.0" "now" (func $f (param i32)))"#,
            "(call $f (i32.const 2048)) (i32.const 1024)",
        ),
        (
            r#"(import "holdfast:provider/log@0.1.0" "write" (func $f (param i32 i32 i32 i32 i32)))"#,
            "(call $f (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)) (i32.const 1024)",
        ),
        (
            r#"(import "holdfast:provider/calls@0.1.0" "token" (func $f (param i32 i32 i32)))"#,
            "(call $f (i32.const 0) (i32.const 1) (i32.const 2048)) (i32.const 1024)",
        ),
        (
            r#"(import "holdfast:provider/calls@0.1.0" "recorded" (func $f (param i32 i32 i32)))"#,
            "(call $f (i32.const 0) (i32.const 1) (i32.const 2048)) (i32.const 1024)",
        ),
        (
            r#"(import "holdfast:provider/calls@0.1.0" "read"
                 (func $f (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#,
            "(call $f (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                      (i32.const 0) (i32.const 0) (i32.const 2048)) (i32.const 1024)",
        ),
    ];
    for (imports, body) in cases {
        // The port would allow all of it.
        let end = call(&capacity_guest(imports, body), plan()).await.unwrap_err();
        assert_eq!(end.reason(), "PureCallback", "{imports}");
        assert!(end.to_string().contains("R2.24"), "{end}");
    }
}

#[tokio::test]
async fn a_plan_has_no_random_numbers_and_no_monotonic_clock_r2_24() {
    let cases = [
        ("random", "random", "get-random-u64: func() -> u64", "wasi:random/random@0.2.6", "get-random-u64"),
        ("clocks", "monotonic-clock", "now: func() -> u64", "wasi:clocks/monotonic-clock@0.2.6", "now"),
    ];
    for (package, interface, function, module, name) in cases {
        let imports = format!(r#"(import "{module}" "{name}" (func $f (result i64)))"#);
        let body = "(drop (call $f)) (i32.const 1024)";
        let component = wasi_component("capacity-provider", package, interface, function, &imports, body);
        let end = call(&with_manifest(&component, &capacity_manifest()), plan()).await.unwrap_err();
        assert_eq!(end.reason(), "PureCallback", "{module}");
    }
}

#[tokio::test]
async fn a_plan_that_panics_or_never_ends_is_named_like_any_other_callback() {
    let end = call(&capacity_guest("", "(unreachable)"), plan()).await.unwrap_err();
    assert!(matches!(end, CallEnd::Trap { reason: TrapKind::Panic, .. }), "{end:?}");
    let module = load(&engine(), &capacity_guest("", "(loop (br 0)) (unreachable)"));
    let end = module.call(plan(), Arc::new(Listener::default()), soon(100)).await.unwrap_err();
    assert_eq!(end, CallEnd::Deadline);
}

/// `pointer` and `length` at an address, and the plain answer.
fn stored(at: u32, pointer: u32, length: u32) -> String {
    format!(
        "(i32.store (i32.const {at}) (i32.const {pointer})) (i32.store (i32.const {}) (i32.const {length}))",
        at + 4
    )
}

#[tokio::test]
async fn lists_and_texts_over_their_bounds_are_refused_attack_80() {
    // A result's payload is at 1032; where a list or a text of it stands follows from the contract's records.
    let answer = " (i32.const 1024)";
    let grow = "(drop (memory.grow (i32.const 8))) ";
    let cases = [
        // 513 offerings, all zero.
        (resolve(NOTHING), format!("{grow}{}", stored(1032, 65536, 513)), "TooMany"),
        // A planned locator, and a planned image, of 5000 bytes.
        (plan(), stored(1032, 32768, 5000), "TooLarge"),
        (plan(), stored(1040, 32768, 5000), "TooLarge"),
        // 129 resources that are still there.
        (poll_release(), stored(1044, 65536, 129), "TooMany"),
    ];
    for (callback, body, reason) in cases {
        let end = call(&capacity_guest("", &format!("{grow}{body}{answer}")), callback).await.unwrap_err();
        assert_eq!(end.reason(), reason, "{body}");
    }
}

#[tokio::test]
async fn five_hundred_and_twelve_offerings_are_copied() {
    let body = format!("(drop (memory.grow (i32.const 8))) {} (i32.const 1024)", stored(1032, 65536, 512));
    let Ok(Returned::ResolveClass(Ok(offerings))) = call(&capacity_guest("", &body), resolve(NOTHING)).await
    else {
        panic!("refused")
    };
    assert_eq!((offerings.len(), offerings[511].zone.clone()), (512, None));
}

#[tokio::test]
async fn offerings_of_gigabytes_are_not_copied_attack_80() {
    let body = format!("{} (i32.const 1024)", stored(1032, 0, 0x7fff_ffff));
    let end = call(&capacity_guest("", &body), resolve(NOTHING)).await.unwrap_err();
    assert!(matches!(end, CallEnd::Trap { .. }), "{end:?}");
}
