//! The placement of a file's bytes.
//!
//! A [`Layout`] cuts a file into components, and components into stripes over the targets of all servers. A
//! [`LayoutSpecification`] is a request for a layout, before its targets are chosen. A [`Ring`] gives the
//! subdirectories of a spread directory their home servers by consistent hashing. [`online`] is the placement of a home
//! server. Everything here is a pure function of its arguments, so the server, the client and the simulator share it.
#![forbid(unsafe_code)]

mod alignment;
mod allocation;
mod arrangement;
mod component;
mod homes;
mod ini;
mod layout;
pub mod limits;
pub mod online;
pub mod rebalance;
mod ring;
mod specification;
mod spelling;
mod splitmix;
mod target;

pub use alignment::{contiguous_stripe_bytes, LUSTRE_STRIPE_BYTES, TARAZU_STRIPE_BYTES};
pub use allocation::{
    busy_factors, health, queue_excess, space_factors, Allocation, AllocationError, Allocator, AllocatorName,
    Balanced, Demand, LustreStandard, NamedTargets, NamedTargetsError, Random, ServerState, ServerStatistics,
    TargetState, TargetStatistics, View,
};
pub use arrangement::{arrange, Stretch, Stripe};
pub use component::{Component, END_OF_FILE};
pub use homes::Homes;
pub use ini::IniError;
pub use layout::{Layout, LayoutError, Piece};
pub use ring::Ring;
pub use specification::{
    ComponentSpecification, LayoutDefaults, LayoutRequest, LayoutSpecification, Stripes,
};
pub use spelling::SpellingError;
pub use splitmix::SplitMix64;
pub use target::{ServerId, TargetId, TargetNameError};
