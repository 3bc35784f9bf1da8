//! Capacity end to end over the simulated cloud: classes and allocations as a person writes them, the real daemon, the
//! module as it is shipped, and what there is asked of the cloud itself. Everything ends where a person would expect,
//! and says why.

mod canaries;
mod classes;
mod credentials;
mod life;
mod looks;
mod modules;
mod offerings;
mod orphans;
mod world;
