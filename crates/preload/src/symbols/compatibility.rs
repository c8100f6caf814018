//! Old versions of libc's symbols: a library that was linked on a new system must load on glibc 2.28, too.
//!
//! glibc 2.34 moved these functions into libc.so.6 under a new version, and still has the old version. Definitions of this
//! library, hidden from everyone else, lead every reference of the library to the old version.

use std::arch::global_asm;

macro_rules! old_version {
    ($($name:literal),+) => {
        $(
            #[cfg(target_arch = "x86_64")]
            global_asm!(
                concat!(".symver weir_old_", $name, ", ", $name, "@GLIBC_2.2.5"),
                ".text",
                concat!(".hidden ", $name),
                concat!(".globl ", $name),
                concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                // A jump, because `dlsym` looks at its caller's address.
                concat!("jmp weir_old_", $name, "@PLT"),
            );
            #[cfg(target_arch = "aarch64")]
            global_asm!(
                concat!(".symver weir_old_", $name, ", ", $name, "@GLIBC_2.17"),
                ".text",
                concat!(".hidden ", $name),
                concat!(".globl ", $name),
                concat!(".type ", $name, ", %function"),
                concat!($name, ":"),
                concat!("b weir_old_", $name),
            );
        )+
    };
}

old_version!("dlclose", "dlsym", "pthread_key_create", "pthread_key_delete", "pthread_setspecific");
