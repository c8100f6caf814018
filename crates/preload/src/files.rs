//! Descriptors and paths of the store, as this process knows them.

pub(crate) mod accesses;
pub(crate) mod description;
pub(crate) mod generation;
pub(crate) mod locked_files;
pub(crate) mod mappings;
pub(crate) mod mounts;
pub(crate) mod paths;
pub(crate) mod placeholder;
pub(crate) mod places;
pub(crate) mod prefix;
pub(crate) mod promotion;
pub(crate) mod resolution;
pub(crate) mod sharing;
pub(crate) mod stand_ins;
pub(crate) mod state;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod unopened;
pub(crate) mod watches;
pub(crate) mod way_to_kernel;
pub(crate) mod working_directory;
