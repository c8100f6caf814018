//! Children of the process, its threads, and its end.

use crate::calls::{close, handover, locks};
use crate::files::description::STANDARD_STREAMS;
use crate::files::description::{self, Description};
use crate::files::{
    generation, locked_files, mappings, mounts, sharing, stand_ins, table, working_directory,
};
use crate::host::forks::Handlers;
use crate::host::guard::{self, quietly, returned};
use crate::host::{kernel, real};
use crate::store::counters;
use crate::store::session::{self, Mode};
use crate::{placement, recorder};
use libc::{c_int, c_long, c_void, pid_t};
use std::sync::Arc;

/// Whether the library follows this process's descriptors.
pub(crate) fn is_followed() -> bool {
    session::mode() != Mode::Off || recorder::is_on() || placement::is_on()
}

/// The handlers that run around forks. The heap's own ones run between them, with the heap's lock taken and all signals held.
pub(crate) static FORKS: Handlers =
    Handlers { before: before_libc_fork, in_parent: after_libc_fork, in_child: in_child_of_libc_fork };

extern "C" fn before_libc_fork() {
    before_fork();
    guard::hold_signals_over_fork();
}

extern "C" fn after_libc_fork() {
    guard::let_signals_through();
    after_fork();
}

extern "C" fn in_child_of_libc_fork() {
    in_child();
    guard::let_signals_through();
}

/// Prepares for a child that may use this process's descriptors.
fn before_fork() {
    before_child();
    quietly(|| handover::expect_child(false));
}

/// Ends the preparation, in the parent.
fn after_fork() {
    after_child();
    quietly(|| handover::await_child(true));
}

fn before_child() {
    quietly(|| {
        sharing::share_everything();
        recorder::before_fork();
    });
}

fn after_child() {
    quietly(sharing::child_was_made);
}

/// Begins anew in the child of a fork: the connections are the parent's, and every description is shared.
fn in_child() {
    quietly(|| {
        counters::reset();
        recorder::in_child();
        placement::reset_in_child();
        generation::reset_in_child();
        stand_ins::reset_in_child();
        // SAFETY: this is the only thread of the child.
        unsafe { locked_files::reset_in_child() };
        mounts::reset_in_child();
        mappings::rebuild_in_child();
        if let Some(store) = session::store_in_use() {
            store.after_fork_in_child(kernel::close);
        }
        let mut rebuilt: Vec<(*const Description, Arc<Description>)> = Vec::new();
        // SAFETY: this is the only thread of the child.
        unsafe {
            table::rebuild_after_fork(|old| {
                let key = Arc::as_ptr(old);
                if let Some((_, made)) = rebuilt.iter().find(|(known, _)| *known == key) {
                    return Arc::clone(made);
                }
                let made = description::inherited(old);
                rebuilt.push((key, Arc::clone(&made)));
                made
            });
        }
        table::each(|descriptor, description| locks::keep(descriptor, description));
    });
}

/// Prepares for `vfork`. The child runs in this very memory, and must find every hook closed. Answers 0 where a fork has to
/// take the place of the vfork.
pub(crate) extern "C" fn before_vfork() -> c_int {
    if !is_followed() || guard::is_inside() {
        return 1;
    }
    if session::mode() == Mode::Prefix {
        // The child may open files of the store, and needs memory of its own for that.
        return 0;
    }
    before_fork();
    lend_memory();
    1
}

/// Lends this memory to a child that is about to run.
fn lend_memory() {
    guard::mark_vfork_child(true);
    recorder::note_borrower(true);
}

/// Takes the memory back from a child that has ended or executed a program.
fn take_back_memory() {
    recorder::note_borrower(false);
    guard::mark_vfork_child(false);
    after_fork();
}

/// Ends the preparation after `vfork`, in the parent. Answers the result of `vfork`.
pub(crate) extern "C" fn after_vfork(result: isize) -> pid_t {
    if guard::is_inside() {
        take_back_memory();
    }
    returned(result)
}

/// `fork`, also where the child of a `vfork` cannot share this memory.
pub(crate) extern "C" fn fork() -> pid_t {
    // SAFETY: the registered handlers keep this library right.
    unsafe { real::fork() }
}

/// `_Fork(3)`, which runs no handlers.
pub(crate) unsafe fn fork_without_handlers() -> pid_t {
    before_fork();
    // SAFETY: no memory is passed.
    let child = unsafe { real::_Fork() };
    if child == 0 {
        in_child_without_handlers();
    } else {
        after_fork();
    }
    child
}

/// `clone(2)` under libc's name.
///
/// A thread shares everything. A child with its own memory is a fork. A child that borrows this memory until it executes a
/// program is a vfork. The library cannot follow a child that goes on in this memory with descriptors of its own.
pub(crate) unsafe fn clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    rest: [*mut c_void; 3],
) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    let pass = |function, argument| unsafe {
        real::clone(function, stack, flags, argument, rest[0], rest[1], rest[2])
    };
    if !is_followed() || guard::is_inside() || flags & libc::CLONE_THREAD != 0 {
        note_thread();
        return pass(function, argument);
    }
    if flags & libc::CLONE_VM == 0 {
        let mut start = Start { function, argument };
        before_fork();
        let child = pass(start_in_child, (&raw mut start).cast());
        after_fork();
        return child;
    }
    if flags & libc::CLONE_VFORK != 0 && session::mode() != Mode::Prefix {
        before_fork();
        lend_memory();
        let child = pass(function, argument);
        take_back_memory();
        return child;
    }
    sharing::leave_fast_path();
    pass(function, argument)
}

/// `clone` by its number. The child returns from the call, so it must have a memory and a stack of its own. A program that
/// makes a thread so starts the thread itself.
pub(crate) unsafe fn raw_clone(a: [usize; 6]) -> c_long {
    let flags = a[0] as c_int;
    // SAFETY: see `clone`.
    let pass = || unsafe { kernel::raw(libc::SYS_clone, a) };
    if flags & libc::CLONE_VM != 0 {
        note_thread();
        if flags & libc::CLONE_THREAD == 0 {
            sharing::leave_fast_path();
        }
        // SAFETY: see `clone`. A child on a stack of its own returns into the program's frame by itself.
        return unsafe { real::syscall(libc::SYS_clone, a[0], a[1], a[2], a[3], a[4], a[5]) };
    }
    before_fork();
    let child = pass();
    if child == 0 {
        in_child_without_handlers();
    } else {
        after_fork();
    }
    returned(child)
}

/// Begins anew in a child that no fork handler prepared, where locks of other threads may stay taken. With a mount the kernel
/// serves all calls of the child from now on. Without a mount there is no other way than to go on.
fn in_child_without_handlers() {
    if session::mode() == Mode::Mount {
        session::leave();
        quietly(recorder::in_child);
    } else {
        in_child();
    }
}

struct Start {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

extern "C" fn start_in_child(start: *mut c_void) -> c_int {
    in_child_without_handlers();
    // SAFETY: the child's copy of the parent's stack frame, which waits in `clone`.
    let start = unsafe { &*start.cast::<Start>() };
    (start.function)(start.argument)
}

/// Runs a call of libc that makes a child without fork handlers.
pub(crate) fn around_child<R>(make: impl FnOnce() -> R) -> R {
    if !is_followed() || guard::is_inside() {
        return make();
    }
    before_child();
    let result = make();
    after_child();
    result
}

/// Forgets the standard descriptors, which `daemon(3)` and the like replace inside libc.
pub(crate) fn forget_standard(replaced: bool) {
    if replaced {
        STANDARD_STREAMS.for_each(close::release);
    }
}

/// Notes that the program makes a thread.
pub(crate) fn note_thread() {
    generation::note_thread();
    recorder::note_thread();
}

/// `pthread_create(3)`.
pub(crate) unsafe fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    start: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    note_thread();
    // SAFETY: see `clone`.
    unsafe { real::pthread_create(thread, attributes, start, argument) }
}

/// Publishes pending times, releases locks, and writes reports and counters, because the process ends.
fn end(streams_follow: bool) {
    quietly(placement::write_report);
    recorder::end(streams_follow);
    if session::mode() != Mode::Off {
        quietly(|| {
            sharing::settle_at_end();
            locks::release_all(streams_follow);
            counters::write_file(&placement::counts());
        });
    }
    recorder::end_windows();
}

/// Ends a process that returns from `main` or calls `exit`, before libc writes the content of streams.
pub(crate) extern "C" fn at_end() {
    end(true);
}

/// `_exit(2)`.
pub(crate) unsafe fn exit_now(status: c_int) -> ! {
    end(false);
    loop {
        // SAFETY: the call does not return.
        unsafe { kernel::raw(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Runs a call after which paths or descriptors may mean something else (`chroot`, `unshare`, `setns`).
pub(crate) fn around_view(change: impl FnOnce() -> c_int) -> c_int {
    sharing::settle_stand_ins();
    let result = change();
    if result == 0 {
        sharing::leave_fast_path();
        working_directory::forget();
    }
    result
}
