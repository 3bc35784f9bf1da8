//! Canaries ("what must be shown" 6): a cloud that gives back what it was sent, in every form and at every declared place,
//! and afterwards a look at everything that anybody could read.
//!
//! The real daemon at TRACE covers logs, objects, events, metrics, journal and store; the same rooms in this process cover
//! guest memory, and show with a defence turned off that the look can fail.

mod canary;
mod in_process;
mod metrics;
mod objects;
mod plan;
mod real_daemon;
mod rooms;
