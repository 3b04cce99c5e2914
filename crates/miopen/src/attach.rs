//! What a wrapper calls when it is loaded.

use crate::config::{self, Config};
use crate::routing::{self, Reason, Route};
use crate::{lock, log, private, report, stream, trace};
use hipplan_miopen_abi::table::{MAGIC, VERSION, WrapperEntry, WrapperTable};
use std::ffi::{CStr, c_void};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Most entries of a table that is believed.
const MAX_ENTRIES: u32 = 4096;
/// `MIOPEN_LOG_LEVEL` from which on each entry point's route is told.
const ROUTING_LEVEL: u64 = 6;

/// Takes a wrapper's table. With forwarding off it does nothing; otherwise it points the slots of what is forwarded or watched at the
/// functions of this library and makes the slots read-only. It never fails: what it cannot use, it leaves to MIOpen, with a warning.
///
/// # Safety
/// `table` is null or a table as its magic and version say, and stays there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn miopen_forwarding_attach(table: *const WrapperTable) {
    // SAFETY: a name.
    let value = unsafe { libc::getenv(config::FORWARDING.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: the environment's strings are NUL-terminated.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    if value.is_empty() {
        return;
    }
    match config::switch(value) {
        Some(false) => {}
        // SAFETY: the caller's promise.
        Some(true) => match catch_unwind(|| unsafe { attach(table) }) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => log::always(format_args!("warning: {reason}; MIOpen itself answers its calls")),
            Err(_) => {
                log::always(format_args!("warning: attaching to MIOpen failed by a bug of the shim's; MIOpen itself answers its calls"))
            }
        },
        None => crate::once! {
            log::always(format_args!(
                "warning: {}={}: expected enabled or disabled; taken as disabled",
                config::FORWARDING.to_string_lossy(),
                String::from_utf8_lossy(value)
            ))
        },
    }
}

/// Why a table is left alone.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(
        "the MIOpen wrapper's table is of another version (magic {magic:#x}, version {version}, entries of {entry_size} bytes); split MIOpen again"
    )]
    Version { magic: u32, version: u32, entry_size: u32 },
    #[error("the MIOpen wrapper's table is damaged ({what}); split MIOpen again")]
    Damaged { what: &'static str },
    #[error("a second MIOpen ({soname}) is in the process, and only one can be forwarded")]
    Second { soname: String },
    #[error("the MIOpen wrapper's slots cannot be written: {0}")]
    Slots(std::io::Error),
}

/// What is attached, as addresses.
#[derive(Debug, Default)]
struct Attached {
    tables: Vec<usize>,
    /// The private library's functions of the names in [`routing::ENTRIES`].
    implementations: Vec<usize>,
}

/// A wrapper's table, checked.
struct Table<'a> {
    entries: &'a [WrapperEntry],
    slots: *mut c_void,
    slots_size: usize,
    soname: String,
}

/// # Safety
/// As [`miopen_forwarding_attach`].
unsafe fn attach(table: *const WrapperTable) -> Result<(), Refusal> {
    static ATTACHED: Mutex<Option<Attached>> = Mutex::new(None);
    let mut attached = ATTACHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if attached.as_ref().is_some_and(|attached| attached.tables.contains(&table.addr())) {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let checked = unsafe { check(table) }?;
    let implementations = implementations(checked.entries);
    if attached.as_ref().is_some_and(|attached| attached.implementations != implementations) {
        return Err(Refusal::Second { soname: checked.soname });
    }
    keep_loaded(table.cast());
    // SAFETY: the names and functions are those of a wrapper, as the table's version says.
    unsafe { private::init(checked.entries) };
    let (config, warnings) = config::init();
    if config.trace {
        trace::turn_on();
    }
    redirect(&checked, config)?;
    if attached.is_none() {
        lock::hold_over_forks();
        report::at_exit();
        warnings.iter().for_each(|warning| log::warning(format_args!("{warning}")));
        banner(config, &checked.soname);
        if config.log_level >= ROUTING_LEVEL {
            tell_routes(checked.entries, config);
        }
    }
    let attached = attached.get_or_insert_default();
    attached.tables.push(table.addr());
    attached.implementations = implementations;
    Ok(())
}

/// # Safety
/// As [`miopen_forwarding_attach`].
unsafe fn check<'a>(table: *const WrapperTable) -> Result<Table<'a>, Refusal> {
    let damaged = |what| Refusal::Damaged { what };
    // SAFETY: the caller's promise.
    let table = unsafe { table.as_ref() }.ok_or(damaged("none"))?;
    let &WrapperTable { magic, version, entry_size, .. } = table;
    if magic != MAGIC || version != VERSION || usize::try_from(entry_size) != Ok(size_of::<WrapperEntry>()) {
        return Err(Refusal::Version { magic, version, entry_size });
    }
    if table.count > MAX_ENTRIES || table.entries.is_null() || !table.entries.is_aligned() {
        return Err(damaged("entries"));
    }
    // SAFETY: the table is of a known version.
    let entries = unsafe { std::slice::from_raw_parts(table.entries, table.count as usize) };
    let page = page_size();
    let slots_size = usize::try_from(table.slots_size).unwrap_or(0);
    let end = table.slots.addr().checked_add(slots_size);
    let (Some(end), true) = (end, !table.slots.is_null() && slots_size > 0 && table.slots.addr() % page == 0 && slots_size % page == 0)
    else {
        return Err(damaged("slots"));
    };
    let within = |slot: usize| slot >= table.slots.addr() && slot.checked_add(size_of::<usize>()).is_some_and(|behind| behind <= end);
    if !entries
        .iter()
        .all(|entry| !entry.name.is_null() && !entry.implementation.is_null() && entry.slot.is_aligned() && within(entry.slot.addr()))
    {
        return Err(damaged("an entry"));
    }
    let soname = if table.private_soname.is_null() {
        String::new()
    } else {
        // SAFETY: NUL-terminated in tables of this version.
        unsafe { CStr::from_ptr(table.private_soname) }.to_string_lossy().into_owned()
    };
    Ok(Table { entries, slots: table.slots, slots_size, soname })
}

fn page_size() -> usize {
    // SAFETY: no arguments that could be wrong.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1)
}

fn name(entry: &WrapperEntry) -> &'static CStr {
    // SAFETY: `check` has found it to be there, and the wrapper stays loaded.
    unsafe { CStr::from_ptr(entry.name) }
}

/// The private library's functions of the names that the shim knows. Two wrappers with the same ones are in front of the same library.
fn implementations(entries: &[WrapperEntry]) -> Vec<usize> {
    let known = |entry: &&WrapperEntry| {
        // That one is the wrapper's own.
        routing::find(name(entry).to_bytes()).is_some_and(|found| found.name != "miopenGetLastForwardedError")
    };
    entries.iter().filter(known).map(|entry| entry.implementation.addr()).collect()
}

/// The wrapper, and with it the private library, is not unloaded any more: its slots point here, and the plans' state belongs to it.
fn keep_loaded(table: *const c_void) {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is written to; the name that it then has is the loader's.
    unsafe {
        if libc::dladdr(table, &raw mut info) != 0 && !info.dli_fname.is_null() {
            stream::set_wrapper(libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE));
        }
    }
}

/// Points the slots where their calls go, and makes them read-only.
fn redirect(table: &Table<'_>, config: &Config) -> Result<(), Refusal> {
    let watches = routing::forwards_anything(config);
    let protect = |protection| {
        // SAFETY: whole pages with nothing but the slots on them.
        match unsafe { libc::mprotect(table.slots, table.slots_size, protection) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE).map_err(Refusal::Slots)?;
    for entry in table.entries {
        let name = name(entry);
        let (route, reason) = routing::decide(name.to_bytes(), config);
        let ours = match routing::find(name.to_bytes()) {
            Some(found) if route == Route::Forwarded || found.takes_solution_id() || (watches && reason == Reason::Observed) => {
                Some(found.function.0)
            }
            _ => None,
        };
        let target = ours.unwrap_or(entry.implementation);
        let thunk = if config.trace { trace::thunk(name, route, reason, target) } else { None };
        if config.trace && thunk.is_none() {
            crate::once! { log::warning(format_args!("no more thunks: calls of {} and others are not traced", name.to_string_lossy())) }
        }
        if let Some(address) = thunk.or(ours) {
            // SAFETY: within the slots, aligned, and writable. Other threads may be jumping through it already.
            unsafe { AtomicPtr::from_ptr(entry.slot.cast::<*mut c_void>()) }.store(address.cast_mut(), Ordering::Release);
        }
    }
    if let Err(error) = protect(libc::PROT_READ) {
        log::warning(format_args!("the MIOpen wrapper's slots stay writable: {error}"));
    }
    Ok(())
}

/// Says once who answers.
fn banner(config: &Config, soname: &str) {
    let stores: Vec<_> = config.stores.iter().map(|store| store.to_string_lossy()).collect();
    let stores = if stores.is_empty() { "as `hipplan store where` tells".to_owned() } else { stores.join(", ") };
    if routing::forwards_anything(config) {
        log::always(format_args!(
            "MIOpen forwarding is on: hipplan answers convolutions of which a plan is stored (stores: {stores}), {soname} the rest"
        ));
    } else {
        log::always(format_args!("MIOpen forwarding is on, but everything is excluded from it: {soname} answers all calls"));
    }
}

/// The route of each entry point, in the form of upstream's wrapper.
fn tell_routes(entries: &[WrapperEntry], config: &Config) {
    for entry in entries {
        let name = name(entry);
        let (route, reason) = routing::decide(name.to_bytes(), config);
        log::raw(format_args!(
            "[MIOpen] hipDNN routing: {} mode=enabled route={} reason={}",
            name.to_string_lossy(),
            route.text(),
            reason.text()
        ));
    }
}
