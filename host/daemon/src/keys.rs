//! The daemon's master key: seals values, keys fingerprints, derives tokens.
//!
//! Kept in `keys/master` of the state directory with mode 0600. Losing it loses the ability to recognise earlier
//! effects by their tokens, so a state directory with a store and without a key is refused.

use anyhow::{Context, bail};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Creates the state directory (0700) where it is missing and refuses one that others can enter.
pub fn state_dir(path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("state-dir {} cannot be created", path.display()))?;
    }
    let meta = std::fs::metadata(path)?;
    if !meta.is_dir() {
        bail!("state-dir {} is no directory", path.display());
    }
    if meta.mode() & 0o077 != 0 {
        bail!("state-dir {} can be entered by others: chmod 700 it", path.display());
    }
    Ok(())
}

/// Reads the master key, or makes it at the first start.
pub fn master(state: &Path, store_exists: bool) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    let folder = state.join("keys");
    let path = folder.join("master");
    if path.exists() {
        return read(&path);
    }
    if store_exists {
        bail!(
            "{} is missing although the store exists: restore it from your backup; a new key would not recognise \
             effects that are under way",
            path.display()
        );
    }
    if !folder.exists() {
        DirBuilder::new().mode(0o700).create(&folder)?;
    }
    let mut key = Zeroizing::new([0u8; 32]);
    SystemRandom::new().fill(&mut key[..]).map_err(|_| anyhow::anyhow!("the system gave no random bytes"))?;
    let partial = folder.join(".master.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(&key[..])?;
    file.sync_all()?;
    std::fs::rename(&partial, &path)?;
    std::fs::File::open(&folder)?.sync_all()?;
    Ok(key)
}

fn read(path: &Path) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    let mut file = std::fs::File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let meta = file.metadata()?;
    if meta.mode() & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 it", path.display());
    }
    if meta.len() != 32 {
        bail!("{} must hold 32 bytes", path.display());
    }
    let mut key = Zeroizing::new([0u8; 32]);
    file.read_exact(&mut key[..])?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_made_once_and_kept() {
        let state = tempfile::tempdir().unwrap();
        let first = master(state.path(), false).unwrap();
        assert_eq!(*first, *master(state.path(), true).unwrap());
        let mode = std::fs::metadata(state.path().join("keys/master")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_lost_key_beside_a_store_is_refused_not_replaced() {
        let state = tempfile::tempdir().unwrap();
        assert!(master(state.path(), true).unwrap_err().to_string().contains("restore it"));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let state = tempfile::tempdir().unwrap();
        master(state.path(), false).unwrap();
        let path = state.path().join("keys/master");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(master(state.path(), true).unwrap_err().to_string().contains("chmod 600"));
    }
}
