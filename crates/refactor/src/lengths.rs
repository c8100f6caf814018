//! The spelling of the payload's lengths in the header: bytes of each tile in each layer.
//!
//! Each length of a single tile stands behind the number of empty layers before it: the first planes often are empty. For
//! more tiles, a mark says of each layer whether any tile has bytes in it.

use crate::bytes::{put_integer, Reader};
use crate::version::{VERSION_BRIEF, VERSION_SHORT};

/// More layers than planes of any exponents have.
const LAYERS_MAX: usize = 1 << 16;

/// Appends the lengths.
pub(crate) fn put(layers: &[Vec<u64>], bytes: &mut Vec<u8>) {
    put_integer(layers.len() as u64, bytes);
    let mut empty = 0;
    for layer in layers {
        let is_empty = layer.iter().all(|length| *length == 0);
        match layer[..] {
            [_] if is_empty => empty += 1,
            [length] => {
                put_integer(empty, bytes);
                put_integer(length, bytes);
                empty = 0;
            }
            _ => {
                bytes.push(u8::from(!is_empty));
                layer.iter().filter(|_| !is_empty).for_each(|length| put_integer(*length, bytes));
            }
        }
    }
    if empty > 0 {
        put_integer(empty, bytes);
    }
}

/// Takes the lengths; none are listed of a layer in which none of several tiles has bytes.
pub(crate) fn take(tiles: usize, reader: &mut Reader<'_>, version: u16) -> Option<Vec<Vec<u64>>> {
    let count = reader.length().filter(|count| *count <= LAYERS_MAX)?;
    match version {
        VERSION_BRIEF.. if tiles == 1 => of_tile(count, reader),
        VERSION_SHORT if tiles == 1 => of_tile_short(count, reader),
        _ => of_tiles(tiles, count, reader),
    }
}

/// The lengths of a single tile.
fn of_tile(count: usize, reader: &mut Reader<'_>) -> Option<Vec<Vec<u64>>> {
    let mut layers = Vec::new();
    while layers.len() < count {
        let end = layers.len().checked_add(reader.length()?).filter(|end| *end <= count)?;
        layers.resize(end, vec![0]);
        if end < count {
            layers.push(vec![reader.integer()?]);
        }
    }
    Some(layers)
}

/// The lengths of a single tile in [`VERSION_SHORT`]: behind one that is 0, the number of further empty layers.
fn of_tile_short(count: usize, reader: &mut Reader<'_>) -> Option<Vec<Vec<u64>>> {
    let mut layers = Vec::new();
    while layers.len() < count {
        let length = reader.integer()?;
        let others = if length == 0 { reader.length()? } else { 0 };
        let end = layers.len().checked_add(1)?.checked_add(others).filter(|end| *end <= count)?;
        layers.resize(end, vec![length]);
    }
    Some(layers)
}

/// The lengths of several tiles, and of one before [`VERSION_SHORT`].
fn of_tiles(tiles: usize, count: usize, reader: &mut Reader<'_>) -> Option<Vec<Vec<u64>>> {
    let mut layers = Vec::new();
    while layers.len() < count {
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
            let mut taken = take(tiles, &mut reader, VERSION_BRIEF).expect("whole");
            taken.iter_mut().for_each(|layer| layer.resize(tiles, 0));
            prop_assert_eq!(taken, layers);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(tiles in 1_usize..4, bytes in proptest::collection::vec(any::<u8>(), 0..60), version in 4_u16..7) {
            let layers = take(tiles, &mut Reader::new(&bytes), version);
            prop_assert!(layers.is_none_or(|layers| layers.len() <= LAYERS_MAX));
        }
    }
}
