//! Power operations with the real daemon and the redfish provider module: against the sushy-tools emulator, which nobody
//! here wrote, and against a small BMC with the manners that the emulator lacks.
//!
//! What happened is never taken from the daemon's word: the emulator and the BMC are asked themselves, and a recording
//! proxy before them counts what reached them.

mod bmc;
mod emulator;
mod life;
mod refusals;
mod sessions;
mod world;

use std::{collections::BTreeMap, sync::OnceLock};

use anyhow::{Result, anyhow};
use futures::future::BoxFuture;
use tokio::runtime::Runtime;

/// Every scenario is a test of its name. They wait most of their time (for power changes of up to 11 s, polls, backoff
/// from 5 s on), so whichever test comes first runs all of them at once, against one daemon.
macro_rules! scenarios {
    ($($module:ident::$name:ident,)*) => {
        fn all() -> Vec<(&'static str, BoxFuture<'static, Result<()>>)> {
            vec![$((stringify!($name), Box::pin($module::$name())),)*]
        }

        $(
            #[test]
            fn $name() -> Result<()> {
                outcome(stringify!($name))
            }
        )*
    };
}

scenarios! {
    emulator::off_on_and_reboot_of_many_systems_at_once_are_complete_once_the_emulator_itself_says_so_r2_34,
    emulator::a_system_that_the_service_does_not_know_is_not_found_and_fails_for_good,
    emulator::a_wrong_password_is_tried_once_per_step_by_all_operations_together_until_it_is_mended,
    emulator::operations_outlive_an_emulator_that_is_killed_under_them_and_comes_back,
    bmc::a_write_carries_the_tag_that_was_read_and_after_a_conflict_the_newer_one_n01,
    bmc::a_power_change_whose_answer_was_lost_is_asked_again_and_happens_once_r2_33,
    bmc::a_change_in_the_background_is_followed_by_its_monitor_and_judged_by_what_is_observed_n09,
    bmc::the_action_is_sent_where_the_service_says_that_it_is,
    bmc::a_power_on_that_is_refused_for_a_while_after_power_off_is_asked_again_n06,
    bmc::a_restart_whose_answer_was_lost_is_never_repeated_and_waits_for_a_person_r2_11,
    bmc::where_on_is_not_offered_force_on_stands_in_and_where_nothing_is_listed_on_is_sent_n03,
    refusals::a_service_without_graceful_shutdown_is_refused_and_forced_only_when_asked_to_r2_35,
    refusals::a_soft_off_that_is_ignored_is_told_and_deadline_and_cancel_end_it_unforced_n16,
    life::a_module_waits_for_approval_with_its_operations_and_serves_once_the_config_has_the_line,
    sessions::all_operations_at_a_bmc_share_one_session_in_one_of_its_slots_n08,
    sessions::a_login_with_a_wrong_password_is_tried_once_per_step_and_the_account_is_not_locked,
    life::a_module_file_replaced_under_running_operations_ends_them_well_and_no_session_is_left_n08,
}

fn outcome(name: &str) -> Result<()> {
    static OUTCOMES: OnceLock<BTreeMap<&str, Result<(), String>>> = OnceLock::new();
    let outcomes = OUTCOMES.get_or_init(|| Runtime::new().expect("a runtime").block_on(run_all()));
    outcomes[name].clone().map_err(|failure| anyhow!(failure))
}

/// Runs all to their ends, also when some fail: what they have started ends with them.
async fn run_all() -> BTreeMap<&'static str, Result<(), String>> {
    let running: Vec<_> = all().into_iter().map(|(name, scenario)| (name, tokio::spawn(scenario))).collect();
    let mut outcomes = BTreeMap::new();
    for (name, scenario) in running {
        let outcome = match scenario.await {
            Ok(outcome) => outcome.map_err(|error| format!("{error:#}")),
            Err(panic) => Err(panicked(panic)),
        };
        outcomes.insert(name, outcome);
    }
    outcomes
}

fn panicked(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the scenario was aborted".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "the scenario panicked".to_owned())
}
