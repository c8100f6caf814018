//! New process images. The kernel gets every offset first, and without a mount the new image finds the store again.

use crate::calls::environments::{Environment, Start, Strings};
use crate::calls::handover::{self, Passing};
use crate::calls::{process, programs};
use crate::files::working_directory::{self, VARIABLE};
use crate::files::{paths, sharing};
use crate::host::guard::{self, quietly, returned};
use crate::host::{kernel, real};
use crate::store::counters;
use crate::store::session::{self, Mode};
use crate::{placement, recorder};
use libc::{c_char, c_int, c_void, pid_t};

extern "C" {
    /// The program's environment.
    pub(crate) static mut environ: *const *const c_char;
}

/// The program of `system` and `popen`.
const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Most arguments of an `execl` call: each is a pointer on the stack, as the call itself has them.
const ARGUMENTS: usize = 4096;

/// Runs an `exec` call, which returns only when it fails.
///
/// # Safety
/// `environment` is a null-terminated list of C strings.
unsafe fn replacing(environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    if guard::is_inside() {
        return call(environment);
    }
    quietly(placement::write_report);
    recorder::end(false);
    if session::mode() == Mode::Off {
        let result = call(environment);
        recorder::resume();
        placement::rearm_report();
        return result;
    }
    quietly(|| {
        sharing::settle_before_exec();
        counters::write_file(&placement::counts());
    });
    recorder::end_windows();
    // SAFETY: as the caller promises.
    let result = unsafe { with_environment(environment, Start::Exec, call) };
    counters::rearm();
    recorder::resume();
    placement::rearm_report();
    result
}

/// `execve(2)`.
pub(crate) unsafe fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        if let Some(text) = paths::text(path) {
            sharing::settle_named(text);
        }
        replacing(environment, |environment| {
            let kernels = |path: *const c_char, arguments: Strings, environment: Strings| {
                returned(kernel::raw(
                    libc::SYS_execve,
                    [path as usize, arguments as usize, environment as usize, 0, 0, 0],
                ))
            };
            match programs::prepared(path, false, (arguments, environment), Start::Exec) {
                None => kernels(path, arguments, environment),
                Some(Err(number)) => guard::fail(number),
                Some(Ok(program)) => program.run(kernels),
            }
        })
    }
}

/// `execvpe(3)` and `execvp(3)`.
pub(crate) unsafe fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: see `execve`.
    unsafe {
        replacing(environment, |environment| {
            match programs::prepared(file, true, (arguments, environment), Start::Exec) {
                None => real::execvpe(file, arguments, environment),
                Some(Err(number)) => guard::fail(number),
                Some(Ok(program)) => {
                    program.run(|path, arguments, environment| real::execvpe(path, arguments, environment))
                }
            }
        })
    }
}

/// `fexecve(3)`.
pub(crate) unsafe fn fexecve(descriptor: c_int, arguments: Strings, environment: Strings) -> c_int {
    sharing::settle_stand_in(descriptor);
    // SAFETY: see `execve`.
    unsafe { replacing(environment, |environment| real::fexecve(descriptor, arguments, environment)) }
}

/// `execveat(2)`.
pub(crate) unsafe fn execveat(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    sharing::settle_stand_in(directory);
    // SAFETY: see `execve`.
    unsafe {
        replacing(environment, |environment| {
            returned(kernel::raw(
                libc::SYS_execveat,
                [
                    directory as usize,
                    path as usize,
                    arguments as usize,
                    environment as usize,
                    flags as usize,
                    0,
                ],
            ))
        })
    }
}

/// `posix_spawn(3)` and `posix_spawnp(3)`: their result is an error number.
pub(crate) unsafe fn spawn(
    process: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    lists: (Strings, Strings),
    search: bool,
) -> c_int {
    let (arguments, environment) = lists;
    process::around_child(|| {
        // SAFETY: see `execve`.
        unsafe {
            with_environment(environment, Start::Spawn, |environment| {
                match programs::prepared(path, search, (arguments, environment), Start::Spawn) {
                    Some(Err(number)) => number,
                    Some(Ok(program)) => program.run(|path, arguments, environment| {
                        let spawn =
                            || real::posix_spawn(process, path, actions, attributes, arguments, environment);
                        holding((path, false, environment), spawn, |result| *result == 0)
                    }),
                    None => {
                        let call = if search { real::posix_spawnp } else { real::posix_spawn };
                        let spawn = || call(process, path, actions, attributes, arguments, environment);
                        holding((path, search, environment), spawn, |result| *result == 0)
                    }
                }
            })
        }
    })
}

/// Runs a call that spawns a program, and waits until the program holds the descriptions with locks. `is_there` tells by the
/// call's result whether there is a program.
///
/// # Safety
/// As for [`programs::loads_library`].
unsafe fn holding<R>(
    (path, search, environment): (*const c_char, bool, Strings),
    spawn: impl FnOnce() -> R,
    is_there: impl FnOnce(&R) -> bool,
) -> R {
    let mut is_awaited = false;
    quietly(|| {
        // SAFETY: as the caller promises.
        is_awaited = handover::has_locked() && unsafe { programs::loads_library(path, search, environment) };
        if is_awaited {
            handover::expect_child(true);
        }
    });
    let result = spawn();
    if is_awaited {
        quietly(|| handover::await_child(is_there(&result)));
    }
    result
}

/// Runs a call of libc that makes a child with the program's own environment (`system`, `popen`).
///
/// # Safety
/// `make` makes the child before it returns.
pub(crate) unsafe fn with_own_environment<R>(make: impl FnOnce() -> R) -> R {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return process::around_child(make);
    }
    // SAFETY: libc reads the list while it makes the child; the strings in it are the program's own.
    process::around_child(|| unsafe {
        with_environment(environ, Start::Spawn, |list| {
            let before = (&raw mut environ).replace(list);
            let result = holding((SHELL.as_ptr(), false, list), make, |_| true);
            environ = before;
            result
        })
    })
}

/// The arguments of a variadic call: those in registers, then those on the stack.
struct Variadic {
    registers: *const usize,
    stack: *const usize,
}

impl Variadic {
    /// Pointer-sized arguments that travel in registers.
    const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

    /// Argument `index`, counted from the first of the call.
    ///
    /// # Safety
    /// The caller passed so many.
    unsafe fn argument(&self, index: usize) -> *const c_char {
        // SAFETY: as the caller promises.
        let word = unsafe {
            match index.checked_sub(Self::REGISTERS) {
                None => *self.registers.add(index),
                Some(index) => *self.stack.add(index),
            }
        };
        word as *const c_char
    }
}

/// The variadic calls.
#[repr(usize)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `execl`.
    Path = 0,
    /// `execlp`.
    Search = 1,
    /// `execle`, whose environment follows the null.
    Environment = 2,
}

/// The `execl` family. The trampolines pass the places of the arguments.
pub(crate) unsafe extern "C" fn execute_listed(
    registers: *const usize,
    stack: *const usize,
    form: usize,
) -> c_int {
    let given = Variadic { registers, stack };
    let mut arguments = [std::ptr::null::<c_char>(); ARGUMENTS];
    let mut count = 0;
    // SAFETY: the program passed a path, arguments and a null, which the loop does not pass.
    unsafe {
        loop {
            if count == ARGUMENTS {
                return guard::fail(libc::E2BIG);
            }
            let argument = given.argument(count + 1);
            arguments[count] = argument;
            count += 1;
            if argument.is_null() {
                break;
            }
        }
        let path = given.argument(0);
        let list = arguments.as_ptr();
        if form == Form::Search as usize {
            execvpe(path, list, environ)
        } else if form == Form::Environment as usize {
            execve(path, list, given.argument(count + 1).cast())
        } else {
            execve(path, list, environ)
        }
    }
}

/// Runs `call` with an environment in which the new image finds the working directory inside the store, and what it is to hold
/// there.
///
/// # Safety
/// `environment` is null or a null-terminated list of C strings.
pub(crate) unsafe fn with_environment<R>(
    environment: Strings,
    start: Start,
    call: impl FnOnce(Strings) -> R,
) -> R {
    if session::mode() != Mode::Prefix || guard::is_inside() || environment.is_null() {
        return call(environment);
    }
    let mut changed = None;
    let mut passing = None;
    quietly(|| {
        // SAFETY: as the caller promises.
        let Some(mut read) = (unsafe { Environment::read(environment) }) else { return };
        read.remove(VARIABLE);
        let place =
            working_directory::position().and_then(|(ino, path)| working_directory::variable(ino, &path));
        if let Some(place) = place {
            read.set(VARIABLE, place.to_bytes());
        }
        read.remove(handover::VARIABLE);
        if start == Start::Exec {
            passing = Passing::prepare();
        }
        let left = passing.as_ref().map(Passing::value);
        if let Some(value) = left.or_else(handover::value_for_child) {
            read.set(handover::VARIABLE, &value);
        }
        read.forget_libraries();
        changed = Some((read.list(), read));
    });
    let result = call(changed.as_ref().map_or(environment, |(list, _)| list.as_ptr()));
    let number = guard::errno();
    quietly(|| {
        drop(changed);
        if let Some(passing) = passing {
            passing.take_back();
        }
    });
    guard::set_errno(number);
    result
}
