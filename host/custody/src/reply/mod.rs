//! From the raw answer to declared fields: parsed once, captured first, projected, classified.

pub(crate) mod capture;
pub(crate) mod document;
pub(crate) mod evidence;
pub(crate) mod pages;
pub(crate) mod project;
pub(crate) mod types;
pub(crate) mod verdict;
pub(crate) mod xml;
