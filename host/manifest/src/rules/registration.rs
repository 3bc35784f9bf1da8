//! L11: operations, exports and manifest agree.

use crate::error::{Errors, Rule};
use crate::model::*;
use crate::report::Report;

/// Exported interfaces of a module, by their WIT name without package and version.
pub const OPERATIONS: &str = "operations";
pub const CAPACITY: &str = "capacity";
pub const CLUSTER_MODEL: &str = "cluster-model";
pub const CONTROL_PLANE_MACHINES: &str = "control-plane-machines";

const ALLOCATE: &str = "HostAllocate";
const RELEASE: &str = "HostRelease";
const REPLACE: &str = "HostReplace";

pub(super) fn check(m: &Manifest, r: &mut Report) {
    for (kind, operation) in &m.operations {
        let path = format!("operations.{kind}");
        if operation.replay_safe && operation.mode != Mode::Immediate {
            r.error(
                Rule::L11,
                &path,
                "`replay-safe` is about immediate operations; a long-running one has a handle",
            );
        }
        if operation.requires_replace_user_data && kind != REPLACE {
            r.error(Rule::L11, &path, format!("`requires-replace-user-data` belongs to {REPLACE}"));
        }
        if [ALLOCATE, RELEASE].contains(&kind.as_str()) && operation.mode != Mode::LongRunning {
            r.error(Rule::L11, &path, format!("{kind} is long-running"));
        }
    }
    for (one, other) in [(ALLOCATE, RELEASE), (RELEASE, ALLOCATE)] {
        if m.operations.contains_key(one) && !m.operations.contains_key(other) {
            r.error(
                Rule::L11,
                &format!("operations.{one}"),
                format!("{one} needs {other} too: what is made is released"),
            );
        }
    }
}

impl Manifest {
    /// Does it allocate and release hosts?
    pub fn allocates(&self) -> bool {
        self.operations.contains_key(ALLOCATE)
    }

    /// Do the module's exports agree with what the manifest registers? `exports` are interface names without package
    /// and version: `operations`, `capacity`.
    ///
    /// # Errors
    /// Rule L11, without a line: the fault may be the module's.
    pub fn check_exports(&self, exports: &[&str]) -> Result<(), Errors> {
        let mut r = Report::default();
        let has = |name: &str| exports.contains(&name);
        let allocates = self.operations.contains_key(ALLOCATE);
        if has(CAPACITY) && !allocates {
            r.error(
                Rule::L11,
                "",
                format!("the module exports `{CAPACITY}` but registers neither {ALLOCATE} nor {RELEASE}"),
            );
        }
        if allocates && !has(CAPACITY) {
            let path = format!("operations.{ALLOCATE}");
            r.error(
                Rule::L11,
                &path,
                format!("{ALLOCATE} and {RELEASE} need a module that exports `{CAPACITY}`"),
            );
        }
        let others = self.operations.keys().any(|kind| kind != ALLOCATE && kind != RELEASE);
        if has(OPERATIONS) && self.operations.is_empty() {
            r.error(Rule::L11, "operations", "the module exports `operations` but registers none");
        }
        if others && !has(OPERATIONS) {
            r.error(
                Rule::L11,
                "operations",
                "operations are registered but the module does not export `operations`",
            );
        }
        if !exports
            .iter()
            .any(|name| [OPERATIONS, CAPACITY, CLUSTER_MODEL, CONTROL_PLANE_MACHINES].contains(name))
        {
            r.error(Rule::L11, "", "the module exports none of the contract's interfaces");
        }
        r.finish()
    }
}
