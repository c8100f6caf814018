//! Records of the accesses to files of the store.
//!
//! Each open description counts its own reads and writes. The counts are told at each close of its descriptors, and at the
//! end of the process, and begin anew; so the records of a file add up.

use crate::files::accesses::Accesses;
use crate::files::table::{self, Entry};
use crate::recorder::{log, names, placeholder_name, report};
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_trace::{Accessed, Pattern, Record};

/// Most records of accesses in the trace of a process image: at some hundred bytes each they have less room than windows.
/// The accesses of further files are told together.
const RECORDS_MAX: u32 = 65_536;

static TOLD: AtomicU32 = AtomicU32::new(0);
static FURTHER: Accesses = Accesses::new();

/// Tells the accesses through `descriptor`, which is about to be closed.
pub(super) fn tell(descriptor: c_int) {
    let Entry::Known(description) = table::look_up(descriptor) else { return };
    let Some((reads, writes)) = description.accesses().take() else { return };
    if TOLD.fetch_add(1, Ordering::Relaxed) >= RECORDS_MAX {
        FURTHER.join(&reads, &writes);
        return;
    }
    let name = placeholder_name(descriptor).unwrap_or_else(|| names::of_recorded_file(descriptor));
    let layout = report::layout_of(descriptor);
    write(&name.unwrap_or_default(), layout.as_deref().unwrap_or_default(), reads, writes);
}

/// Tells the accesses through all descriptors.
pub(super) fn tell_all() {
    let mut known = Vec::new();
    table::each(|descriptor, _| known.push(descriptor));
    known.into_iter().for_each(tell);
    if let Some((reads, writes)) = FURTHER.take() {
        write(b"", "", reads, writes);
    }
}

fn write(path: &[u8], layout: &str, reads: Pattern, writes: Pattern) {
    let after_nanoseconds = log::elapsed();
    log::offer(&[Record::Accessed(Accessed { path, layout, reads, writes, after_nanoseconds })]);
}
