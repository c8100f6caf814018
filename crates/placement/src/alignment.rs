//! Stripe sizes that fit a predicted file size (Tarazu, section 5.5.2).

use crate::{ComponentSpecification, Stripes};

/// Lustre's own constraint: a stripe is a multiple of 64 KiB.
pub const LUSTRE_STRIPE_BYTES: u64 = 64 * 1024;
/// The paper's: twice that, its equations 2 and 3.
pub const TARAZU_STRIPE_BYTES: u64 = 2 * LUSTRE_STRIPE_BYTES;

/// The stripe size of a contiguous component: `bytes` in one run on each of `stripes` targets, rounded up to
/// `alignment` (equations 2 and 3 with [`TARAZU_STRIPE_BYTES`]). At least `alignment`.
pub fn contiguous_stripe_bytes(bytes: u64, stripes: u16, alignment: u64) -> u64 {
    let row_bytes = u128::from(alignment) * u128::from(stripes.max(1));
    let rows = u128::from(bytes).div_ceil(row_bytes).max(1);
    u64::try_from(rows * u128::from(alignment)).unwrap_or(u64::MAX / alignment * alignment)
}

impl ComponentSpecification {
    /// Changes this component, which begins at file byte `start`, so that each target has one run of a file of
    /// `file_bytes`. A component with an unknown number of targets stays as it is.
    pub fn contiguous(mut self, start: u64, file_bytes: u64, alignment: u64) -> ComponentSpecification {
        let end = self.end.unwrap_or(file_bytes).min(file_bytes.max(start));
        let stripes = match &self.stripes {
            Stripes::Count(count) => *count,
            Stripes::Targets(targets) => u16::try_from(targets.len()).unwrap_or(u16::MAX),
            Stripes::Default | Stripes::All => return self,
        };
        self.stripe_bytes = Some(contiguous_stripe_bytes(end.saturating_sub(start), stripes, alignment));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_paper_s_tables_are_reproduced() {
        // Table 2: 8 GiB on 8 stripes; table 1: the components of an 8 GiB file in configuration 1.
        let stripe = |bytes: u64, stripes| contiguous_stripe_bytes(bytes, stripes, TARAZU_STRIPE_BYTES);
        assert_eq!(stripe(8 << 30, 8), 1 << 30);
        assert_eq!(stripe(128 << 20, 1), 134_217_728);
        assert_eq!(stripe(384 << 20, 3), 134_217_728);
        assert_eq!(stripe(1536 << 20, 8), 201_326_592);
        assert_eq!(stripe(6 << 30, 16), 402_653_184);
    }

    #[test]
    fn a_component_is_cut_at_the_end_of_the_file() {
        let component = ComponentSpecification { end: None, stripe_bytes: None, stripes: Stripes::Count(16) };
        let stripe = component.contiguous(2 << 30, 8 << 30, TARAZU_STRIPE_BYTES).stripe_bytes;
        assert_eq!(stripe, Some(402_653_184));
        let beyond =
            ComponentSpecification { end: Some(1 << 40), stripe_bytes: None, stripes: Stripes::Count(2) };
        assert_eq!(beyond.contiguous(1 << 39, 1 << 20, LUSTRE_STRIPE_BYTES).stripe_bytes, Some(65_536));
    }

    proptest! {
        #[test]
        fn stripes_are_aligned_and_hold_the_bytes(bytes in 0u64..1 << 50, stripes in 1u16..3000) {
            let stripe = contiguous_stripe_bytes(bytes, stripes, LUSTRE_STRIPE_BYTES);
            prop_assert!(stripe.is_multiple_of(LUSTRE_STRIPE_BYTES));
            prop_assert!(stripe * u64::from(stripes) >= bytes);
            prop_assert!((stripe - LUSTRE_STRIPE_BYTES) * u64::from(stripes) < bytes.max(1));
        }
    }
}
