//! Attacks of the catalogue against the whole of custody.
