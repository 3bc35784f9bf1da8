//! What the benches share: figures as ratios of one run, the job that is timed, the peer beside it.
#![allow(dead_code, reason = "each bench uses its own part")]

pub mod figures;
pub mod job;
pub mod memory;
pub mod peer;
pub mod process;
pub mod rooms;
pub mod spinner;
