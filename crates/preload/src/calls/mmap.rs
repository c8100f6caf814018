//! `mmap`, `munmap` and `mremap`: the library follows the mapped files of the store.

use crate::calls::copies;
use crate::files::{mappings, promotion, table};
use crate::host::guard::{self, attempt, quietly, returned};
use crate::host::kernel;
use crate::recorder;
use crate::store::mount;
use crate::store::session::{self, Mode};
use libc::{c_int, c_void, off_t, size_t};

/// `mmap(2)`.
pub(crate) unsafe fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    let arguments =
        [address as usize, length, protection as usize, flags as usize, descriptor as usize, offset as usize];
    // SAFETY: the program's own promises, here and in all functions below. The call goes without a look-up in libc, because
    // allocators map memory before libc is ready.
    let pass = || address_of(unsafe { kernel::raw(libc::SYS_mmap, arguments) });
    let is_file = descriptor >= 0 && flags & libc::MAP_ANONYMOUS == 0;
    if is_file {
        let end = u64::try_from(offset).ok().and_then(|offset| offset.checked_add(length as u64));
        recorder::mapped(descriptor, protection, flags, end);
    }
    if session::mode() == Mode::Off || guard::is_inside() {
        return pass();
    }
    if session::mode() == Mode::Mount {
        let announced = if is_file { announce_mapping(descriptor, flags) } else { None };
        let mapped = pass();
        let made = (mapped != libc::MAP_FAILED).then_some((mapped as usize, length));
        match (announced, made) {
            (Some(ino), _) => quietly(|| mappings::end(ino, made)),
            (None, Some((address, length))) => forget_mapped(address, length),
            (None, None) => {}
        }
        return mapped;
    }
    if !is_file {
        return pass();
    }
    let mapped = attempt(|| copies::map(descriptor, address, length, (protection, flags), offset));
    match mapped {
        Some(Ok(mapped)) => mapped,
        Some(Err(number)) => map_failed(number),
        None => pass(),
    }
}

fn map_failed(number: c_int) -> *mut c_void {
    guard::set_errno(number);
    libc::MAP_FAILED
}

/// The C result of a system call that answers an address.
fn address_of(result: isize) -> *mut c_void {
    match kernel::checked(result) {
        Ok(mapped) => mapped as *mut c_void,
        Err(number) => map_failed(number),
    }
}

/// Prepares the mapping of `descriptor` with a mount. The servers refuse writes beside the kernel from now on, and the kernel
/// learns the file's size. A file that is mapped shared leaves the fast path; its inode is answered.
fn announce_mapping(descriptor: c_int, flags: c_int) -> Option<u64> {
    let is_shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if table::is_foreign(descriptor) {
        return None;
    }
    let mut announced = None;
    quietly(|| {
        let Some(description) = promotion::discovered(descriptor) else { return };
        description.settle(descriptor);
        if is_shared {
            mappings::begin(description.identity());
            announced = Some(description.identity());
        }
        description.publish();
        mount::announce_pages(descriptor);
        kernel::refresh_size(descriptor);
    });
    announced
}

/// Forgets the mapping at an address that is mapped anew.
fn forget_mapped(address: usize, length: usize) {
    if mappings::are_any() {
        quietly(|| drop(mappings::remove(address, length)));
    }
}

/// `munmap(2)`. The region goes before the kernel gives its addresses to another thread's mapping.
pub(crate) unsafe fn munmap(address: *mut c_void, length: size_t) -> c_int {
    let is_followed = mappings::are_any() && !guard::is_inside();
    let mut removed = mappings::Removed::new();
    if is_followed {
        quietly(|| removed = mappings::remove(address as usize, length));
    }
    // SAFETY: see `mmap`.
    let result = unsafe { kernel::raw(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) };
    if is_followed {
        quietly(|| if result == 0 { drop(removed) } else { mappings::put_back(removed) });
    }
    returned(result)
}

/// `mremap(2)`. With an old length of 0, as with `MREMAP_DONTUNMAP`, the old mapping stays.
pub(crate) unsafe fn mremap(
    old: *mut c_void,
    old_length: size_t,
    length: size_t,
    flags: c_int,
    wanted: *mut c_void,
) -> *mut c_void {
    let arguments = [old as usize, old_length, length, flags as usize, wanted as usize, 0];
    // SAFETY: see `mmap`.
    let pass = || address_of(unsafe { kernel::raw(libc::SYS_mremap, arguments) });
    if !mappings::are_any() || guard::is_inside() {
        return pass();
    }
    let mut file = None;
    quietly(|| {
        file = mappings::file_at(old as usize);
        file.into_iter().for_each(mappings::begin);
    });
    let mapped = pass();
    let made = (mapped != libc::MAP_FAILED).then_some((mapped as usize, length));
    quietly(|| {
        let moves = made.is_some() && old_length > 0 && flags & libc::MREMAP_DONTUNMAP == 0;
        if moves {
            drop(mappings::remove(old as usize, old_length));
        }
        match (file, made) {
            (Some(ino), _) => mappings::end(ino, made),
            (None, Some((address, length))) => drop(mappings::remove(address, length)),
            (None, None) => {}
        }
    });
    mapped
}
