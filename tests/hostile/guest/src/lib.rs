//! A guest that means harm. The parameter `attack` of an operation says how; each attack must end in a refusal.
//!
//! Raw bindings, without the SDK: what the SDK's types make impossible is what is tried here.

mod ask;
mod attacks;

wit_bindgen::generate!({ path: "../../../wit", world: "operations-provider", generate_all });

use exports::holdfast::provider::operations::{
    BeginResult, Credentials, Error, Guest, OperationRequest, OperationResult, PollResult, ProviderOperation,
    UserData,
};

struct Hostile;

export!(Hostile);

impl Guest for Hostile {
    fn execute(
        request: OperationRequest,
        credentials: Option<&Credentials>,
        _: Option<&UserData>,
    ) -> Result<OperationResult, Error> {
        attacks::execute(&request, credentials)
    }

    fn begin(
        request: OperationRequest,
        credentials: Option<&Credentials>,
        _: Option<&UserData>,
    ) -> Result<BeginResult, Error> {
        attacks::begin(&request, credentials)
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<&Credentials>,
    ) -> Result<PollResult, Error> {
        attacks::poll(&request, &operation, credentials)
    }

    fn cancel(_: OperationRequest, _: ProviderOperation, _: Option<&Credentials>) -> Result<(), Error> {
        Ok(())
    }

    fn cleanup(_: OperationRequest, _: OperationResult, _: Option<&Credentials>) -> Result<(), Error> {
        Ok(())
    }
}
