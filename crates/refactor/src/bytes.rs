//! Numbers in the header: little-endian, and integers in groups of seven bits (LEB128).

/// Append an integer, seven bits a byte, lowest first.
pub(crate) fn put_integer(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A number of either sign as one without, small where the number is near 0.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The number that [`zigzag`] folded.
pub(crate) fn unzigzag(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// Append a double.
pub(crate) fn put_double(value: f64, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// The least number above `value`, which is not negative, that half of a double's bits hold.
pub(crate) fn rounded_up(value: f64) -> f64 {
    f64::from_bits((value.to_bits() + u64::from(u32::MAX)) >> 32 << 32)
}

/// Append [`rounded_up`] of a number.
pub(crate) fn put_rounded_up(value: f64, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&((rounded_up(value).to_bits() >> 32) as u32).to_le_bytes());
}

/// Takes numbers from the front of bytes; `None` where they end too early or mean nothing.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The bytes that have not been taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn double(&mut self) -> Option<f64> {
        self.take(8)?.try_into().ok().map(f64::from_le_bytes)
    }

    /// An error: at least 0, and a number.
    pub(crate) fn rounded_up(&mut self) -> Option<f64> {
        let bits = self.take(4)?.try_into().ok().map(u32::from_le_bytes)?;
        Some(f64::from_bits(u64::from(bits) << 32)).filter(|error| *error >= 0.0)
    }

    pub(crate) fn integer(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                return None;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn length(&mut self) -> Option<usize> {
        self.integer().and_then(|value| usize::try_from(value).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_rounded_up_by_little() {
        for value in [0.0, 1.0, 0.1, 1e-310, 5e-324, f64::MAX, f64::INFINITY] {
            let mut bytes = Vec::new();
            put_rounded_up(value, &mut bytes);
            let back = Reader::new(&bytes).rounded_up().expect("four bytes");
            assert!(back >= value && back == rounded_up(back), "{value:e} {back:e}");
            assert!(
                back <= value * (1.0 + 1e-6) || value < 1e-300 || value == f64::MAX,
                "{value:e} {back:e}"
            );
        }
    }

    #[test]
    fn numbers_of_either_sign_are_folded_and_come_back() {
        for (value, folded) in
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
        {
            assert_eq!(zigzag(value), folded);
            assert_eq!(unzigzag(folded), value);
        }
    }

    #[test]
    fn integers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_integer(value, &mut bytes);
            assert_eq!(Reader::new(&bytes).integer(), Some(value));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).integer(), None);
        }
        assert_eq!(Reader::new(&[0xff; 12]).integer(), None);
    }
}
