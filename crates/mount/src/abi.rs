//! The FUSE kernel protocol as bytes: constants and structures of `<linux/fuse.h>`, ABI 7.31 to 7.45.
//!
//! Structures are decoded field by field in native byte order, so a short or odd message from the device is an
//! error and never undefined behaviour. Every structure lists its padding, so the sum of its fields is its size.

pub(crate) mod flags;
pub(crate) mod opcode;
mod structures;

pub(crate) use structures::*;

/// A value of fixed size in the protocol.
pub(crate) trait Fixed: Sized {
    /// Its length in bytes.
    const BYTES: usize;
    /// Takes it from the front of `bytes`; `None` when they are too few.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
    /// Appends it to `out`.
    fn put(&self, out: &mut Vec<u8>);

    /// The value as bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        self.put(&mut out);
        out
    }
}

macro_rules! fixed_number {
    ($($number:ty),*) => { $(
        impl Fixed for $number {
            const BYTES: usize = size_of::<$number>();
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (front, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(<$number>::from_ne_bytes(*front))
            }
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
        }
    )* };
}
fixed_number!(u16, u32, u64, i32, i64);

impl<T: Fixed + Copy + Default, const COUNT: usize> Fixed for [T; COUNT] {
    const BYTES: usize = T::BYTES * COUNT;
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut values = [T::default(); COUNT];
        for value in &mut values {
            *value = T::take(bytes)?;
        }
        Some(values)
    }
    fn put(&self, out: &mut Vec<u8>) {
        for value in self {
            value.put(out);
        }
    }
}

/// Takes a name that a zero byte ends; `None` when there is none.
pub(crate) fn take_name<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let name = &bytes[..end];
    *bytes = &bytes[end + 1..];
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel_header() {
        assert_eq!(InHeader::BYTES, 40);
        assert_eq!(OutHeader::BYTES, 16);
        assert_eq!(Attr::BYTES, 88);
        assert_eq!(EntryOut::BYTES, 128);
        assert_eq!(AttrOut::BYTES, 104);
        assert_eq!(SetattrIn::BYTES, 88);
        assert_eq!(InitIn::BYTES, 64);
        assert_eq!(InitOut::BYTES, 64);
        assert_eq!(StatfsOut::BYTES, 80);
        assert_eq!(WriteIn::BYTES, 40);
        assert_eq!(LockIn::BYTES, 48);
        assert_eq!(CopyFileRangeIn::BYTES, 56);
        assert_eq!(Statx::BYTES, 256);
        assert_eq!(StatxOut::BYTES, 288);
        assert_eq!(IoctlIn::BYTES, 32);
        assert_eq!(FallocateIn::BYTES, 32);
    }

    #[test]
    fn a_name_ends_at_its_zero_byte() {
        let mut bytes: &[u8] = b"old\0new\0rest";
        assert_eq!(take_name(&mut bytes), Some(&b"old"[..]));
        assert_eq!(take_name(&mut bytes), Some(&b"new"[..]));
        assert_eq!(take_name(&mut bytes), None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_too_short(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut rest = bytes.as_slice();
            match SetattrIn::take(&mut rest) {
                Some(value) => {
                    prop_assert_eq!(value.to_bytes(), bytes[..SetattrIn::BYTES].to_vec());
                    prop_assert_eq!(rest.len(), bytes.len() - SetattrIn::BYTES);
                }
                None => prop_assert!(bytes.len() < SetattrIn::BYTES),
            }
        }
    }
}
