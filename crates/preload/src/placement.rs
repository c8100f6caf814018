//! Placement at creation: a file that the interaction database foresaw is made with the layout chosen for it.
//!
//! The database (`WEIR_PLACEMENT`) is opened at the first creation, and opened anew when another one takes its place.
//! Whatever is wrong with it, a program's creations go on as without it. After Tarazu, algorithm 2: the file is made
//! with its layout first, then the program's own call goes on; a file that is there keeps its layout.

mod creation;
mod database;
mod lookup;
mod lustre;
mod pages;
mod reports;

pub(crate) use creation::{open, open_at_store, open_stream};
pub(crate) use lookup::{is_on, learn, rearm_report, reset_in_child, write_report};
pub(crate) use reports::counts;
