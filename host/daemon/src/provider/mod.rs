//! `holdfast provider …`: building, reading, packing and trying modules.

pub mod build;
pub mod inspect;
pub mod pack;
pub mod try_call;
