//! Hostile files are refused with bounded work (H2): what a reader allocates, and how much of a large file it looks at, is counted.

use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::code_object::CodeObject;
use hipplan_serialize::driver::LogReader;
use hipplan_serialize::hipdnn::engine::{EngineConfig, EngineDetails};
use hipplan_serialize::hipdnn::{Container, PlanEnvelope};
use hipplan_serialize::import::import_any;
use hipplan_serialize::plan::{PayloadHead, PlanView};
use hipplan_serialize::{GraphError, Limits, VerifiedGraph, canon, json};
use hipplan_store::{EntryKind, Limits as StoreLimits, bundle_facts, check_pack, record};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Counts what the thread under test asks for, and what it holds.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are plain cells without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|n| n.set(n.get().saturating_add(layout.size())));
        LIVE.with(|n| n.set(n.get().wrapping_add_unsigned(layout.size())));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.with(|n| n.set(n.get().wrapping_sub_unsigned(layout.size())));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `f` gives, and the bytes that it asked the allocator for, all told.
fn counted<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.with(Cell::get);
    let value = f();
    (value, ALLOCATED.with(Cell::get) - before)
}

/// What `f` gives, and the bytes that this thread holds more than before.
fn held<T>(f: impl FnOnce() -> T) -> (T, isize) {
    let before = LIVE.with(Cell::get);
    let value = f();
    (value, LIVE.with(Cell::get).wrapping_sub(before))
}

/// A reader: what it says of some bytes, which start at a multiple of 64; nothing if it accepts them.
type Read = fn(&[u8]) -> Option<String>;

/// Every reader of bytes from outside.
const READERS: [(&str, Read); 12] = [
    ("graph", |b| VerifiedGraph::verify(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
    ("graph or artifact", |b| VerifiedGraph::verify_any(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
    ("encoding", |b| canon::decode(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
    ("plan", |b| PlanView::open(b).and_then(|p| p.verify()).err().map(|e| e.to_string())),
    ("payload", |b| PayloadHead::parse(b).and_then(PayloadHead::read_tables).err().map(|e| e.to_string())),
    ("record", |b| record::decode(EntryKind::Selection, &[0; 32], b).err().map(|e| e.to_string())),
    ("container", |b| {
        let opened = Container::open(b, &Limits::DEFAULT);
        opened.and_then(|c| c.graph().map(|_| ()).and_then(|()| c.plan().map(|_| ()))).err().map(|e| e.to_string())
    }),
    ("envelope", |b| PlanEnvelope::read(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
    ("shared library", |b| hipplan_shim::elf::Elf::read(b).err().map(|e| e.to_string())),
    ("code object", |b| CodeObject::read(b).err().map(|e| e.to_string())),
    ("json", |b| json::import(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
    ("anything", |b| import_any(b, &Limits::DEFAULT).err().map(|e| e.to_string())),
];

/// A reader of a file, with a folder for temporary files: what it says of some content; nothing if it accepts it.
type ReadFile = fn(&Path, &Path) -> Option<String>;

/// Every reader of files of many entries. What is wrapped in zstd comes out and is read as a bundle then.
const FILE_READERS: [(&str, ReadFile); 2] = [
    ("pack", |path, _| check_pack(path, &StoreLimits::default()).err().map(|e| e.to_string())),
    // Its entries are looked into, and may be bad: that is no refusal of the file.
    ("bundle", |path, tmp| bundle_facts(path, tmp, true, &StoreLimits::default()).err().map(|e| e.to_string())),
];
/// What they may ask for beside what other readers may: pieces of a file, and of what is unwrapped.
const PIECES: usize = 640 << 10;
const GOLDEN_PACK: &[u8] = include_bytes!("../../../corpus/golden/v1.pack");

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

/// A file of this thread's, with this content.
fn file_of(name: &str, content: &[u8]) -> (PathBuf, PathBuf) {
    FOLDER.with(|folder| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file of this size");
        (path, folder.path().to_owned())
    })
}

/// Every reader of files refuses a file, and asks for no more than `most` bytes of memory beside its pieces while it does.
fn refused_by_readers_of_files(what: &str, (path, tmp): &(PathBuf, PathBuf), most: usize) {
    for (name, read) in FILE_READERS {
        let (refusal, allocated) = counted(|| read(path, tmp));
        let refusal = refusal.unwrap_or_else(|| panic!("{what}: {name} accepts it"));
        assert!(allocated <= most + PIECES, "{what}: {name} asks for {allocated} bytes, to say: {refusal}");
    }
}

/// Every reader refuses the bytes, and asks for no more than `most` bytes of memory while it does.
fn refused_by_all(what: &str, bytes: &[u8], most: usize) {
    let bytes = aligned_copy(bytes);
    for (name, read) in READERS {
        let (refusal, allocated) = counted(|| read(&bytes));
        let refusal = refusal.unwrap_or_else(|| panic!("{what}: {name} accepts it"));
        assert!(allocated <= most, "{what}: {name} asks for {allocated} bytes, to say: {refusal}");
    }
    refused_by_readers_of_files(what, &file_of("file", &bytes), most);
    let frame = zstd::bulk::compress(&bytes, 1).expect("memory for a frame");
    refused_by_readers_of_files(what, &file_of("wrapped", &frame), most);
}

const GIB: u32 = 1 << 30;

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A buffer whose root table has these slots, each an offset of four bytes to what `rest` holds: `(slot, place in rest)`.
fn root_with(slots: &[(usize, usize)], rest: &[u8]) -> Vec<u8> {
    let count = slots.iter().map(|s| s.0 + 1).max().unwrap_or(0);
    let vtable_len = 4 + 2 * count;
    let table = (4 + vtable_len).next_multiple_of(4);
    let mut out = vec![0; table];
    put(&mut out, 0, table as u32);
    let vtable = table - vtable_len;
    out[vtable..vtable + 2].copy_from_slice(&(vtable_len as u16).to_le_bytes());
    out[vtable + 2..vtable + 4].copy_from_slice(&((4 + 4 * slots.len()) as u16).to_le_bytes());
    out.extend((vtable_len as u32).to_le_bytes());
    for (i, &(slot, place)) in slots.iter().enumerate() {
        let field = 4 + 4 * i;
        out[vtable + 4 + 2 * slot..][..2].copy_from_slice(&(field as u16).to_le_bytes());
        // From the field to `rest`, which follows the table.
        out.extend(((4 * slots.len() - 4 * i + place) as u32).to_le_bytes());
    }
    out.extend_from_slice(rest);
    out
}

#[test]
fn lengths_of_a_gibibyte() {
    // FlatBuffers: a list, a text, bytes of that length, in every slot of every root table that is read.
    for slot in 0..10 {
        for rest in [words(&[GIB, 0, 0, 0]), words(&[GIB / 8, 0]), words(&[u32::MAX, 0])] {
            refused_by_all("a list", &root_with(&[(slot, 0)], &rest), 8 << 10);
            let mut container = root_with(&[(slot, 0)], &rest);
            container.splice(4..4, *b"HDGP\0\0\0\0");
            container[0] += 8;
            refused_by_all("a list in a container", &container, 8 << 10);
        }
    }
    // Headers of 64 bytes and more: every aligned word says a gibibyte, then a whole double word does.
    let headers: [&[u8]; 6] = [
        b"\x89HPPK\r\n\x1a\x01",
        b"\x89HPGR\r\n\x1a\x01",
        b"\x89HPPL\r\n\x1a\x01",
        b"\x89HPPY\r\n\x1akind",
        b"\x89HPRC\r\n\x1a\x01",
        b"HPCANON\0\x01",
    ];
    for header in headers {
        for at in (8..96).step_by(4) {
            for word in [GIB, GIB / 64, u32::MAX] {
                let mut bytes = header.to_vec();
                bytes.resize(4096, 0);
                if at > 8 {
                    put(&mut bytes, at, word);
                }
                refused_by_all("a header", &bytes, 8 << 10);
            }
        }
    }
    // A canonical encoding whose records, lists and counts are that long, with the right magic and version.
    for counts in [[0, GIB, 0], [0, 1, GIB], [0, 0, GIB], [0, 1, 24]] {
        let mut bytes = b"HPCANON\0\x01\0\0\0".to_vec();
        bytes.extend(words(&counts));
        bytes.extend(words(&[u32::MAX; 16]));
        refused_by_all("an encoding", &bytes, 8 << 10);
    }
}

/// The header of a pack whose digest is right, whatever it says.
fn sealed(mut pack: Vec<u8>) -> Vec<u8> {
    let mut digest = blake3::Hasher::new_derive_key("hipplan pack header 1");
    digest.update(&pack[..480]);
    pack[480..512].copy_from_slice(digest.finalize().as_bytes());
    pack
}

#[test]
fn packs_whose_header_lies() {
    let (path, tmp) = file_of("good", GOLDEN_PACK);
    for (name, read) in FILE_READERS {
        let (refusal, allocated) = counted(|| read(&path, &tmp));
        assert!(refusal.is_none() && allocated <= PIECES, "{name}: {refusal:?}, {allocated} bytes");
    }
    for at in (8..480).step_by(4) {
        for word in [GIB, GIB / 64, u32::MAX] {
            let mut pack = GOLDEN_PACK.to_vec();
            put(&mut pack, at, word);
            let pack = sealed(pack);
            let what = format!("{word:#x} at {at}");
            refused_by_readers_of_files(&what, &file_of("file", &pack), 8 << 10);
            let frame = zstd::bulk::compress(&pack, 1).expect("memory for a frame");
            refused_by_readers_of_files(&what, &file_of("wrapped", &frame), 8 << 10);
        }
    }
}

/// Tables of few slots: what stands in others is a newer plugin's, and is left out.
#[test]
fn engine_tables_of_a_gibibyte() {
    for rest in [words(&[GIB, 0, 0, 0]), words(&[GIB / 8, 0]), words(&[u32::MAX, 0])] {
        for slot in 1..4 {
            let bytes = root_with(&[(slot, 0)], &rest);
            let (details, allocated) = counted(|| EngineDetails::parse(&bytes, &Limits::DEFAULT));
            assert!(details.is_err() && allocated <= 8 << 10, "slot {slot}: {details:?}, {allocated} bytes");
        }
        let bytes = root_with(&[(1, 0)], &rest);
        let (config, allocated) = counted(|| EngineConfig::parse(&bytes, &Limits::DEFAULT));
        assert!(config.is_err() && allocated <= 8 << 10, "{config:?}, {allocated} bytes");
    }
}

#[test]
fn nesting() {
    for (open, close) in [("[", "]"), ("{\"nodes\":", "}"), ("{\"tensors\":[", "]}")] {
        let deep = [open.repeat(10_000), close.repeat(10_000)].concat();
        refused_by_all("deep text", deep.as_bytes(), 64 << 10);
        refused_by_all("deep text that does not end", open.repeat(10_000).as_bytes(), 64 << 10);
    }
    // Containers in containers: the inner one is no graph.
    let mut bytes = vec![0xff; 16];
    for _ in 0..10_000 {
        let mut outer = words(&[16, u32::from_le_bytes(*b"HDGP"), 8 << 16 | 6, 4, 8, 4, bytes.len() as u32]);
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    // `anything` and `container` copy what they do not find aligned, once.
    refused_by_all("containers in containers", &bytes, 2 * bytes.len() + (64 << 10));
}

/// A list of `count` offsets that all lead to one empty table.
fn shared_tables(slot: usize, count: u32) -> Vec<u8> {
    let list = 4 + 4 * count as usize;
    let mut rest = words(&[count]);
    // The table stands behind the list and its own vtable of four bytes.
    let table = list + 4;
    rest.extend((0..count).flat_map(|i| ((table - (4 + 4 * i as usize)) as u32).to_le_bytes()));
    rest.extend(words(&[4 << 16 | 4, 4]));
    root_with(&[(slot, 0)], &rest)
}

/// As many tables as wanted, each its own, all with one vtable.
fn own_tables(slot: usize, count: u32) -> Vec<u8> {
    let list = 4 + 4 * count as usize;
    let mut rest = words(&[count]);
    let vtable = list;
    let first = vtable + 4;
    rest.extend((0..count as usize).flat_map(|i| ((first + 4 * i - (4 + 4 * i)) as u32).to_le_bytes()));
    rest.extend(words(&[4 << 16 | 4]));
    rest.extend((0..count).flat_map(|i| (4 + 4 * i).to_le_bytes()));
    root_with(&[(slot, 0)], &rest)
}

#[test]
fn more_than_a_million_tables() {
    for slot in [4, 5] {
        for bytes in [shared_tables(slot, 1_200_000), own_tables(slot, 1_200_000)] {
            let bytes = aligned_copy(&bytes);
            let (result, allocated) = counted(|| VerifiedGraph::verify(&bytes, &Limits::DEFAULT).map(|_| ()));
            let error = result.expect_err("too many tables");
            assert!(matches!(error, GraphError::Limit { limit_name: "max_tables", .. }), "{error}");
            assert!(allocated < 8 << 10, "{allocated}");
        }
        // A few are read, and found to be no tensors or no nodes.
        for bytes in [shared_tables(slot, 3), own_tables(slot, 3)] {
            let error = VerifiedGraph::verify(&aligned_copy(&bytes), &Limits::DEFAULT).expect_err("empty tables");
            assert!(!matches!(error, GraphError::Structure(_) | GraphError::Limit { .. }), "{error}");
        }
    }
}

#[test]
fn offsets_near_the_maximum() {
    for offset in [u32::MAX, u32::MAX - 3, 0x8000_0000, 0x7fff_ffff, 0x7fff_fffc, GIB] {
        refused_by_all("a root", &words(&[offset, 0, 0, 0]), 8 << 10);
        refused_by_all("a root of a container", &words(&[offset, u32::from_le_bytes(*b"HDGP"), 0, 0]), 8 << 10);
        // The distance from a table to its vtable, which is signed.
        refused_by_all("a vtable", &words(&[8, 0, offset, 0, 0]), 8 << 10);
        for slot in 0..10 {
            let mut bytes = root_with(&[(slot, 0)], &[0; 16]);
            let field = bytes.len() - 20;
            put(&mut bytes, field, offset);
            refused_by_all("a field", &bytes, 8 << 10);
            let list = [words(&[2, offset, offset]), vec![0; 16]].concat();
            refused_by_all("an element", &root_with(&[(slot, 0)], &list), 8 << 10);
        }
    }
}

#[test]
fn nothing_but_ones() {
    for len in [1, 4, 8, 64, 96, 4096, 1 << 20] {
        // `anything` copies what may be a graph, once.
        refused_by_all("0xff", &vec![0xff; len], len + (16 << 10));
    }
}

/// A gibibyte of memory that costs nothing until it is touched.
struct Sparse {
    at: *mut u8,
}

impl Sparse {
    const LEN: usize = GIB as usize;

    fn new(beginning: &[u8]) -> Self {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at a place that the system chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), Self::LEN, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: the range was mapped above. Small pages, so that each that is touched is counted; where there are no others, it is refused.
        unsafe { libc::madvise(at, Self::LEN, libc::MADV_NOHUGEPAGE) };
        let at = at.cast::<u8>();
        // SAFETY: the mapping is writable, longer than the beginning, and nobody else knows it.
        unsafe { std::ptr::copy_nonoverlapping(beginning.as_ptr(), at, beginning.len()) };
        Self { at }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long and stays until `self` is dropped; nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.at, Self::LEN) }
    }

    /// Pages that were touched.
    fn touched(&self) -> usize {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
        let mut is_there = vec![0_u8; Self::LEN.div_ceil(page)];
        // SAFETY: the range is what `new` has mapped, and the call writes a byte for each of its pages.
        assert_eq!(unsafe { libc::mincore(self.at.cast(), Self::LEN, is_there.as_mut_ptr()) }, 0);
        is_there.iter().filter(|&&byte| byte & 1 == 1).count()
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped.
        unsafe { libc::munmap(self.at.cast(), Self::LEN) };
    }
}

/// A file of a gibibyte whose header is in order: what is over a limit is refused before it is read, and opening a plan costs nothing
/// that grows with its payload.
#[test]
fn large_files_are_not_read_to_be_refused() {
    let len = u64::from(GIB);
    let mut artifact = b"\x89HPGR\r\n\x1a\x01".to_vec();
    artifact.resize(64, 0);
    artifact[16..24].copy_from_slice(&(len - 64).to_le_bytes());
    let mut plan = b"\x89HPPL\r\n\x1a\x01".to_vec();
    plan.resize(64, 0);
    plan[16..24].copy_from_slice(&len.to_le_bytes());
    put(&mut plan, 24, 2);
    put(&mut plan, 28, 152);
    let graph = root_with(&[(4, 0)], &words(&[3, 0, 0, 0]));
    let container = words(&[16, u32::from_le_bytes(*b"HDGP"), 8 << 16 | 6, 4, 8, 4, GIB - 28]);
    let files = [("artifact", artifact), ("plan", plan), ("graph", graph), ("container", container), ("text", b"{\"nodes\": ".to_vec())];
    for (what, beginning) in &files {
        for (name, read) in READERS {
            let file = Sparse::new(beginning);
            // A payload is a part of a plan, whose size the store has limited; its tables are all that is looked at.
            let (refusal, allocated) = counted(|| read(file.bytes()));
            let touched = file.touched();
            let refusal = refusal.unwrap_or_else(|| panic!("{what}: {name} accepts it"));
            assert!(touched < 64, "{what}: {name} touches {touched} pages, to say: {refusal}");
            assert!(allocated < 64 << 10, "{what}: {name} asks for {allocated} bytes, to say: {refusal}");
        }
    }
    // As files: sparse ones, of which most is a hole. A pack whose header says that it is so long, and whose tables are as they were.
    let mut pack = GOLDEN_PACK.to_vec();
    pack[16..24].copy_from_slice(&len.to_le_bytes());
    let pack = ("pack", sealed(pack));
    for (what, beginning) in files.iter().chain([&pack]) {
        let place = file_of("large", beginning);
        File::options().write(true).open(&place.0).and_then(|file| file.set_len(len)).expect("a sparse file");
        refused_by_readers_of_files(what, &place, 64 << 10);
    }
    // A frame of a few kilobytes that unwraps to as much.
    let mut frame = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory for a frame");
    frame.set_pledged_src_size(Some(len)).and_then(|()| frame.include_contentsize(true)).expect("a size that can be said");
    for _ in 0..1024 {
        frame.write_all(&[0; 1 << 20]).expect("compressed");
    }
    refused_by_readers_of_files("a bomb", &file_of("wrapped", &frame.finish().expect("compressed")), 64 << 10);
}

/// A line that never ends, and more problems and more nonsense than anybody wants: memory stays what the limits say.
#[test]
fn endless_logs() {
    let limits = Limits { max_problems: 100, max_skipped: 50, ..Limits::DEFAULT };
    let ((), allocated) = counted(|| {
        let mut reader = LogReader::new(&limits);
        for _ in 0..4096 {
            reader.push(&[b'x'; 4096]);
        }
        let log = reader.finish();
        assert!(log.problems.is_empty());
    });
    assert!(allocated < 16 * limits.max_line_bytes, "{allocated}");

    let text: String = (1..2000).map(|n| format!("MIOpenDriver conv -n {n} -F 1\nMIOpenDriver conv -x {}\n", -n)).collect();
    let mut reader = LogReader::new(&limits);
    reader.push(text.as_bytes());
    let log = reader.finish();
    assert_eq!((log.problems.len(), log.skipped.len()), (100, 50));
    assert_eq!(log.coverage.read + log.coverage.lost + log.coverage.other, 2 * 1999);
}

/// A log in which no two problems are equal: what is held for each is the problem, its text and a place in two indices, not how its
/// flags were read.
#[test]
fn different_problems_are_small() {
    const PROBLEMS: isize = 7000;
    let line = |n: isize| {
        format!(
            "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n {n} -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 \
             -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1\n"
        )
    };
    let (reader, reading) = held(|| {
        let mut reader = LogReader::new(&Limits::DEFAULT);
        for n in 1..=PROBLEMS {
            reader.push(line(n).as_bytes());
        }
        reader
    });
    assert!(reading < 960 * PROBLEMS, "{} bytes per problem while reading", reading / PROBLEMS);
    let (log, more) = held(|| reader.finish());
    let kept = reading + more;
    assert!(kept < 640 * PROBLEMS, "{} bytes per problem", kept / PROBLEMS);
    assert_eq!((log.problems.len(), log.records.len()), (7000, 7000));
    // Nothing is lost by that.
    let last = log.records[6999].reading(&Limits::DEFAULT).expect("read before");
    assert_eq!((last.flags[0].flag, last.flags[0].value.as_str()), ("batchsize", "7000"));
    assert_eq!(last.problems, [log.problems[6999].problem]);
}

/// Notes of code objects that promise thousands of millions of kernels, arguments, keys.
#[test]
fn notes_that_promise_more_than_there_is() {
    let good =
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/code-objects/gfx942-v5.co")).expect("a file");
    let place = |text: &[u8]| good.windows(text.len()).position(|w| w == text).expect("it is there") + text.len();
    for at in [place(b"amdhsa.kernels"), place(b".args"), place(b".args") + 1, place(b"amdhsa.version"), place(b"amdhsa.kernels") - 16] {
        for kind in [0xdd, 0xdf, 0xc6, 0xdb] {
            let mut bytes = good.clone();
            bytes[at] = kind;
            let (refusal, allocated) = counted(|| CodeObject::read(&bytes).err().map(|e| e.to_string()));
            let refusal = refusal.unwrap_or_else(|| panic!("byte {at} as {kind:#x} is accepted"));
            assert!(allocated <= 4 << 10, "{allocated} bytes to say: {refusal}");
        }
    }
}
