//! Power operations with the real daemon and the redfish provider module: against the sushy-tools emulator, which nobody
//! here wrote, and against a small BMC with the manners that the emulator lacks.
//!
//! What happened is never taken from the daemon's word: the emulator and the BMC are asked themselves, and a recording
//! proxy before them counts what reached them.

mod bmc;
mod emulator;
mod life;
mod refusals;
mod world;
