//! The allocation controller: a claim becomes a Machine with a host and is released again, with one host made, nothing
//! left behind and nothing foreign touched (2(b).7, 2(e) 23, R2.23 to R2.28).

mod crash;
mod credentials;
mod ends;
mod flow;
mod machines;
mod names;
mod orphan_releases;
mod orphans;
mod releases;
mod trouble;
mod whole;
