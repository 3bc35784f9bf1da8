//! What the tests that cross crates stand on: the servers they talk to, the faults between, the modules they load.
//!
//! * [`tls`]: the CA of one run, and certificates under it; [`client`]: a tiny HTTPS client that trusts it.
//! * [`counterparts`]: programs nobody here wrote (kubectl, emulators of Redfish, EC2 and Hetzner Cloud), installed pinned, on
//!   demand.
//! * [`proxy`]: a recording proxy that loses, cuts, delays and holds what passes; [`bmc`]: a Redfish BMC with bad manners.
//! * [`house`]: the real daemon as a process.
//! * [`modules`]: one nested build of every test module.
//!
//! Nothing here is ever skipped: what a machine lacks is an error that names it. See `docs/testing.md`.

pub mod bmc;
pub mod client;
pub mod counterparts;
pub mod folders;
pub mod house;
pub mod modules;
pub mod proxy;
mod serve;
pub mod tls;
