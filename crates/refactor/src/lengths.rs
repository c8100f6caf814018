//! The spelling of the payload's lengths in the header: bytes of each tile in each layer.
//!
//! The layers of a single tile are listed one after the other, runs of empty ones by their number: the first planes often are.
//! For more tiles, a mark says of each layer whether any tile has bytes in it.

use crate::bytes::{put_integer, Reader};
use crate::header::VERSION_SHORT;

/// More layers than planes of any exponents have.
const LAYERS_MAX: usize = 1 << 16;

/// Appends the lengths.
pub(crate) fn put(layers: &[Vec<u64>], bytes: &mut Vec<u8>) {
    put_integer(layers.len() as u64, bytes);
    let mut layers = layers.iter().peekable();
    while let Some(layer) = layers.next() {
        let is_empty = |layer: &Vec<u64>| layer.iter().all(|length| *length == 0);
        if let [length] = layer[..] {
            put_integer(length, bytes);
            if length == 0 {
                let mut others = 0;
                while layers.next_if(|next| is_empty(next)).is_some() {
                    others += 1;
                }
                put_integer(others, bytes);
            }
            continue;
        }
        bytes.push(u8::from(!is_empty(layer)));
        layer.iter().filter(|_| !is_empty(layer)).for_each(|length| put_integer(*length, bytes));
    }
}

/// Takes the lengths; none are listed of a layer in which none of several tiles has bytes.
pub(crate) fn take(tiles: usize, reader: &mut Reader<'_>, version: u16) -> Option<Vec<Vec<u64>>> {
    let count = reader.length().filter(|count| *count <= LAYERS_MAX)?;
    let mut layers = Vec::new();
    while layers.len() < count {
        if tiles == 1 && version >= VERSION_SHORT {
            let length = reader.integer()?;
            let others = if length == 0 { reader.length()? } else { 0 };
            let end = layers.len().checked_add(1)?.checked_add(others).filter(|end| *end <= count)?;
            layers.resize(end, vec![length]);
            continue;
        }
        layers.push(match reader.byte()? {
            0 => Vec::new(),
            // Each length takes at least a byte, so the given bytes bound the allocated ones.
            1 if tiles <= reader.rest().len() => {
                (0..tiles).map(|_| reader.integer()).collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        });
    }
    Some(layers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_come_back(
            tiles in 1_usize..4,
            lengths in proptest::collection::vec(prop_oneof![Just(0), 0_u64..5, any::<u64>()], 0..40),
        ) {
            let layers: Vec<Vec<u64>> = lengths.chunks_exact(tiles).map(<[u64]>::to_vec).collect();
            let mut bytes = Vec::new();
            put(&layers, &mut bytes);
            let mut reader = Reader::new(&bytes);
            let mut taken = take(tiles, &mut reader, VERSION_SHORT).expect("whole");
            taken.iter_mut().for_each(|layer| layer.resize(tiles, 0));
            prop_assert_eq!(taken, layers);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(tiles in 1_usize..4, bytes in proptest::collection::vec(any::<u8>(), 0..60), version in 4_u16..6) {
            let layers = take(tiles, &mut Reader::new(&bytes), version);
            prop_assert!(layers.is_none_or(|layers| layers.len() <= LAYERS_MAX));
        }
    }
}
