//! A port that leads nowhere, for callbacks that must be pure (R2.24): calls, log, clock and random numbers all end the
//! guest. The comparison of two runs is the second half of the rule.

use crate::error::CallEnd;
use holdfast_effects::{
    CallError, CallOutcome, CallReply, CallRequest, Callback, LogLine, Port, Returned, Violation,
};

/// Must this callback reach nothing?
pub(crate) fn is_pure(callback: &Callback) -> bool {
    matches!(callback, Callback::PlanAllocation { .. })
}

/// Two runs of one pure callback in two fresh instances: the same answer, or none.
pub(crate) fn agreed(first: Returned, second: &Returned) -> Result<Returned, CallEnd> {
    if first == *second {
        return Ok(first);
    }
    Err(CallEnd::Violation(Violation {
        reason: "ImpureCallback".to_owned(),
        message: "the plan was refused: two runs with the same request gave different answers; planning must be pure \
                  and deterministic (R2.24)"
            .to_owned(),
    }))
}

pub(crate) struct Nowhere;

fn refused(what: &str) -> Violation {
    Violation {
        reason: "PureCallback".to_owned(),
        message: format!(
            "`{what}` was refused: this callback must be pure and reaches nothing, not even clock, log or random \
             numbers (R2.24)"
        ),
    }
}

#[async_trait::async_trait]
impl Port for Nowhere {
    async fn read(&self, _request: CallRequest) -> Result<CallReply, CallError> {
        Err(refused("read").into())
    }

    async fn perform(&self, _key: String, _request: CallRequest) -> Result<CallOutcome, CallError> {
        Err(refused("perform").into())
    }

    fn recorded(&self, _key: &str) -> Result<Option<CallOutcome>, Violation> {
        Err(refused("recorded"))
    }

    fn token(&self, _key: &str) -> Result<String, Violation> {
        Err(refused("token"))
    }

    fn now(&self) -> Result<String, Violation> {
        Err(refused("now"))
    }

    fn log(&self, _line: LogLine) -> Result<(), Violation> {
        Err(refused("log"))
    }

    /// Nothing is random without a clock; the state asks for the clock first.
    fn seed(&self) -> [u8; 32] {
        [0; 32]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_effects::Plan;

    fn plan(id: &str) -> Returned {
        Returned::PlanAllocation(Ok(Plan { provider_id: id.to_owned(), host_image: String::new() }))
    }

    #[test]
    fn a_plan_that_differs_between_two_runs_is_refused_r2_24() {
        assert_eq!(agreed(plan("a"), &plan("a")), Ok(plan("a")));
        let end = agreed(plan("a"), &plan("b")).unwrap_err();
        assert!(matches!(&end, CallEnd::Violation(v) if v.reason == "ImpureCallback"), "{end:?}");
        assert!(end.to_string().contains("R2.24"), "{end}");
    }
}
