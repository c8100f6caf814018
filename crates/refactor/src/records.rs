//! Augmentations of containers of version 3: a residual and its position each, in falling order of magnitude.

use crate::sample::Sample;

/// Adds the residuals that are there to the estimate of a level.
pub(crate) fn correct<T: Sample>(level: &mut [T], records: &[u8]) {
    let position_bytes = if u32::try_from(level.len()).is_ok() { 4 } else { 8 };
    for record in records.chunks_exact(position_bytes + T::KIND.bytes()) {
        let (position, residual) = record.split_at(position_bytes);
        let mut index = [0; 8];
        index[..position_bytes].copy_from_slice(position);
        let index = usize::try_from(u64::from_le_bytes(index)).unwrap_or(usize::MAX);
        if let Some(sample) = level.get_mut(index) {
            *sample = sample.plus(T::take(residual));
        }
    }
}
