//! Hostile modules, one each: every one is refused or stopped with a sentence, and the daemon serves on.
//!
//! One daemon serves all tests of this file, as one daemon has to bear all modules. After each attack an operation of
//! the simulated provider completes beside it, `/readyz` answers, memory is bounded and no secret has been told.

mod attack;
mod code;
mod files;
mod folder;
mod hosts;
mod world;
