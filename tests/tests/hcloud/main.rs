//! The provider `hcloud` end to end: the real daemon, the module as it is shipped, and the Hetzner Cloud emulator, asked by
//! the official client.

mod doubt;
mod life;
mod world;
