//! A wrapper's table in front of a private library, both made up.

use hipplan_miopen::miopen_forwarding_attach;
use hipplan_miopen_abi::table::{MAGIC, VERSION, WrapperEntry, WrapperTable};
use hipplan_miopen_abi::types::Handle;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// What the functions that just answer a status answer.
pub(crate) static STATUS: AtomicI32 = AtomicI32::new(0);
/// Bits of the private library's kernel time.
pub(crate) static NATIVE_TIME: AtomicU32 = AtomicU32::new(0);
/// Which handle `miopenCreate` makes.
pub(crate) static NEXT_HANDLE: AtomicU32 = AtomicU32::new(0x1000);

pub(crate) unsafe extern "C" fn plain() -> c_int {
    STATUS.load(Relaxed)
}

unsafe extern "C" fn create(handle: *mut Handle) -> c_int {
    let address = usize::try_from(NEXT_HANDLE.load(Relaxed)).expect("an address");
    // SAFETY: the caller's place for it.
    unsafe { *handle = ptr::without_provenance_mut(address) };
    STATUS.load(Relaxed)
}

unsafe extern "C" fn kernel_time(_: Handle, time: *mut f32) -> c_int {
    // SAFETY: the caller's place for it.
    unsafe { *time = f32::from_bits(NATIVE_TIME.load(Relaxed)) };
    0
}

unsafe extern "C" fn error_string(error: c_int) -> *const c_char {
    match error {
        5 => c"miopenStatusInternalError".as_ptr(),
        8 => c"miopenStatusUnsupportedOp".as_ptr(),
        _ => c"another".as_ptr(),
    }
}

unsafe extern "C" fn last_forwarded_error() -> c_int {
    0
}

/// Ten arguments of integers and ten of doubles: some of each are on the stack.
pub(crate) unsafe extern "C" fn many(
    a: i64,
    x0: f64,
    b: i64,
    x1: f64,
    c: i64,
    x2: f64,
    d: i64,
    x3: f64,
    e: i64,
    x4: f64,
    f: i64,
    x5: f64,
    g: i64,
    x6: f64,
    h: i64,
    x7: f64,
    i: i64,
    x8: f64,
    j: u8,
    x9: f32,
) -> f64 {
    let integers = [a, b, c, d, e, f, g, h, i, i64::from(j)];
    let doubles = [x0, x1, x2, x3, x4, x5, x6, x7, x8, f64::from(x9)];
    integers.iter().enumerate().map(|(at, &value)| (at as f64 + 1.0) * value as f64).sum::<f64>()
        + doubles.iter().enumerate().map(|(at, &value)| (at as f64 + 1.0) * 1000.0 * value).sum::<f64>()
}

/// Names that the table has: what the shim knows, and others.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = hipplan_miopen::routing::ENTRIES.iter().map(|entry| entry.name).collect();
    names.extend(["miopenGetVersion", "miopenSetStream", "miopenOpTensor", "miopenSnprintf"]);
    names.sort_unstable();
    names
}

fn implementation(name: &str) -> *const c_void {
    match name {
        "miopenCreate" | "miopenCreateWithStream" => create as *const c_void,
        "miopenGetKernelTime" => kernel_time as *const c_void,
        "miopenGetErrorString" => error_string as *const c_void,
        "miopenGetLastForwardedError" => last_forwarded_error as *const c_void,
        "miopenOpTensor" => many as *const c_void,
        "miopenSnprintf" => libc::snprintf as *const c_void,
        _ => plain as *const c_void,
    }
}

pub(crate) const PAGES: usize = 65_536;

/// The table; it stays for good.
pub(crate) struct Fake {
    pub(crate) table: &'static mut WrapperTable,
    pub(crate) entries: &'static mut [WrapperEntry],
}

// SAFETY: threads of tests only read it.
unsafe impl Sync for Fake {}

impl Fake {
    pub(crate) fn new() -> Self {
        // SAFETY: fresh memory.
        let slots = unsafe {
            libc::mmap(ptr::null_mut(), 2 * PAGES, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(slots, libc::MAP_FAILED);
        let slots = slots.wrapping_byte_add(slots.addr().next_multiple_of(PAGES) - slots.addr());
        let entries: Vec<_> = names()
            .into_iter()
            .enumerate()
            .map(|(at, name)| {
                let slot = slots.cast::<*const c_void>().wrapping_add(at);
                // SAFETY: within the pages.
                unsafe { *slot = implementation(name) };
                WrapperEntry { name: CString::new(name).expect("a name").into_raw(), slot, implementation: implementation(name) }
            })
            .collect();
        let entries = entries.leak();
        let table = Box::leak(Box::new(WrapperTable {
            magic: MAGIC,
            version: VERSION,
            count: u32::try_from(entries.len()).expect("few"),
            entry_size: u32::try_from(size_of::<WrapperEntry>()).expect("small"),
            entries: entries.as_ptr(),
            slots,
            slots_size: PAGES as u64,
            private_soname: c"libMIOpen_private.so.1".as_ptr(),
        }));
        Self { table, entries }
    }

    pub(crate) fn attach(&self) {
        // SAFETY: the table is one.
        unsafe { miopen_forwarding_attach(self.table) };
    }

    fn entry(&self, name: &str) -> &WrapperEntry {
        &self.entries[names().iter().position(|known| *known == name).expect("a known name")]
    }

    /// Where a call of `name` goes.
    pub(crate) fn target(&self, name: &str) -> *const c_void {
        // SAFETY: a slot.
        unsafe { *self.entry(name).slot }
    }

    /// Names whose calls do not go straight to the private library.
    pub(crate) fn redirected(&self) -> Vec<&'static str> {
        names().into_iter().filter(|name| self.target(name) != implementation(name)).collect()
    }

    /// If the first page of the slots can be written, as the system says.
    pub(crate) fn writable(&self) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps.lines().find(|line| {
            let (from, to) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
            let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).expect("an address"));
            (from..to).contains(&self.table.slots.addr())
        });
        line.expect("mapped").split(' ').nth(1).expect("permissions").contains('w')
    }
}

/// Calls a function of the wrapper's, with this signature.
macro_rules! call {
    ($fake:expr, $name:ident: fn($($ty:ty),*) -> $result:ty, $($argument:expr),* $(,)?) => {{
        let target = $fake.target(stringify!($name));
        // SAFETY: the function has this signature, and the arguments are what it takes.
        unsafe { std::mem::transmute::<*const std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> $result>(target)($($argument),*) }
    }};
}
pub(crate) use call;
