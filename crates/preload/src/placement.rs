//! Placement at creation: a file that the interaction database foresaw is made with the layout chosen for it.
//!
//! The first creation opens the database (`WEIR_PLACEMENT`). The library opens it anew when another database takes its place.
//! A fault in the database leaves a program's creations as they are without one. The order is that of Tarazu, algorithm 2:
//! the library makes the file with its layout, then the program's own call goes on. An existing file keeps its layout.
//! A directory is made with the number of files that the database foresees below it.

mod creation;
mod database;
mod lookup;
mod lustre;
mod pages;
mod pattern;
mod reports;
mod sqlite;
mod trees;

pub(crate) use creation::{open, open_at_store, open_stream};
pub(crate) use lookup::{is_on, learn, rearm_report, reset_in_child, write_report};
pub(crate) use reports::counts;
pub(crate) use trees::directory_kind;
