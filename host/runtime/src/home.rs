//! A port whose work happens in the caller's runtime, wherever the guest runs.
//!
//! Exchanges, their timers and the tasks that settle them must not share threads with guests that spin.

use holdfast_effects::{CallError, CallOutcome, CallReply, CallRequest, LogLine, Port, Violation};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use tokio::runtime::Handle;

pub(crate) struct AtHome {
    pub(crate) port: Arc<dyn Port>,
    pub(crate) home: Handle,
}

impl AtHome {
    /// Whatever the future spawns or registers while it is polled belongs to the caller's runtime.
    async fn at_home<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _home = self.home.enter();
            future.as_mut().poll(context)
        })
        .await
    }
}

#[async_trait::async_trait]
impl Port for AtHome {
    async fn read(&self, request: CallRequest) -> Result<CallReply, CallError> {
        self.at_home(self.port.read(request)).await
    }

    async fn perform(&self, key: String, request: CallRequest) -> Result<CallOutcome, CallError> {
        self.at_home(self.port.perform(key, request)).await
    }

    fn recorded(&self, key: &str) -> Result<Option<CallOutcome>, Violation> {
        self.port.recorded(key)
    }

    fn token(&self, key: &str) -> Result<String, Violation> {
        self.port.token(key)
    }

    fn now(&self) -> Result<String, Violation> {
        self.port.now()
    }

    fn log(&self, line: LogLine) -> Result<(), Violation> {
        let _home = self.home.enter();
        self.port.log(line)
    }

    fn seed(&self) -> [u8; 32] {
        self.port.seed()
    }
}
