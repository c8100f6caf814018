//! The spelling of those fields of the header that follow from others nearly or wholly: tiles, the range, and blank errors.

use crate::accuracy::Accuracy;
use crate::bytes::{put_double, put_integer, rounded_up, unzigzag, zigzag, Reader};
use crate::grid::Grid;
use crate::sample::DataType;
use crate::table::Spelled;
use crate::version::{VERSION_BRIEF, VERSION_SHORT};

/// Appends the edges of tiles; a single 0 where one tile holds the whole array.
pub(crate) fn put_edges(grid: &Grid, bytes: &mut Vec<u8>) {
    match *grid == Grid::whole(grid.shape) {
        true => bytes.push(0),
        false => grid.edges.iter().for_each(|edge| put_integer(*edge as u64, bytes)),
    }
}

/// Takes the edges of tiles.
pub(crate) fn take_edges(shape: [usize; 4], reader: &mut Reader<'_>, version: u16) -> Option<Grid> {
    let mut edges = [reader.length()?, 0, 0, 0];
    if edges[0] == 0 && version >= VERSION_BRIEF {
        return Some(Grid::whole(shape));
    }
    for edge in &mut edges[1..] {
        *edge = reader.length()?;
    }
    edges.iter().all(|edge| *edge > 0).then_some(Grid { shape, edges })
}

/// Appends the smallest and the largest sample, in few bytes where the samples have few.
pub(crate) fn put_range(kind: DataType, (least, most): (f64, f64), bytes: &mut Vec<u8>) {
    for sample in [least, most] {
        match kind {
            DataType::Float32 => bytes.extend_from_slice(&(sample as f32).to_le_bytes()),
            _ if kind.is_float() || kind.bytes() == 8 => put_double(sample, bytes),
            _ => put_integer(zigzag(sample as i64), bytes),
        }
    }
}

/// Takes the smallest and the largest sample.
pub(crate) fn take_range(kind: DataType, reader: &mut Reader<'_>, version: u16) -> Option<(f64, f64)> {
    let mut sample = || match kind {
        _ if version < VERSION_BRIEF => reader.double(),
        DataType::Float32 => {
            reader.take(4)?.try_into().ok().map(|bytes| f64::from(f32::from_le_bytes(bytes)))
        }
        _ if kind.is_float() || kind.bytes() == 8 => reader.double(),
        _ => reader.integer().map(|code| unzigzag(code) as f64),
    };
    Some((sample()?, sample()?))
}

/// The errors of zeros, whose largest is the largest sample.
#[derive(Clone, Copy)]
struct Zeros {
    largest: f64,
}

impl Zeros {
    fn new(kind: DataType, (least, most): (f64, f64)) -> Self {
        let largest = least.abs().max(most.abs());
        Self { largest: rounded_up(if kind.is_float() { largest.next_up() } else { largest }) }
    }

    fn spelled(self, errors: Accuracy) -> Spelled {
        match errors.max_error <= self.largest {
            true => Spelled::of(self.largest, errors),
            // Nothing is known of samples that the codec does not take.
            false => Spelled::Errors(errors.rounded_up()),
        }
    }

    fn errors(self, spelled: Spelled) -> Accuracy {
        let errors = spelled.errors(self.largest);
        match spelled {
            Spelled::Errors(_) => errors,
            Spelled::Steps { .. } => Accuracy { max_error: errors.max_error.min(self.largest), ..errors },
        }
    }
}

/// The errors of an array of which nothing is there, as the header tells them.
pub(crate) fn told_blank(kind: DataType, range: (f64, f64), errors: Accuracy) -> Accuracy {
    let zeros = Zeros::new(kind, range);
    zeros.errors(zeros.spelled(errors))
}

/// Appends errors that [`told_blank`] gave.
pub(crate) fn put_blank(kind: DataType, range: (f64, f64), told: Accuracy, bytes: &mut Vec<u8>) {
    Zeros::new(kind, range).spelled(told).put(bytes);
}

/// Takes the errors of an array of which nothing is there.
pub(crate) fn take_blank(
    kind: DataType,
    range: (f64, f64),
    reader: &mut Reader<'_>,
    version: u16,
) -> Option<Accuracy> {
    let mut error = |is_double: bool| match is_double {
        true => reader.double().filter(|error| *error >= 0.0),
        false => reader.rounded_up(),
    };
    match version {
        ..VERSION_BRIEF => {
            let is_double = version < VERSION_SHORT;
            Some(Accuracy { rmse: error(is_double)?, max_error: error(is_double)? })
        }
        _ => Zeros::new(kind, range).errors(Spelled::take(reader)?).checked(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> impl Strategy<Value = DataType> {
        (0_u8..10).prop_filter_map("a kind", DataType::from_code)
    }

    proptest! {
        #[test]
        fn a_range_of_samples_comes_back(kind in kind(), one in any::<f64>(), other in any::<f64>()) {
            let sample = |value: f64| match kind {
                DataType::Float32 => f64::from(value as f32),
                DataType::Float64 => value,
                DataType::Uint64 => value as u64 as f64,
                DataType::Int8 => f64::from(value as i8),
                DataType::Uint8 => f64::from(value as u8),
                DataType::Int16 => f64::from(value as i16),
                DataType::Uint16 => f64::from(value as u16),
                DataType::Int32 => f64::from(value as i32),
                DataType::Uint32 => f64::from(value as u32),
                DataType::Int64 => value as i64 as f64,
            };
            let range = (sample(one), sample(other));
            let mut bytes = Vec::new();
            put_range(kind, range, &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(take_range(kind, &mut reader, VERSION_BRIEF), Some(range));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn errors_of_zeros_are_told_by_little_more(
            kind in kind(), least in -1e9_f64..1e9, part in 0.0_f64..=1.0, is_lost in any::<bool>(),
        ) {
            let range = (least, least + 1.0);
            let largest = least.abs().max((least + 1.0).abs());
            let errors = match is_lost {
                true => Accuracy { rmse: f64::INFINITY, max_error: f64::INFINITY },
                false => Accuracy { rmse: largest * part, max_error: largest }.rounded_up(),
            };
            let told = told_blank(kind, range, errors);
            prop_assert!(told.rmse >= errors.rmse && told.max_error >= errors.max_error);
            prop_assert!(is_lost || told.rmse <= errors.rmse * 1.02 && told.max_error <= largest * 1.0001);
            let mut bytes = Vec::new();
            put_blank(kind, range, told, &mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(take_blank(kind, range, &mut reader, VERSION_BRIEF), Some(told));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(kind in kind(), bytes in proptest::collection::vec(any::<u8>(), 0..40), version in 3_u16..7) {
            let mut reader = Reader::new(&bytes);
            let range = take_range(kind, &mut reader, version).unwrap_or_default();
            let told = take_blank(kind, range, &mut reader, version);
            prop_assert!(told.is_none_or(|told| told.rmse >= 0.0 && told.max_error >= 0.0));
        }
    }
}
