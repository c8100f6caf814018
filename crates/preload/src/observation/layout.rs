//! Layouts of files on Lustre, as the attribute `lustre.lov` tells them, and the division of bytes among their targets.
//!
//! The form is that of `lov_user_md` and `lov_comp_md_v1` in `lustre_user.h` of Lustre 2.5 to 2.16, in the host's order of bytes.

use crate::host::kernel::{self, system_call};
use libc::c_int;
use weir_windows::Device;

/// `f_type` of Lustre (`LL_SUPER_MAGIC`).
const LUSTRE: i64 = 0x0BD0_0BD0;
const ATTRIBUTE: &std::ffi::CStr = c"lustre.lov";
/// Longest attribute (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES: usize = 64 << 10;
/// Most components and most targets of a layout that are used.
const COMPONENTS: usize = 64;
const TARGETS: usize = 2048;

const MAGIC_V1: u32 = 0x0BD1_0BD0;
const MAGIC_V3: u32 = 0x0BD3_0BD0;
const MAGIC_COMPOSITE: u32 = 0x0BD6_0BD0;
/// Bytes of `lov_user_md_v1` before the targets, and of the name of a pool that version 3 has beside.
const HEAD_BYTES: usize = 32;
const POOL_BYTES: usize = 16;
/// Bytes of `lov_user_ost_data_v1`, and the place of the target's number in it.
const TARGET_BYTES: usize = 24;
const AT_TARGET: usize = 20;
/// Bytes of `lov_comp_md_v1` before the entries, and of an entry.
const COMPOSITE_BYTES: usize = 32;
const ENTRY_BYTES: usize = 48;
/// `LCME_FL_INIT`: the component has targets.
const INITIALISED: u32 = 0x10;
/// `LOV_PATTERN_MDT`: the bytes lie on the metadata server.
const ON_METADATA: u32 = 0x100;

/// The device of files that have no layout, and of bytes whose target is not known.
const ALONE: Device = Device::target(1, 0);

/// A part of a file and its targets.
#[derive(Debug, PartialEq, Eq)]
struct Component {
    /// One past its last byte.
    end: u64,
    stripe_bytes: u64,
    /// The devices in stripe order; none where Lustre has not chosen them yet.
    devices: Vec<Device>,
}

/// The targets of a file's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    components: Vec<Component>,
}

impl Layout {
    /// The layout of a file whose bytes all lie at one place.
    pub(super) const fn alone() -> Layout {
        Layout { components: Vec::new() }
    }

    /// The device of all bytes, where there is only one.
    #[inline]
    pub(super) fn only(&self) -> Option<Device> {
        match &self.components[..] {
            [] => Some(ALONE),
            [part] if part.devices.len() == 1 && part.end == u64::MAX => part.devices.first().copied(),
            _ => None,
        }
    }

    /// Visits the devices of some bytes, with the number of bytes on each; an access of no bytes visits one. Answers whether
    /// the devices of all bytes are known.
    pub(super) fn divide(&self, start: u64, bytes: u64, mut visit: impl FnMut(Device, u64)) -> bool {
        let end = start.saturating_add(bytes);
        let (mut begin, mut is_known) = (0, true);
        let mut left = bytes;
        for part in &self.components {
            let (low, high) = (start.max(begin), end.min(part.end));
            begin = part.end;
            if low < high {
                if part.devices.is_empty() {
                    is_known = false;
                    continue;
                }
                part.divide(low, high, &mut visit);
                left -= high - low;
            }
        }
        if left > 0 || bytes == 0 {
            visit(ALONE, left);
        }
        is_known
    }
}

impl Component {
    fn divide(&self, low: u64, high: u64, visit: &mut impl FnMut(Device, u64)) {
        let count = self.devices.len() as u64;
        let (first, last) = (low / self.stripe_bytes, (high - 1) / self.stripe_bytes);
        if last - first < count {
            for stripe in first..=last {
                let begin = (stripe * self.stripe_bytes).max(low);
                let end = (stripe + 1).saturating_mul(self.stripe_bytes).min(high);
                visit(self.devices[(stripe % count) as usize], end - begin);
            }
            return;
        }
        for (place, device) in self.devices.iter().enumerate() {
            let bytes = self.before(high, place as u64) - self.before(low, place as u64);
            if bytes > 0 {
                visit(*device, bytes);
            }
        }
    }

    /// Bytes below a position that lie on the device at a place of the stripe order. Stripes count from byte 0 of the file.
    fn before(&self, position: u64, place: u64) -> u64 {
        let width = self.stripe_bytes.saturating_mul(self.devices.len() as u64);
        let rest = (position % width).saturating_sub(place * self.stripe_bytes).min(self.stripe_bytes);
        position / width * self.stripe_bytes + rest
    }
}

/// The layout of an open file. A file elsewhere than on Lustre has none.
pub(super) fn of_file(descriptor: c_int) -> Layout {
    if !kernel::is_on_file_system(descriptor, LUSTRE) {
        return Layout::alone();
    }
    let mut value = vec![0_u8; ATTRIBUTE_BYTES];
    // SAFETY: the name ends with a zero byte, and the buffer has this length.
    let length = unsafe {
        system_call!(libc::SYS_fgetxattr, descriptor, ATTRIBUTE.as_ptr(), value.as_mut_ptr(), value.len())
    };
    length.ok().and_then(|length| decode(value.get(..length)?)).unwrap_or(Layout::alone())
}

/// The layout that an attribute tells; absent where its bytes have another form.
fn decode(value: &[u8]) -> Option<Layout> {
    if u32_at(value, 0)? != MAGIC_COMPOSITE {
        return Some(Layout { components: vec![component(value, u64::MAX, true)?] });
    }
    let count = usize::from(u16_at(value, 14)?);
    let mut components: Vec<Component> = Vec::new();
    for number in 0..count.min(COMPONENTS) {
        let entry = value.get(COMPOSITE_BYTES + number * ENTRY_BYTES..)?.get(..ENTRY_BYTES)?;
        let (begin, end) = (u64_at(entry, 8)?, u64_at(entry, 16)?);
        let known = components.last().map_or(0, |part| part.end);
        if begin != known || end <= begin {
            // The next mirror begins anew.
            break;
        }
        let (offset, size) = (u32_at(entry, 24)? as usize, u32_at(entry, 28)? as usize);
        let own = value.get(offset..)?.get(..size)?;
        components.push(component(own, end, u32_at(entry, 4)? & INITIALISED != 0)?);
    }
    (!components.is_empty()).then_some(Layout { components })
}

/// A component up to `end` that a `lov_user_md` tells.
fn component(value: &[u8], end: u64, is_initialised: bool) -> Option<Component> {
    let first = match u32_at(value, 0)? {
        MAGIC_V1 => HEAD_BYTES,
        MAGIC_V3 => HEAD_BYTES + POOL_BYTES,
        _ => return None,
    };
    let (pattern, stripe_bytes) = (u32_at(value, 4)?, u64::from(u32_at(value, 24)?));
    let count = usize::from(u16_at(value, 28)?);
    if stripe_bytes == 0 {
        return None;
    }
    if pattern & ON_METADATA != 0 {
        return Some(Component { end, stripe_bytes, devices: vec![Device::metadata(0)] });
    }
    let count = if is_initialised { count } else { 0 };
    if count > TARGETS {
        return None;
    }
    let devices = (0..count)
        .map(|number| u32_at(value.get(first + number * TARGET_BYTES..)?, AT_TARGET))
        .map(|target| Some(Device::target(0, u16::try_from(target?).ok()?)))
        .collect::<Option<_>>()?;
    Some(Component { end, stripe_bytes, devices })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
