//! Descriptions of topologies as users write them: TOML with groups of alike machines, and quantities with their units.
//!
//! A text is read here and nowhere else; a file is its caller's to read. Every fault is one [`DescriptionError`], which names
//! the line and the key.

mod error;
mod groups;
mod lines;

pub use error::DescriptionError;
pub use groups::parse_topology;
pub use lines::{key_lines, Part};
