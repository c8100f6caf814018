//! Attributes of a node in the form in which Python takes them.

use weir_client::mode_of;
use weir_client::wire::{Attributes, Moment};

/// Nanoseconds in a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// Mode, inode, links, uid, gid, size and allocated bytes, and the nanoseconds since 1970 of the last access, modification
/// and change, and of the creation.
pub(crate) type Row = (u32, u64, u32, u32, u32, u64, u64, i128, i128, i128, i128);

/// The attributes as a tuple.
pub(crate) fn row(found: &Attributes) -> Row {
    (
        mode_of(found),
        found.ino.0,
        found.links,
        found.uid,
        found.gid,
        found.size_bytes,
        found.allocated_bytes,
        nanoseconds(found.accessed),
        nanoseconds(found.modified),
        nanoseconds(found.changed),
        nanoseconds(found.created),
    )
}

fn nanoseconds(moment: Moment) -> i128 {
    i128::from(moment.seconds) * NANOSECONDS + i128::from(moment.nanoseconds)
}

/// The moment at a number of nanoseconds since 1970.
pub(crate) fn moment(nanoseconds: i128) -> Moment {
    Moment {
        seconds: nanoseconds.div_euclid(NANOSECONDS) as i64,
        nanoseconds: nanoseconds.rem_euclid(NANOSECONDS) as u32,
    }
}
