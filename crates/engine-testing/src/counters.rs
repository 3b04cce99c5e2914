//! What a test plugin was asked, read from the plugin itself.

use std::path::Path;

/// Counters that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// The file is not a library, or not a test plugin.
    #[error("{path}: {source}")]
    Load {
        /// The file.
        path: String,
        /// Why.
        source: libloading::Error,
    },
    /// The two halves do not agree on the counters.
    #[error("{path}: the plugin's counters have {found} bytes, these {expected}; change src/counters.rs and programs/record.h together")]
    Size {
        /// The file.
        path: String,
        /// Bytes in the plugin.
        found: usize,
        /// Bytes here.
        expected: usize,
    },
}

/// The entries of a plugin, in the order of `programs/record.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the functions of the ABI")]
pub enum Entry {
    GetAllEngineIds,
    Create,
    Destroy,
    SetStream,
    GetApplicableEngineIds,
    GetEngineDetails,
    DestroyEngineDetails,
    GetWorkspaceSize,
    CreateExecutionContext,
    DestroyExecutionContext,
    GetContextWorkspaceSize,
    Execute,
    ExecuteWithOverrides,
    Serialize,
    DestroySerialized,
    CreateFromSerialized,
    GetEngineName,
    SetLoggingCallback,
    SetLogLevel,
    GetLastError,
}

const ENTRIES: usize = 20;
const RECORDED: usize = 64;

/// What a plugin counted since it was loaded into this process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Counters {
    calls: [u64; ENTRIES],
    /// Bytes of payloads that were handed over, whether it read them or not.
    pub payload_bytes: u64,
    /// The last stream that was set.
    pub last_stream: u64,
    /// Address of the last execution's workspace.
    pub last_workspace: u64,
    last_count: u64,
    last_uids: [i64; RECORDED],
    last_pointers: [u64; RECORDED],
    /// Setting of `test.block` in the last context that was made or restored.
    pub last_block: i64,
    /// Setting of `test.order`: 0 for rows, 1 for columns.
    pub last_order: i64,
    /// Handles that are not destroyed.
    pub live_handles: i64,
    /// Contexts that are not destroyed.
    pub live_contexts: i64,
    /// Details and serialised bytes that were not given back.
    pub live_buffers: i64,
}

impl Counters {
    /// Reads the counters of a test plugin. Loads it, if this process has not; it stays loaded.
    ///
    /// # Errors
    /// The file is not a test plugin, or its counters have another size.
    pub fn read(plugin: &Path) -> Result<Self, CountersError> {
        type Read = unsafe extern "C" fn(*mut Counters, usize) -> usize;
        let path = plugin.display().to_string();
        let load = |source| CountersError::Load { path: path.clone(), source };
        // SAFETY: a library that this crate compiled, whose initialisers do nothing but C's own.
        let library = unsafe { libloading::Library::new(plugin) }.map_err(load)?;
        let mut counters = Self {
            calls: [0; ENTRIES],
            payload_bytes: 0,
            last_stream: 0,
            last_workspace: 0,
            last_count: 0,
            last_uids: [0; RECORDED],
            last_pointers: [0; RECORDED],
            last_block: 0,
            last_order: 0,
            live_handles: 0,
            live_contexts: 0,
            live_buffers: 0,
        };
        // SAFETY: the signature of programs/record.h. The function writes only where the size is that of its own structure, which has
        // the same fields in the same order.
        let found = unsafe {
            let read = library.get::<Read>(b"test_plugin_counters\0").map_err(load)?;
            read(&raw mut counters, size_of::<Self>())
        };
        // Counters live in the library: it must not go away between two readings.
        std::mem::forget(library);
        if found == size_of::<Self>() { Ok(counters) } else { Err(CountersError::Size { path, found, expected: size_of::<Self>() }) }
    }

    /// How often an entry was called.
    pub fn calls(&self, entry: Entry) -> u64 {
        self.calls[entry as usize]
    }

    /// The last execution's buffers, by uid and address, in the order in which they came; at most 64.
    pub fn last_buffers(&self) -> Vec<(i64, u64)> {
        let count = usize::try_from(self.last_count).unwrap_or(RECORDED);
        self.last_uids.iter().copied().zip(self.last_pointers).take(count).collect()
    }
}
