//! Functions that Rust cannot define: one that returns twice, and those with any number of arguments.

use crate::calls::exec::{execute_listed, Form};
use crate::calls::libraries::target;
use crate::calls::process::{after_vfork, before_vfork, fork};
use crate::calls::stdio::print_to;
use std::arch::naked_asm;

/// `vfork`. The child runs on the parent's stack, so a register keeps the return address over the call.
///
/// # Safety
/// As for `vfork(2)`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[cfg_attr(not(test), no_mangle)]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn vfork() -> libc::pid_t {
    naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "test eax, eax",
        "jz 3f",
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "test eax, eax",
        "jz 2f",
        "sub rsp, 8",
        "mov rdi, rax",
        "call {after}",
        "add rsp, 8",
        "2:",
        "ret",
        "3:",
        "sub rsp, 8",
        "call {fork}",
        "add rsp, 8",
        "ret",
        before = sym before_vfork,
        after = sym after_vfork,
        fork = sym fork,
        number = const libc::SYS_vfork,
    )
}

/// `vfork`: on AArch64 the return address is in a register that the kernel keeps.
///
/// # Safety
/// As for `vfork(2)`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[cfg_attr(not(test), no_mangle)]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn vfork() -> libc::pid_t {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {before}",
        "ldp x29, x30, [sp], #16",
        "cbz w0, 3f",
        "mov x0, {flags}",
        "mov x1, #0",
        "mov x8, {number}",
        "svc #0",
        "cbz x0, 2f",
        "b {after}",
        "2:",
        "ret",
        "3:",
        "b {fork}",
        before = sym before_vfork,
        after = sym after_vfork,
        fork = sym fork,
        flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
        number = const libc::SYS_clone,
    )
}

/// `__vfork`: an older name, which the C library exports.
///
/// # Safety
/// As for `vfork(2)`.
#[unsafe(naked)]
#[cfg_attr(not(test), no_mangle)]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn __vfork() -> libc::pid_t {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("jmp {vfork}", vfork = sym vfork);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("b {vfork}", vfork = sym vfork);
}

/// `dlopen`. libc looks at its caller's address, so its function follows by a jump.
///
/// # Safety
/// As for `dlopen(3)`.
#[unsafe(naked)]
#[cfg_attr(not(test), no_mangle)]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn dlopen() -> *mut libc::c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rsi",
        "call {target}",
        "pop rsi",
        "mov rdi, rax",
        "jmp rdx",
        target = sym target,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x1, [sp, #16]",
        "bl {target}",
        "mov x16, x1",
        "ldr x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        target = sym target,
    );
}

/// Defines a variadic `exec`, which hands on the places of its arguments.
macro_rules! listed {
    ($name:ident, $form:expr) => {
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), no_mangle)]
        #[cfg_attr(test, allow(dead_code))]
        unsafe extern "C" fn $name() -> libc::c_int {
            naked_asm!(
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, rsp",
                "lea rsi, [rsp + 56]",
                "mov edx, {form}",
                "sub rsp, 8",
                "call {target}",
                "add rsp, 56",
                "ret",
                form = const $form as usize,
                target = sym execute_listed,
            )
        }

        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), no_mangle)]
        #[cfg_attr(test, allow(dead_code))]
        unsafe extern "C" fn $name() -> libc::c_int {
            naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "add x1, sp, #80",
                "mov x2, {form}",
                "bl {target}",
                "ldp x29, x30, [sp], #80",
                "ret",
                form = const $form as usize,
                target = sym execute_listed,
            )
        }
    };
}

listed!(execl, Form::Path);
listed!(execlp, Form::Search);
listed!(execle, Form::Environment);

/// Defines a variadic `dprintf`. Its list of arguments has the C compiler's form: `fixed` arguments are named, and `format` is
/// the register of the format.
macro_rules! printing {
    ($name:ident, $fixed:expr, $format_x86:literal, $format_arm:literal) => {
        #[doc = concat!("`", stringify!($name), "`; see dprintf(3).")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), no_mangle)]
        #[cfg_attr(test, allow(dead_code))]
        unsafe extern "C" fn $name() -> libc::c_int {
            naked_asm!(
                // Registers at 0 and 48, the list at 176, the return address at 216.
                "sub rsp, 216",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                "2:",
                "mov dword ptr [rsp + 176], {general}",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("mov rsi, ", $format_x86),
                "lea rdx, [rsp + 176]",
                "call {target}",
                "add rsp, 216",
                "ret",
                general = const $fixed * 8,
                target = sym print_to,
            )
        }

        #[doc = concat!("`", stringify!($name), "`; see dprintf(3).")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), no_mangle)]
        #[cfg_attr(test, allow(dead_code))]
        unsafe extern "C" fn $name() -> libc::c_int {
            naked_asm!(
                // The list at 16, general registers at 48, vector registers at 112.
                "stp x29, x30, [sp, #-256]!",
                "stp x0, x1, [sp, #48]",
                "stp x2, x3, [sp, #64]",
                "stp x4, x5, [sp, #80]",
                "stp x6, x7, [sp, #96]",
                "stp q0, q1, [sp, #112]",
                "stp q2, q3, [sp, #144]",
                "stp q4, q5, [sp, #176]",
                "stp q6, q7, [sp, #208]",
                "add x9, sp, #256",
                "str x9, [sp, #16]",
                "add x9, sp, #112",
                "str x9, [sp, #24]",
                "add x9, sp, #240",
                "str x9, [sp, #32]",
                "mov w9, {general}",
                "str w9, [sp, #40]",
                "mov w9, #-128",
                "str w9, [sp, #44]",
                concat!("mov x1, ", $format_arm),
                "add x2, sp, #16",
                "bl {target}",
                "ldp x29, x30, [sp], #256",
                "ret",
                general = const -(8 - $fixed) * 8,
                target = sym print_to,
            )
        }
    };
}

printing!(dprintf, 2, "rsi", "x1");
printing!(__dprintf_chk, 3, "rdx", "x2");
