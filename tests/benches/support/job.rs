//! The job that is timed: one `poll` of the simulated provider, which reads an action and a server and says `succeeded`.

use anyhow::{Context, Result};
use holdfast_effects::{
    CallError, CallOutcome, CallReply, CallRequest, Callback, Lend, LogLine, Machine, OperationRequest,
    PollState, Port, ProviderOperation, Returned, Violation,
};
use holdfast_runtime::Module;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The simulated provider as a file: `HOLDFAST_BENCH_MODULE`, or built now.
pub fn module() -> Result<Vec<u8>> {
    let path = match std::env::var_os("HOLDFAST_BENCH_MODULE") {
        Some(path) => path.into(),
        None => holdfast_tests::modules::build()?.provider("simulated")?,
    };
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

pub fn request() -> OperationRequest {
    let text = str::to_owned;
    OperationRequest {
        name: text("power-on-node-17"),
        uid: text("6f2b8c1e-0d4f-4b7e-9a51-3c7d2e8f9a10"),
        kind: text("HostPowerOn"),
        parameters: vec![
            (text("reason"), text("maintenance-window-4711")),
            (text("requested-by"), text("ops@example.org")),
        ],
        machine: Machine {
            name: text("node-17"),
            uid: text("0b9d6a34-7c1e-4f52-8a6b-1e2f3a4b5c6d"),
            generation: 7,
            provider_ref: None,
            provider_id: Some(text("sim://srv-1017")),
            host_image: Some(text("image-2026-10-01-hardened")),
        },
        site: text("site-eu-central-1a"),
        started_at: text("2026-01-01T00:00:00Z"),
        accepted_at: Some(text("2026-01-01T00:00:02Z")),
        deadline: Some(text("2026-01-01T00:10:00Z")),
        attempt: 3,
    }
}

pub fn operation() -> ProviderOperation {
    ProviderOperation {
        operation_id: "act-20177".to_owned(),
        resume_token: r#"{"server":"srv-1017","action":"act-20177","boots":4,"old":null}"#.to_owned(),
    }
}

/// What the service behind the declared calls would say.
pub fn answer(call: &str) -> &'static str {
    match call {
        "action" => r#"{"state":"success"}"#,
        _ => r#"{"boots":5,"created":"2026-01-02T03:04:05Z","state":"running"}"#,
    }
}

/// A port that knows its answers.
pub struct Canned {
    /// Reads are answered by a task of the caller's runtime, as a session does, and not at once.
    pub by_task: bool,
}

#[async_trait::async_trait]
impl Port for Canned {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError> {
        let reply = move || CallReply { status: 200, fields: answer(&request.call).to_owned() };
        if !self.by_task {
            return Ok(reply());
        }
        Ok(tokio::spawn(async move { reply() }).await.expect("the task that answers"))
    }

    async fn perform(&self, _key: String, _request: CallRequest) -> Result<CallOutcome, CallError> {
        Err(CallError::Violation(refused()))
    }

    fn recorded(&self, _key: &str) -> Result<Option<CallOutcome>, Violation> {
        Ok(None)
    }

    fn token(&self, _key: &str) -> Result<String, Violation> {
        Err(refused())
    }

    fn now(&self) -> Result<String, Violation> {
        Ok("2026-01-01T00:00:00Z".to_owned())
    }

    fn log(&self, _line: LogLine) -> Result<(), Violation> {
        Ok(())
    }

    fn seed(&self) -> [u8; 32] {
        [7; 32]
    }
}

fn refused() -> Violation {
    Violation { reason: "Bench".to_owned(), message: "a poll performs nothing".to_owned() }
}

/// One poll through the house's own path, from the owned messages to the owned answer.
pub async fn poll(
    module: &Module,
    request: &OperationRequest,
    operation: &ProviderOperation,
    port: &Arc<Canned>,
) {
    let callback = Callback::Poll {
        request: request.clone(),
        operation: operation.clone(),
        lend: Lend { credentials: true, user_data: false },
    };
    let returned = module.call(callback, port.clone(), soon(Duration::from_secs(30))).await;
    match returned {
        Ok(Returned::Poll(Ok(poll))) if poll.state == PollState::Succeeded => {}
        other => panic!("the poll did not succeed: {other:?}"),
    }
}

/// Polls until the time is over; how long each took.
pub async fn polls(module: &Module, port: &Arc<Canned>, length: Duration) -> Vec<u64> {
    let (request, operation) = (request(), operation());
    let (mut nanos, begun) = (Vec::with_capacity(1 << 16), Instant::now());
    while begun.elapsed() < length {
        let one = Instant::now();
        poll(module, &request, &operation, port).await;
        nanos.push(super::figures::nanos_since(one));
    }
    nanos
}

pub fn soon(length: Duration) -> Timestamp {
    Timestamp::now() + SignedDuration::try_from(length).unwrap_or(SignedDuration::from_secs(1))
}
