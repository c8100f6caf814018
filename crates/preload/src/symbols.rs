//! The exported names of libc, each with the call that it leads to.
//!
//! A row of a table gives the names, the C signature and the call. Variadic functions of C (`open`, `fcntl`,
//! `syscall`) are defined with the arguments they can have: on x86-64 and AArch64 integers travel in the same
//! registers either way.

/// Defines the C functions of a table.
macro_rules! hooks {
    ($( [$($name:ident)+] $arguments:tt -> $result:ty = $body:expr; )*) => {
        $( $( hooks!(@one $name $arguments $result, $body); )+ )*
    };
    (@one $name:ident ($($argument:ident : $type:ty),* $(,)?) $result:ty, $body:expr) => {
        #[cfg_attr(not(test), no_mangle)]
        #[cfg_attr(test, allow(dead_code, non_snake_case, reason = "exported by its C name, outside of tests"))]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the C caller keeps the promises of the function of this name in its manual page.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    };
}

#[cfg(not(test))]
mod compatibility;
mod descriptors;
mod paths;
mod start;
mod system_calls;
mod trampolines;
