//! The placement of files as they are made: the part of a home server that chooses their targets.
//!
//! A [`Placer`] knows the targets of the store by their last [`Figures`], counts the bytes that it placed since, avoids
//! targets whose first bytes are late, and answers each new file with a layout and a [`Record`] of the reasons, or with
//! a [`Refusal`]. Files are plain numbers here and moments are seconds, so that a simulator places as a server does.

mod awaited;
mod cluster;
mod company;
mod detour;
mod own;
mod placer;
mod record;
mod refusal;
mod unheard;

pub use cluster::{Figures, Presence};
pub use own::AllocatorMaker;
pub use placer::{each_stripe, Placed, Placer, Seat, Tally};
pub use record::{LeftOut, Record};
pub use refusal::Refusal;
pub use unheard::EXCHANGES_MAX;
