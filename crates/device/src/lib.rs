//! A device of a server: one target, or the metadata service.
//!
//! A [`Device`] divides its time among jobs by a scheduler of `weir-fairshare`, emulates another speed where it is told
//! to, and notes what jobs want of it. [`Rates`] tell what its requests achieve, [`Load`] how busy it is, and [`Health`] whether that is what is
//! expected. Time is an argument everywhere; nothing here reads a clock or moves bytes, so that a simulator runs the
//! same device as a server.
#![forbid(unsafe_code)]

mod device;
mod health;
mod load;
mod rates;
mod usage;

pub use device::{Device, Work};
pub use health::{Health, Peers, Usual};
pub use load::Load;
pub use rates::{Rates, UnderWay};
