//! The support library shown at work: what the other tests rely on is itself tested.

mod bmc;
mod bmc_access;
mod kubectl;
mod modules;
mod proxy;
mod sushy;
