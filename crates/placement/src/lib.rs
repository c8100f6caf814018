//! Where the bytes of a file go.
//!
//! A [`Layout`] cuts a file into stripes over the targets of all servers (RAID-0); a [`Ring`] gives the
//! subdirectories of a spread directory their home servers by consistent hashing. Everything here is a pure
//! function of its arguments, so the server, the client and the simulator share it.
#![forbid(unsafe_code)]

mod layout;
mod ring;

pub use layout::{Layout, LayoutRequest, Piece, ServerId, TargetId};
pub use ring::Ring;
