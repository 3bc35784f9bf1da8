//! `provider.toml`: what a provider module declares about itself, read without running it.
//!
//! [`Manifest::parse`] turns the text into a checked [`Manifest`]: every rule of the grammar (L1 to L11) holds for a
//! value of this type, so that the host never has to ask again. This crate is pure: no I/O, no clock, no secrets.

#![forbid(unsafe_code)]

pub mod model;

pub use model::*;
