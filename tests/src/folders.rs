//! Where things are: the checkout, the target folder, and locks that hold between processes.

use std::{
    env,
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};

/// The root of the checkout.
pub fn checkout() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests crate lies in the checkout").to_owned()
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, or `target` in the checkout.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => checkout().join(folder),
        None => checkout().join("target"),
    }
}

/// Holds an exclusive lock between processes until dropped; blocks while another holds it, and says so once.
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it is what unlocks")] File);

impl Lock {
    pub fn take(path: &Path, for_what: &str) -> Result<Lock> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let file = File::create(path).with_context(|| format!("opening the lock {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress(&format!("waiting for another process: {for_what}"));
                file.lock().with_context(|| format!("locking {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        Ok(Lock(file))
    }
}

/// A line on the real standard error, past the capturing of the test harness: long work must be seen.
pub(crate) fn progress(line: &str) {
    // Nobody reads it: then nobody misses it.
    let _ = writeln!(std::io::stderr(), "holdfast-tests: {line}");
}

/// The first 16 hexadecimal digits of the SHA-256 of the parts, each with its length before it.
pub(crate) fn short_hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut all = Vec::new();
    for part in parts {
        all.extend((part.len() as u64).to_le_bytes());
        all.extend(part);
    }
    HEXLOWER.encode(&digest(&SHA256, &all).as_ref()[..8])
}
