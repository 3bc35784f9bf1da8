//! No daemon outlives the test process, however that ends: a shell waits at the other end of a pipe.
//! A daemon that a whole test file shares is owned by a static, which nothing drops.

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Reads until the pipe closes, then kills the process and removes its folder.
const WAIT: &str = "read -r _; kill -9 \"$1\" 2>/dev/null; rm -rf -- \"$2\"";

/// Dropping it lets go without doing anything.
pub(super) struct Leash(Child);

impl Leash {
    pub(super) fn tie(process: u32, folder: &Path) -> Result<Leash> {
        let mut command = Command::new("sh");
        command.args(["-c", WAIT, "sh", &process.to_string()]).arg(folder);
        // Of its own group: what ends the tests from the keyboard must not end it first.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Leash(command.spawn().context("`sh` does not start")?))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        // Killed while its pipe is still open, so that it never acts.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
