//! The controllers against a real embedded API, with scripted provider modules (one binary: it links much).

mod allocate;
mod allocations;
mod classes;
mod controller;
mod crash;
mod credentials;
mod failures;
mod field_cases;
mod first_boot;
mod immediate;
mod inputs;
mod journal;
mod lease;
mod long_running;
mod order;
mod release;
mod results;
mod running;
mod support;
mod ways_out;
