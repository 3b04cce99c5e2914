//! A line for each call.
//!
//! With `HIPPLAN_MIOPEN_TRACE=1` every slot of the wrapper points to a thunk of its own, which tells the call and jumps on. A thunk knows no
//! signature: it saves whatever an argument can be in and leaves the stack as it found it, so that it is right for every C function.
//! Of forwarded entry points, the shim's function behind the thunk tells the call instead, because it decides for each problem:
//! [`decision`].

use crate::log;
use crate::routing::{EntryPoint, Reason, Route};
use std::ffi::{CStr, c_char, c_void};
use std::fmt::Arguments;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// How many thunks there are.
pub const THUNKS: usize = 1024;
/// Bytes of a thunk.
const THUNK_SIZE: usize = 16;

/// What is behind a thunk.
struct Behind {
    /// Set last.
    target: AtomicPtr<c_void>,
    name: AtomicPtr<c_char>,
    /// One more than [`Reason`] of a call that goes to MIOpen; of others, [`SILENT`].
    reason: AtomicU8,
}

/// The function behind the thunk tells the call.
const SILENT: u8 = 0;

static BEHIND: [Behind; THUNKS] =
    [const { Behind { target: AtomicPtr::new(ptr::null_mut()), name: AtomicPtr::new(ptr::null_mut()), reason: AtomicU8::new(SILENT) } };
        THUNKS];
static USED: AtomicUsize = AtomicUsize::new(0);
static ON: AtomicBool = AtomicBool::new(false);

/// If every call gets a line.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Every call gets a line from now on.
pub fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}

/// How a call of an entry point of the forwarding set was routed: called once for each call. Does nothing unless tracing is on.
#[inline]
pub fn decision(entry: EntryPoint, route: Route, reason: &str) {
    if is_on() {
        line(entry.name(), route, reason);
    }
}

/// Tells something about a call, beside its own line.
#[inline]
pub fn note(text: Arguments<'_>) {
    if is_on() {
        tell(format_args!("[hipplan] {text}"));
    }
}

#[cold]
fn line(name: &str, route: Route, reason: &str) {
    tell(format_args!("[hipplan] call {name} mode=enabled route={} reason={reason}", route.text()));
}

fn tell(text: Arguments<'_>) {
    // The caller may look at errno after a call that does not set it.
    // SAFETY: errno of this thread.
    let errno = unsafe { *libc::__errno_location() };
    log::raw(text);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The address of a thunk that tells calls of `name` and goes on to `target`. None if there are no more thunks.
pub fn thunk(name: &'static CStr, route: Route, reason: Reason, target: *const c_void) -> Option<*const c_void> {
    let base = thunks()?;
    let at = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used < THUNKS).then_some(used + 1)).ok()?;
    let behind = &BEHIND[at];
    behind.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
    let reason = if route == Route::Private { reason as u8 + 1 } else { SILENT };
    behind.reason.store(reason, Ordering::Relaxed);
    behind.target.store(target.cast_mut(), Ordering::Release);
    Some(base.wrapping_byte_add(at * THUNK_SIZE))
}

/// What a thunk calls: tells the call, and answers where it goes on.
#[cfg(target_arch = "x86_64")]
extern "C" fn enter(at: usize) -> *const c_void {
    // Slots hold addresses of thunks that are in use and of no others.
    let behind = &BEHIND[at % THUNKS];
    let target = behind.target.load(Ordering::Acquire);
    let reason = behind.reason.load(Ordering::Relaxed);
    if let Some(reason) = Reason::ALL.iter().find(|known| **known as u8 + 1 == reason) {
        let _ = std::panic::catch_unwind(|| {
            // SAFETY: the wrapper's own string, and the wrapper stays loaded.
            let name = unsafe { CStr::from_ptr(behind.name.load(Ordering::Relaxed)) };
            line(name.to_str().unwrap_or("?"), Route::Private, reason.text());
        });
    }
    target
}

#[cfg(target_arch = "x86_64")]
fn thunks() -> Option<*const c_void> {
    unsafe extern "C" {
        static hipplan_miopen_thunks: [u8; THUNKS * THUNK_SIZE];
    }
    Some(ptr::addr_of!(hipplan_miopen_thunks).cast())
}

/// There is no ROCm for anything else.
#[cfg(not(target_arch = "x86_64"))]
fn thunks() -> Option<*const c_void> {
    None
}

// A thunk is 4 + 7 + 5 bytes and tells which one it is by its own address in r11, which no argument is passed in. Behind them: all registers
// that arguments are passed in (the count of vector arguments in al, and r10, which other languages use, among them) are kept around the
// call of `enter`, with the frame where unwinders look for it.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.hipplan_miopen_thunks, \"ax\", @progbits",
    ".balign 16",
    ".globl hipplan_miopen_thunks",
    ".hidden hipplan_miopen_thunks",
    ".type hipplan_miopen_thunks, @function",
    "hipplan_miopen_thunks:",
    ".cfi_startproc",
    ".rept {count}",
    "endbr64",
    "lea r11, [rip - 11]",
    ".byte 0xe9",
    ".long .Lhipplan_miopen_told - . - 4",
    ".endr",
    ".Lhipplan_miopen_told:",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "sub rsp, 208",
    "mov [rsp], rdi",
    "mov [rsp + 8], rsi",
    "mov [rsp + 16], rdx",
    "mov [rsp + 24], rcx",
    "mov [rsp + 32], r8",
    "mov [rsp + 40], r9",
    "mov [rsp + 48], rax",
    "mov [rsp + 56], r10",
    "movaps [rsp + 64], xmm0",
    "movaps [rsp + 80], xmm1",
    "movaps [rsp + 96], xmm2",
    "movaps [rsp + 112], xmm3",
    "movaps [rsp + 128], xmm4",
    "movaps [rsp + 144], xmm5",
    "movaps [rsp + 160], xmm6",
    "movaps [rsp + 176], xmm7",
    "lea rdi, [rip + hipplan_miopen_thunks]",
    "sub r11, rdi",
    "shr r11, 4",
    "mov rdi, r11",
    "call {enter}",
    "mov r11, rax",
    "mov rdi, [rsp]",
    "mov rsi, [rsp + 8]",
    "mov rdx, [rsp + 16]",
    "mov rcx, [rsp + 24]",
    "mov r8, [rsp + 32]",
    "mov r9, [rsp + 40]",
    "mov rax, [rsp + 48]",
    "mov r10, [rsp + 56]",
    "movaps xmm0, [rsp + 64]",
    "movaps xmm1, [rsp + 80]",
    "movaps xmm2, [rsp + 96]",
    "movaps xmm3, [rsp + 112]",
    "movaps xmm4, [rsp + 128]",
    "movaps xmm5, [rsp + 144]",
    "movaps xmm6, [rsp + 160]",
    "movaps xmm7, [rsp + 176]",
    "leave",
    ".cfi_def_cfa rsp, 8",
    ".cfi_restore rbp",
    "jmp r11",
    ".cfi_endproc",
    ".size hipplan_miopen_thunks, . - hipplan_miopen_thunks",
    ".popsection",
    count = const THUNKS,
    enter = sym enter,
);
