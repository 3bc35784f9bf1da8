//! kubectl, a client that nobody here wrote, against the real daemon, the simulated provider and its cloud ("what must be
//! shown" 3). The topics share one daemon; what stops or starts daemons has its own.

mod editing;
mod lifetimes;
mod operations;
mod refusals;
mod tables;
mod world;
