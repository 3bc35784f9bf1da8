//! Cases from the field (docs/field-cases.md): reports of what went wrong elsewhere, and what happens here.
//!
//! `catalogue` holds page and tests together. The others are what no smaller test shows: the real daemon and the
//! simulated provider, each case at a site of its own with a cloud of its own. They wait most of their time, so whichever
//! test comes first runs all of them at once, against one daemon.

mod catalogue;
mod create;
mod manifests;
mod operate;
mod world;

use std::{collections::BTreeMap, sync::OnceLock};

use anyhow::{Result, anyhow};
use tokio::runtime::Runtime;

use world::{Case, Site};

/// Every case is a test of its name.
macro_rules! cases {
    ($($module:ident::$name:ident,)*) => {
        fn all() -> Vec<(&'static str, Case)> {
            vec![$((stringify!($name), (|site: Site| Box::pin($module::$name(site))) as Case),)*]
        }

        $(
            #[test]
            fn $name() -> Result<()> {
                outcome(stringify!($name))
            }
        )*
    };
}

cases! {
    create::a_server_that_is_not_shown_yet_is_waited_for_a06,
    create::a_create_behind_a_gateway_that_timed_out_makes_one_server_d08,
    create::an_interface_that_is_refused_again_and_again_leaks_no_server_and_no_volume_b01,
    create::a_shortage_that_comes_as_an_internal_error_is_one_all_the_same_e09_f02,
    create::a_number_that_was_given_to_a_stranger_is_not_destroyed_a29,
    create::first_boot_data_arrives_byte_for_byte_j09,
    operate::a_state_that_nobody_has_heard_of_is_waited_out_d09,
    operate::a_token_that_is_replaced_in_the_middle_is_used_from_the_next_request_on_d01_c14,
}

fn outcome(name: &str) -> Result<()> {
    static OUTCOMES: OnceLock<BTreeMap<&str, Result<(), String>>> = OnceLock::new();
    let run = || Runtime::new().expect("a runtime").block_on(world::run(all()));
    OUTCOMES.get_or_init(run)[name].clone().map_err(|failure| anyhow!(failure))
}
