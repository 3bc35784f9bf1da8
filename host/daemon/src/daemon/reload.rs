//! Following the configuration and the files it names: what modules may do is judged anew when one of them changes.
//!
//! What cannot be applied is logged once and tried again each turn. Listeners, folders and limits need a restart.

use super::overlay::Overlays;
use crate::config::{self, Config};
use crate::policies;
use anyhow::Context;
use holdfast_runtime::{Policies, Registry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Editors replace files in several steps; a poll is as quick as an operator needs and cannot lose an event.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What tells one state of a file from another: device, inode, length, and times of content and of change, in
/// nanoseconds. `None`: it cannot be looked at.
type Stamp = Option<(u64, u64, u64, i128, i128)>;

/// Knows which state of the files is in force.
pub struct Follower {
    path: PathBuf,
    /// What the configuration named when it was last read.
    files: Vec<PathBuf>,
    /// The state that was applied as a whole; `None` after a failure, so that the next turn tries again.
    applied: Option<Vec<Stamp>>,
    /// The policies last set, as text: a turn that changes nothing about them has no module judged anew.
    judged: Option<String>,
    /// The last error that was logged.
    told: Option<String>,
}

/// What a turn came to.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Same,
    Applied,
    /// Not applied, for a reason that was not told before.
    Failed(String),
    /// Not applied, for the same reason as in the turn before.
    StillFailing,
}

impl Follower {
    /// Takes the present state as applied: to be made before the files are read.
    pub fn new(path: PathBuf, config: &Config) -> Follower {
        let files = config::files(config);
        let applied = Some(stamps(&path, &files));
        Follower { path, files, applied, judged: None, told: None }
    }

    /// Follows until `stopped`.
    pub async fn run(
        mut self,
        registry: Registry,
        overlays: Arc<Overlays>,
        mut stopped: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            match self.turn(&overlays, |policies| registry.set_policies(policies)) {
                Turn::Same | Turn::StillFailing => {}
                Turn::Applied => tracing::info!("the configuration was read again"),
                Turn::Failed(why) => tracing::error!("the changed configuration is not applied: {why}"),
            }
        }
    }

    fn turn(&mut self, overlays: &Overlays, set_policies: impl FnOnce(Policies)) -> Turn {
        if self.applied.as_ref() == Some(&stamps(&self.path, &self.files)) {
            return Turn::Same;
        }
        match self.apply(overlays, set_policies) {
            Ok(now) => {
                self.applied = Some(now);
                self.told = None;
                Turn::Applied
            }
            Err(error) => {
                self.applied = None;
                let why = format!("{error:#}");
                if self.told.replace(why.clone()).as_ref() == Some(&why) {
                    return Turn::StillFailing;
                }
                Turn::Failed(why)
            }
        }
    }

    /// Policies come first: a grant that was withdrawn must not outlive a secret that cannot be read. Returns the
    /// stamps of before the reading, so that what changes meanwhile is seen in the next turn.
    fn apply(
        &mut self,
        overlays: &Overlays,
        set_policies: impl FnOnce(Policies),
    ) -> anyhow::Result<Vec<Stamp>> {
        let own = stamp(&self.path);
        let config = config::load(&self.path)?;
        self.files = config::files(&config);
        let mut now = stamps(&self.path, &self.files);
        now[0] = own;
        let policies = policies::policies(&config)?;
        let judged = format!("{policies:?}");
        if self.judged.as_ref() != Some(&judged) {
            set_policies(policies);
            self.judged = Some(judged);
        }
        overlays.reload(&config).context("secrets")?;
        Ok(now)
    }
}

/// The configuration's own stamp, then those of the files.
fn stamps(path: &Path, files: &[PathBuf]) -> Vec<Stamp> {
    std::iter::once(path).chain(files.iter().map(PathBuf::as_path)).map(stamp).collect()
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (content, change) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    Some((meta.dev(), meta.ino(), meta.len(), content, change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_controllers::rooms::CredentialOverlay as _;
    use std::os::unix::fs::PermissionsExt as _;

    struct Etc {
        folder: tempfile::TempDir,
    }

    impl Etc {
        /// A configuration that names a secret file and a CA file, and both of them.
        fn new() -> (Etc, Follower, Overlays) {
            let etc = Etc { folder: tempfile::tempdir().unwrap() };
            etc.put("token", "one");
            etc.put("ca.pem", "authority one");
            etc.configure("p", "token");
            let path = etc.folder.path().join("holdfast.toml");
            let config = config::load(&path).unwrap();
            let follower = Follower::new(path, &config);
            let overlays = Overlays::new(&config).unwrap();
            (etc, follower, overlays)
        }

        /// Replaces the file, as an editor does: another inode, whatever the clock's grain.
        fn put(&self, name: &str, text: &str) {
            let path = self.folder.path().join(name);
            let fresh = self.folder.path().join("fresh");
            std::fs::write(&fresh, text).unwrap();
            std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(fresh, path).unwrap();
        }

        fn configure(&self, provider: &str, secret: &str) {
            self.put(
                "holdfast.toml",
                &format!(
                    "state-dir = 's'\nproviders-dir = 'p'\n[[provider]]\nname = '{provider}'\n\
                     [[provider.endpoint]]\nname = 'api'\norigin = 'https://cloud.example'\nca = 'ca.pem'\n\
                     [[secret]]\nprovider = 'p'\nsite = 's'\nvalues = {{ token = {{ file = '{secret}' }} }}\n"
                ),
            );
        }
    }

    fn token(overlays: &Overlays) -> Vec<u8> {
        overlays.by_site("p", "s").unwrap().values["token"].to_vec()
    }

    #[test]
    fn a_secret_file_and_a_ca_file_that_change_are_read_again() {
        let (etc, mut follower, overlays) = Etc::new();
        assert_eq!(follower.turn(&overlays, |_| panic!("nothing changed")), Turn::Same);
        etc.put("token", "two");
        assert_eq!(follower.turn(&overlays, |_| {}), Turn::Applied);
        assert_eq!(token(&overlays), b"two");
        etc.put("ca.pem", "authority two");
        let mut ca = None;
        let turn = follower
            .turn(&overlays, |policies| ca = policies.providers["p"].grants.bindings[0].ca_pem.clone());
        assert_eq!((turn, ca.as_deref()), (Turn::Applied, Some("authority two")));
        assert_eq!(follower.turn(&overlays, |_| panic!("nothing changed")), Turn::Same);
    }

    #[test]
    fn policies_are_in_force_although_a_secret_cannot_be_read_and_the_file_is_tried_until_all_is_applied() {
        let (etc, mut follower, overlays) = Etc::new();
        etc.configure("other", "absent");
        let mut names = Vec::new();
        let turn = follower.turn(&overlays, |policies| names.extend(policies.providers.into_keys()));
        assert!(matches!(&turn, Turn::Failed(why) if why.contains("absent cannot be opened")), "{turn:?}");
        assert_eq!(names, ["other"], "what was withdrawn is withdrawn");
        assert_eq!(token(&overlays), b"one");
        let again = follower.turn(&overlays, |_| panic!("the policies are in force already"));
        assert_eq!(again, Turn::StillFailing, "the same error is told once");
        etc.configure("other", "gone");
        assert!(matches!(follower.turn(&overlays, |_| {}), Turn::Failed(why) if why.contains("gone")));
        etc.put("gone", "three");
        assert_eq!(follower.turn(&overlays, |_| {}), Turn::Applied);
        assert_eq!(token(&overlays), b"three");
        assert_eq!(follower.turn(&overlays, |_| panic!("nothing changed")), Turn::Same);
    }

    #[test]
    fn a_file_that_does_not_parse_changes_nothing() {
        let (etc, mut follower, overlays) = Etc::new();
        etc.put("holdfast.toml", "state-dir = ");
        assert!(matches!(follower.turn(&overlays, |_| panic!("no policy was read")), Turn::Failed(_)));
        assert_eq!(token(&overlays), b"one");
    }
}
