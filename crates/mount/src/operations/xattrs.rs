//! Extended attributes.

use crate::abi::{Fixed, GetxattrIn, GetxattrOut, SetxattrIn, SetxattrShortIn};
use crate::call::{Answer, Call, Failure, Reply};
use crate::filesystem::Filesystem;
use weir_client::wire::{limits, XattrMode};
use weir_client::Place;

/// The mode of `setxattr(2)`; `None` for unknown flags.
fn mode(flags: u32) -> Option<XattrMode> {
    match i32::try_from(flags).ok()? {
        0 => Some(XattrMode::Set),
        libc::XATTR_CREATE => Some(XattrMode::Create),
        libc::XATTR_REPLACE => Some(XattrMode::Replace),
        _ => None,
    }
}

/// A value for a caller with room for `size` bytes; room for none asks for the length.
fn sized(value: Vec<u8>, size: u32) -> Answer {
    if size == 0 {
        let length = GetxattrOut { size: value.len() as u32, padding: 0 };
        return Ok(Reply::Bytes(length.to_bytes()));
    }
    if value.len() > size as usize {
        return Err(Failure(libc::ERANGE));
    }
    Ok(Reply::Bytes(value))
}

impl Filesystem {
    pub(crate) fn xattr(&self, call: &mut Call<'_>) -> Answer {
        let asked: GetxattrIn = call.take()?;
        let caller = self.caller(&call.header);
        let name = call.name()?;
        let value = self.store.xattr(&caller, Place::inode(call.node()), false, name)?;
        sized(value, asked.size)
    }

    pub(crate) fn xattr_names(&self, call: &mut Call<'_>) -> Answer {
        let asked: GetxattrIn = call.take()?;
        let caller = self.caller(&call.header);
        let names = self.store.xattr_names(&caller, Place::inode(call.node()), false)?;
        sized(names, asked.size)
    }

    pub(crate) fn set_xattr(&self, call: &mut Call<'_>) -> Answer {
        let (size, flags) = if self.features.long_setxattr() {
            let asked: SetxattrIn = call.take()?;
            (asked.size, asked.flags)
        } else {
            let asked: SetxattrShortIn = call.take()?;
            (asked.size, asked.flags)
        };
        let caller = self.caller(&call.header);
        let name = call.name()?;
        if size as usize > limits::XATTR_VALUE_BYTES {
            return Err(Failure(libc::E2BIG));
        }
        let value = call.bytes(size)?;
        let mode = mode(flags).ok_or(Failure(libc::EINVAL))?;
        self.store.set_xattr(&caller, Place::inode(call.node()), false, name, value, mode)?;
        Ok(Reply::Done)
    }

    pub(crate) fn remove_xattr(&self, call: &mut Call<'_>) -> Answer {
        let caller = self.caller(&call.header);
        let name = call.name()?;
        self.store.remove_xattr(&caller, Place::inode(call.node()), false, name)?;
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_asked_for_in_two_steps() {
        assert_eq!(sized(b"abc".to_vec(), 0), Ok(Reply::Bytes(vec![3, 0, 0, 0, 0, 0, 0, 0])));
        assert_eq!(sized(b"abc".to_vec(), 2), Err(Failure(libc::ERANGE)));
        assert_eq!(sized(b"abc".to_vec(), 3), Ok(Reply::Bytes(b"abc".to_vec())));
    }
}
