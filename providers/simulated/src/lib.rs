//! The provider of the simulated cloud: each operation kind in as few lines as it takes.
//!
//! What may be sent stands in `provider.toml`. The code decides what to do next, and says success only once the cloud
//! has been seen in the wanted state (R2.34, R2.36).

use holdfast_guest_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;

provider!("provider.toml", Simulated);

struct Simulated;

/// The cloud's actions take moments.
const SOON: Duration = Duration::from_secs(1);

/// What a poll needs to know of the begin.
#[derive(Serialize, Deserialize)]
struct Begun {
    server: String,
    /// Unknown where a person settled the effect: nobody has seen the reply then.
    action: Option<String>,
    /// Boots before a reset: more of them prove that it happened.
    boots: i64,
    /// Identity of the machine when a replacement began: poll names it for cleanup, however often it is asked and
    /// whatever the machine is called by then (R2.9).
    old: Option<String>,
}

impl Operations for Simulated {
    /// `HostPowerOff`, immediate and replay-safe: repeated until the server is seen off.
    fn execute(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        _: Option<UserData<'_>>,
    ) -> Result<OperationResult, Error> {
        let credentials = credentials.required()?;
        let id = calls::ProviderId::of(&request.machine)?.server;
        // Seen off, a power-off whose answer was lost is still in doubt: asked again, it is settled without effect.
        if is_done("off") == is_sent("off") && calls::server(credentials, &id)?.state == "off" {
            return Ok(OperationResult::unchanged());
        }
        calls::power_off("off", credentials, &id)?.done()?;
        match calls::server(credentials, &id)?.state.as_str() {
            "off" => Ok(OperationResult::unchanged()),
            state => Err(Error::wait("StillOn", format!("the server is {state}"), SOON)),
        }
    }

    fn begin(
        request: OperationRequest,
        credentials: Option<Credentials<'_>>,
        user_data: Option<UserData<'_>>,
    ) -> Result<BeginResult, Error> {
        let credentials = credentials.required()?;
        let server = calls::ProviderId::of(&request.machine)?.server;
        let begun = match request.kind.as_str() {
            "HostPowerOn" => {
                let action = calls::power_on("on", credentials, &server)?.done()?.action;
                Begun { server, action: Some(action), boots: 0, old: None }
            }
            "HostReboot" => {
                // Once the reset is sent, the count from before it can no longer be read: `recorded` keeps a repeat
                // of this callback from taking the count after it for the one before.
                let boots = if is_sent("reset") { 0 } else { calls::server(credentials, &server)?.boots };
                let action = calls::reset("reset", credentials, &server)?.done()?.action;
                Begun { server, action, boots, old: None }
            }
            "HostReplace" => {
                let data = user_data.ok_or_else(|| {
                    Error::invalid_input("UserDataMissing", "a replacement needs first-boot data")
                })?;
                let server = calls::replace("replace", credentials, data, &server)?.done()?.id;
                Begun { server, action: None, boots: 0, old: request.machine.provider_id.clone() }
            }
            kind => return Err(Error::unsupported(kind)),
        };
        let handle = begun.action.as_ref().unwrap_or(&begun.server).clone();
        info!("accepted {}", request.kind; server = begun.server, handle = handle);
        Ok(BeginResult::accepted(handle, &begun)?.poll_after(SOON))
    }

    fn poll(
        request: OperationRequest,
        operation: ProviderOperation,
        credentials: Option<Credentials<'_>>,
    ) -> Result<Poll, Error> {
        let credentials = credentials.required()?;
        let begun: Begun = ResumeToken::decode(&operation.resume_token)?;
        if let Some(action) = &begun.action {
            let action = calls::action(credentials, action)?;
            if action.state == "error" {
                return Ok(Poll::failed("ActionFailed", "the cloud could not carry out the action"));
            }
            if action.state != "success" {
                return Ok(Poll::in_progress("the action is running").after(SOON));
            }
        }
        let seen = calls::server(credentials, &begun.server)?;
        if seen.state != "running" || (request.kind == "HostReboot" && seen.boots <= begun.boots) {
            return Ok(Poll::in_progress(format!("the server is {}", seen.state)).after(SOON));
        }
        Ok(Poll::succeeded(match request.kind.as_str() {
            "HostReplace" => {
                OperationResult::replaced(calls::ProviderId { server: begun.server }.text(), begun.old)
            }
            _ => OperationResult::unchanged(),
        }))
    }

    /// Deletes the server that was replaced; one that is gone is a success.
    fn cleanup(
        _: OperationRequest,
        result: OperationResult,
        credentials: Option<Credentials<'_>>,
    ) -> Result<(), Error> {
        let Some(old) = result.cleanup_provider_id else { return Ok(()) };
        let id = calls::ProviderId::parse(&old)
            .ok_or_else(|| {
                Error::invalid_input("ProviderIDInvalid", "the old provider ID is none of this cloud")
            })?
            .server;
        calls::delete("delete-old", credentials.required()?, &id)?.done()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_guest_sdk::testing::{self, Fake};
    use serde_json::json;

    fn request(kind: &str) -> OperationRequest {
        testing::request(kind, testing::machine("sim://srv-1"))
    }

    fn state(state: &str, boots: i64) -> serde_json::Value {
        json!({ "state": state, "boots": boots })
    }

    #[test]
    fn power_off_succeeds_only_once_the_server_is_seen_off_r2_34() {
        let cloud = Fake::new()
            .reply("server", 200, state("running", 1))
            .reply("power-off", 201, json!({ "action": "act-1" }))
            .reply("server", 200, state("stopping", 1))
            .always("server", 200, state("off", 1));
        cloud.run(|| {
            let first = Simulated::execute(request("HostPowerOff"), testing::credentials(), None);
            assert!(matches!(first, Err(Error::Transient(_))));
            Simulated::execute(request("HostPowerOff"), testing::credentials(), None).unwrap();
        });
        assert_eq!(cloud.names().iter().filter(|name| *name == "power-off").count(), 1);
    }

    #[test]
    fn a_reboot_is_done_when_the_server_has_booted_once_more_r2_36() {
        let cloud = Fake::new()
            .reply("server", 200, state("running", 4))
            .reply("reset", 201, json!({ "action": "act-1" }))
            .always("action", 200, json!({ "state": "success" }))
            .reply("server", 200, state("running", 4))
            .reply("server", 200, state("running", 5));
        cloud.run(|| {
            let begun = Simulated::begin(request("HostReboot"), testing::credentials(), None).unwrap();
            let poll = || {
                Simulated::poll(request("HostReboot"), begun.operation.clone(), testing::credentials())
                    .unwrap()
            };
            assert!(matches!(poll().state, State::InProgress));
            assert!(matches!(poll().state, State::Succeeded));
        });
    }

    #[test]
    fn a_power_off_in_doubt_is_asked_for_again_although_the_server_is_seen_off_r2_11() {
        let cloud = Fake::new()
            .reply("server", 200, state("running", 1))
            .in_doubt("power-off", None)
            .reply("power-off", 201, json!({ "action": "act-1" }))
            .always("server", 200, state("off", 1));
        cloud.run(|| {
            let first = Simulated::execute(request("HostPowerOff"), testing::credentials(), None);
            assert!(matches!(first, Err(Error::Transient(_))));
            Simulated::execute(request("HostPowerOff"), testing::credentials(), None).unwrap();
        });
        assert_eq!(cloud.names().iter().filter(|name| *name == "power-off").count(), 2);
    }

    #[test]
    fn a_reset_in_doubt_is_not_repeated_by_the_provider() {
        let cloud = Fake::new().always("server", 200, state("running", 4)).in_doubt("reset", None);
        cloud.run(|| {
            let begun = Simulated::begin(request("HostReboot"), testing::credentials(), None);
            assert!(matches!(begun, Err(Error::Transient(_))));
        });
    }

    #[test]
    fn a_replacement_names_the_new_server_and_the_old_one_for_cleanup() {
        let cloud = Fake::new()
            .reply("replace", 201, json!({ "id": "srv-2" }))
            .always("server", 200, state("running", 1))
            .reply("delete", 200, json!({}));
        cloud.run(|| {
            let data = Some(testing::user_data());
            let begun = Simulated::begin(request("HostReplace"), testing::credentials(), data).unwrap();
            let poll = |request| {
                let poll = Simulated::poll(request, begun.operation.clone(), testing::credentials()).unwrap();
                poll.result.unwrap()
            };
            let result = poll(request("HostReplace"));
            let renamed = poll(testing::request("HostReplace", testing::machine("sim://srv-2")));
            assert_eq!(
                renamed.cleanup_provider_id, result.cleanup_provider_id,
                "the same answer later (R2.9)"
            );
            assert_eq!(result.provider_id.as_deref(), Some("sim://srv-2"));
            assert_eq!(result.cleanup_provider_id.as_deref(), Some("sim://srv-1"));
            Simulated::cleanup(request("HostReplace"), result, testing::credentials()).unwrap();
        });
        let calls = cloud.calls();
        assert_eq!(calls.last().unwrap().args, json!({ "id": "srv-1" }));
        assert_eq!(calls[0].user_data, ["user-data"]);
    }
}
