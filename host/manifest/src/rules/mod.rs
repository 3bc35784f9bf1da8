//! The loader rules between tables, one topic a file. They run on a well-formed manifest, so that none of them has to
//! guess what a broken table meant.

mod answers;
mod calls;
mod graph;
mod incarnation;
mod ownership;
mod places;
mod readback;
mod registration;
mod sealed;
mod signed;
mod targets;
mod used;
mod words;
mod xml;

pub use answers::GENERIC_WORDS;
pub use readback::{NEVER_READ, NEVER_READ_LAST};
pub use registration::{CAPACITY, CLUSTER_MODEL, CONTROL_PLANE_MACHINES, OPERATIONS};

use crate::error::Rule;
use crate::model::Manifest;
use crate::report::Report;

/// A call that the loader accepts only with the operator's word, given by the call's name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// Name of the call.
    pub call: String,
    /// One sentence without a full stop: what is risky about it.
    pub why: String,
    pub rule: Rule,
}

pub(crate) fn check(m: &Manifest, r: &mut Report) {
    graph::check(m, r);
    if !r.is_clean() {
        // Every other rule follows names from call to call.
        return;
    }
    used::check(m, r);
    places::check(m, r);
    answers::check(m, r);
    targets::check(m, r);
    calls::check(m, r);
    sealed::check(m, r);
    signed::check(m, r);
    xml::check(m, r);
    readback::check(m, r);
    ownership::check(m, r);
    incarnation::check(m, r);
    registration::check(m, r);
}

impl Manifest {
    /// What an operator must grant by call name before this manifest may be served (L6, L9, query placement).
    pub fn needs_grants(&self) -> Vec<Grant> {
        let mut grants = calls::grants(self);
        grants.extend(readback::grants(self));
        grants.extend(answers::grants(self));
        grants.sort();
        grants.dedup();
        grants
    }
}
