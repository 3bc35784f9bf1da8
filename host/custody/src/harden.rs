//! What the process does about itself: no core files, not dumpable (attack 66).

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// Forbids core files, and other processes of the same user to read this one's memory. Call it first in `main`.
pub fn harden_process() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardened_process_leaves_no_core_attack_66() {
        harden_process().unwrap();
        assert_eq!(rustix::process::getrlimit(Resource::Core).current, Some(0));
        assert_eq!(rustix::process::dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
