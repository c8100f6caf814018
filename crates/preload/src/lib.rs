//! `libweir_preload.so`: C symbols over the client, for programs started by `weir run`.
//!
//! The library has floors, and each file uses only files on its own floor or below, never in a circle:
//!
//! - [`symbols`] defines the names of libc, the table of system calls, and the library's start in a process.
//! - [`calls`] holds the families of calls. A family finds out in a few instructions whether a call concerns the
//!   store, serves the call, or hands it to libc or the kernel.
//! - [`observation`] counts the operations on files elsewhere, in windows.
//! - [`recorder`] notes which files the program writes; [`placement`] chooses where new files lie.
//! - [`files`] knows the descriptors of the store and the paths that lead into it.
//! - [`store`] reaches the store: the client, the user's identity, the mount, the counters.
//! - [`host`] makes system calls and calls libc's own functions. Its other files depend on these two alone.
//!
//! With a mount, descriptors are the kernel's ([`files::promotion`], [`files::description`]). Without one, they are
//! placeholders ([`files::placeholder`]). `docs/design/interception.md` says what the library promises.

mod calls;
mod files;
mod host;
mod observation;
mod placement;
mod recorder;
mod store;
mod symbols;
