//! Houses: one that is set up once and starts from the same state as often as wanted, and one that just runs.

use anyhow::{Context, Result};
use holdfast_api::MachineOperation;
use holdfast_tests::house::{Grant, House, until};
use holdfast_tests::modules;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cases::World;

const PATIENCE: Duration = Duration::from_secs(60);

fn house<W: World>(world: &W) -> Result<(House, Vec<u8>)> {
    let module = fs::read(modules::build()?.provider(W::PROVIDER)?)?;
    let manifest = holdfast_runtime::inspect(&module).context("reading the module's manifest")?.manifest;
    let mut house = House::new()?;
    house.grant(world.grant(Grant::approving(&manifest))).log_filter("info");
    Ok((house, module))
}

/// A daemon that runs, with its secrets and without machines.
pub async fn running<W: World>(world: &W) -> Result<House> {
    let (mut house, module) = house(world)?;
    house.drop_in("provider.wasm", &module)?;
    house.start().await?;
    world.secrets(&house.client()?).await?;
    Ok(house)
}

/// A house that does not run. Its operations wait for their provider, whose module is there at the next start: from
/// then on all durable writes are the daemon's own.
pub struct Prepared {
    pub house: House,
    pristine: PathBuf,
}

impl Prepared {
    pub async fn new<W: World>(world: &mut W) -> Result<Prepared> {
        let (mut house, module) = house(world)?;
        house.start().await?;
        let client = house.client()?;
        world.secrets(&client).await?;
        world.machines(&client).await?;
        for case in world.cases() {
            case.begin(&client).await?;
        }
        for case in world.cases() {
            until(&client, &case.name, PATIENCE, |operation: &MachineOperation| {
                let waiting = operation.status.as_ref().and_then(|status| status.waiting.as_ref());
                waiting.is_some_and(|waiting| waiting.reason == "ProviderNotRegistered")
            })
            .await?;
        }
        house.stop().await?;
        house.drop_in("provider.wasm", &module)?;
        let pristine = house.folder().join("pristine");
        copy(&house.state_dir(), &pristine)?;
        Ok(Prepared { house, pristine })
    }

    /// The state as it was set up.
    pub fn restore(&self) -> Result<()> {
        fs::remove_dir_all(self.house.state_dir())?;
        copy(&self.pristine, &self.house.state_dir())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
