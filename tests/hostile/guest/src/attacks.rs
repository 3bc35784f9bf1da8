//! The attacks, by the name that the parameter `attack` gives.

use crate::ask::{
    args, keyed, member, outcome, own_server, parameter, perform, permanent, read, transient, unchanged,
};
use crate::exports::holdfast::provider::operations::{
    BeginResult, Credentials, Error, OperationRequest, OperationResult, PollResult, ProviderOperation, State,
};
use crate::holdfast::provider::log;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

type Lent<'a> = Option<&'a Credentials>;

pub fn execute(request: &OperationRequest, lent: Lent<'_>) -> Result<OperationResult, Error> {
    let own = own_server(request);
    let other = parameter(request, "neighbour");
    match parameter(request, "attack") {
        "endless-loop" => loop {
            black_box(());
        },
        "memory-bomb" => memory_bomb(),
        "deep-recursion" => Err(transient("Deep", &deep(black_box(1)).to_string())),
        "panic" => panic!("said by the module that panicked"),
        "exit" => std::process::exit(0),
        "huge-result" => Ok(identity("x".repeat(8 << 20))),
        "large-result" => Ok(identity("x".repeat(100 << 10))),
        "log-lines" => log_lines(),
        "print-lines" => print_lines(),
        "log-forgery" => log_forgery(),
        "escapes" => Err(transient("Cleared\u{1b}[2J", "one\u{1b}[2J\r\nescaped-line\u{202e} three")),
        "read-loop" => loop {
            // Whatever it says, ask again.
            let _ = black_box(read("look", args(own, None), lent));
        },
        "effect-flood" => {
            for n in 0..100 {
                keyed(&format!("effect-{n}"), "off", args(own, None), lent)?;
            }
            Ok(unchanged())
        }
        "large-arguments" => perform("off", args(&"x".repeat(100 << 10), None), lent),
        "undeclared-call" => perform("format-the-moon", args(own, None), lent),
        "wrong-phase" => perform("wipe", args(own, None), lent),
        "effect-by-read" => read("off", args(own, None), lent).map(|_| unchanged()),
        "without-credentials" => perform("off", args(own, None), None),
        "undeclared-argument" => perform("off", args(own, Some(("force", "yes"))), lent),
        "argument-out-of-place" => perform("off", args("../../../admin", None), lent),
        "neighbours-update" => perform("off", args(other, None), lent),
        "neighbours-read" => read("look", args(other, None), lent).map(|_| unchanged()),
        "neighbours-identity" => Ok(identity(format!("hostile://{other}"))),
        "neighbours-cleanup" => {
            Ok(OperationResult { provider_id: None, cleanup_provider_id: Some(format!("hostile://{other}")) })
        }
        "sealed-own" => {
            let fields = read("look", args(own, None), lent)?;
            perform("off-if", args(own, Some(("etag", member(&fields, "etag")))), lent)
        }
        "sealed-given" => perform("off-if", args(own, Some(("etag", parameter(request, "sealed")))), lent),
        "made-up-origin" => read("action", args("act-1", None), lent).map(|_| unchanged()),
        "unfit-and-success" => perform("unfit", args(own, None), lent),
        "unfit-and-wait" => {
            outcome("unfit", args(own, None), lent)?;
            Err(transient("Waiting", "the outcome is not known yet"))
        }
        "handle-never-lent" => {
            let made_up = made_up(77);
            perform("off", args(own, None), Some(&made_up))
        }
        "handle-kept" => {
            keep(lent);
            Ok(unchanged())
        }
        name => Err(permanent("NoSuchAttack", name)),
    }
}

/// Long-running attacks reach from one callback into a later one.
pub fn begin(request: &OperationRequest, lent: Lent<'_>) -> Result<BeginResult, Error> {
    let token = match parameter(request, "attack") {
        "sealed-stash" => member(&read("look", args(own_server(request), None), lent)?, "etag").to_owned(),
        "handle-noted" | "handle-noted-and-lent" => lent.map_or(0, Credentials::handle).to_string(),
        "static-kept" => {
            KEPT.store(42, Ordering::Relaxed);
            String::new()
        }
        name => return Err(permanent("NoSuchAttack", name)),
    };
    Ok(BeginResult {
        operation: crate::exports::holdfast::provider::operations::ProviderOperation {
            operation_id: "accepted".to_owned(),
            resume_token: token,
        },
        message: String::new(),
        requeue_after: Some(1),
    })
}

pub fn poll(
    request: &OperationRequest,
    operation: &ProviderOperation,
    lent: Lent<'_>,
) -> Result<PollResult, Error> {
    match parameter(request, "attack") {
        "sealed-stash" => Ok(polled(State::Succeeded, "")),
        // The number that the first callback was lent, in a callback that has given its own loan back.
        "handle-noted" => {
            let noted: u32 = operation.resume_token.parse().unwrap_or_default();
            let kept = made_up(noted);
            if let Some(lent) = lent {
                drop(made_up(lent.take_handle()));
            }
            let answer = read("look", args(own_server(request), None), Some(&kept));
            Ok(polled(State::Failed, if answer.is_ok() { "it was served" } else { "it was refused" }))
        }
        // The control: the same number while the loan of this callback stands.
        "handle-noted-and-lent" => {
            let noted = made_up(operation.resume_token.parse().unwrap_or_default());
            read("look", args(own_server(request), None), Some(&noted))?;
            noted.take_handle();
            Ok(polled(State::Succeeded, ""))
        }
        "static-kept" => match KEPT.load(Ordering::Relaxed) {
            0 => Ok(polled(State::Succeeded, "")),
            _ => Ok(polled(State::Failed, "the static outlived its callback")),
        },
        name => Err(permanent("NoSuchAttack", name)),
    }
}

/// What would outlive a callback, if an instance did.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// Takes the number out of the wrapper, so that nothing ever gives the loan back.
fn keep(lent: Lent<'_>) {
    KEPT.store(lent.map_or(0, Credentials::take_handle), Ordering::Relaxed);
}

/// A wrapper around any number at all.
fn made_up(number: u32) -> Credentials {
    // SAFETY: on the guest's side a handle is only a number; it is the host that must not believe it.
    unsafe { Credentials::from_handle(number) }
}

fn memory_bomb() -> ! {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(vec![1; 1 << 20]);
        black_box(&all);
    }
}

/// Not a loop in disguise: each frame is needed after the call.
#[allow(unconditional_recursion)]
fn deep(n: u64) -> u64 {
    let frame = black_box([n; 64]);
    deep(n + 1) + frame[(n % 64) as usize]
}

fn log_lines() -> Result<OperationResult, Error> {
    let large = "m".repeat(8 << 10);
    for n in 0..10_000 {
        log::write(
            log::Level::Info,
            &format!("flood-of-log-lines {n}"),
            &[("large".to_owned(), large.clone())],
        );
    }
    Ok(unchanged())
}

fn print_lines() -> Result<OperationResult, Error> {
    for n in 0..5_000 {
        println!("flood-of-printed-lines {n}");
        eprintln!("flood-of-printed-lines {n}");
    }
    Ok(unchanged())
}

/// Lines that would pass for the daemon's own.
fn log_forgery() -> Result<OperationResult, Error> {
    let forged = "said\r\nforged-line\u{1b}[31m\u{2028}forged-line";
    log::write(log::Level::Info, forged, &[(forged.to_owned(), forged.to_owned())]);
    println!("said\rforged-line\u{1b}[31m\u{85}forged-line");
    Ok(unchanged())
}

fn identity(id: String) -> OperationResult {
    OperationResult { provider_id: Some(id), cleanup_provider_id: None }
}

fn polled(state: State, message: &str) -> PollResult {
    PollResult {
        state,
        result: None,
        reason: "Polled".to_owned(),
        message: message.to_owned(),
        requeue_after: Some(1),
    }
}
