//! `provider.toml`: what a provider module declares about itself, read without running it.
//!
//! [`Manifest::parse`] turns the text into a checked [`Manifest`]: every rule of the grammar (L1 to L11) holds for a
//! value of this type, so that the host never has to ask again. This crate is pure: no I/O, no clock, no secrets.

#![forbid(unsafe_code)]

mod answers;
mod diff;
mod digest;
mod error;
mod lookups;
mod meaning;
pub mod model;
mod parse;
mod pattern;
mod place;
mod printable;
mod report;
mod rules;
mod table;
mod types;

pub use answers::Class;
pub use error::{Errors, Problem, Rule, Syntax};
pub use model::*;
pub use parse::CONTRACT;
pub use pattern::glob_matches;
pub use printable::shown as printable;
pub use rules::{
    CAPACITY, CLUSTER_MODEL, CONTROL_PLANE_MACHINES, GENERIC_WORDS, Grant, NEVER_READ, NEVER_READ_LAST,
    OPERATIONS,
};
pub use table::is_name;
pub use types::{ERROR_CODES, MAX_SEALED, is_id, is_word};

/// Field of a list's items in which an item shows whose it is.
pub const TOKEN_FIELD: &str = "token";

/// Custom section of a module that holds its manifest, as UTF-8 TOML.
pub const SECTION: &str = "holdfast:manifest";

/// Longest manifest, in bytes.
pub const MAX_SECTION: usize = 256 * 1024;
