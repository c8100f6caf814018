//! Every limit on the layouts of a store, with its reason.

/// Stripes of one layout, all components together: an open file is handed to another process in one page.
pub const STRIPES: usize = 512;
/// Components of one layout, for the same reason.
pub const COMPONENTS: usize = 32;
/// Smallest stripe, and the unit of every stripe and component: a page, so that no page of a mapping has two stripes.
pub const STRIPE_BYTES_MIN: u64 = 4096;
/// Largest stripe: far above any predicted share of a file, far below where sums of offsets end.
pub const STRIPE_BYTES_MAX: u64 = 1 << 50;
