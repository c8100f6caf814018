//! Errors in the demands of an allocation, or in the view of its targets.

use super::AllocatorName;
use thiserror::Error;

/// The reason why stripes could not be placed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// There is no target, or none of them is used.
    #[error(
        "no target can take stripes: all {targets} are full, dead or have no speed; free or mend one of them"
    )]
    NoTarget {
        /// The number of targets of the view.
        targets: usize,
    },
    /// A demand of no stripes.
    #[error("demand {demand} asks for no stripes; ask for at least one")]
    NoStripes {
        /// The number of the demand, from 0.
        demand: usize,
    },
    /// A demand of more stripes than there are targets for them.
    #[error(
        "demand {demand} asks for {stripes} stripes on distinct targets, and only {used} targets can take \
         stripes; ask for at most {used}"
    )]
    TooManyStripes {
        /// The number of the demand, from 0.
        demand: usize,
        /// The number of stripes that the demand asks for.
        stripes: u16,
        /// The number of targets that can take them.
        used: usize,
    },
    /// More stripes than fit into the free space.
    #[error(
        "{missing} of {stripes} stripes do not fit: the targets' free space is too small for them on distinct \
         targets; free space or ask for fewer or smaller stripes"
    )]
    DoesNotFit {
        /// The number of stripes left over in the best case.
        missing: u64,
        /// The number of stripes to place.
        stripes: u64,
    },
    /// A target or server that was named twice.
    #[error("{0} occurs twice in the view; name each once")]
    Twice(String),
    /// A speed or load that cannot be one.
    #[error(
        "{what} has speed {speed} and load {load_bytes}: speeds are numbers, loads are finite and not negative"
    )]
    NotANumber {
        /// The target or server.
        what: String,
        /// The speed it was given.
        speed: f64,
        /// The load it was given.
        load_bytes: f64,
    },
    /// A demand to which an allocator of one's own gave targets that its stripes cannot have.
    #[error("the stripes of demand {demand} do not lie on as many distinct, used targets")]
    Misplaced {
        /// The number of the demand, from 0.
        demand: usize,
    },
    /// An allocator that does not exist.
    #[error("unknown allocator `{0}`: expected one of {list}", list = AllocatorName::NAMES.join(", "))]
    UnknownAllocator(String),
}
