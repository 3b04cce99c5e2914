//! Bundles inside zstd, for the way: never served, always unwrapped first.

use super::output;
use crate::pack::Pack;
use crate::{Limits, PackError, StoreError, fs};
use std::io;
use std::path::Path;
use zstd::stream::raw::{DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe;

/// First bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Most bytes of a frame's header.
const FRAME_HEADER: usize = 18;
/// Bytes that are unwrapped or read at once.
const PIECE: usize = 1 << 17;
/// A frame may look back this far, as a power of two: what unwrapping one costs in memory, whatever the frame says.
const WINDOW_LOG_MAX: u32 = 27;

/// Whether a file begins like a wrapped bundle.
///
/// # Errors
/// It cannot be read.
pub fn is_wrapped(path: &Path) -> Result<bool, StoreError> {
    let file = open(path)?;
    let mut magic = [0; MAGIC.len()];
    if file.size() < magic.len() as u64 {
        return Ok(false);
    }
    file.read_at(0, &mut magic).map_err(StoreError::io("read", path))?;
    Ok(magic == MAGIC)
}

/// Writes `bundle` wrapped into `output`; gives the length of what was written. `level` is one of zstd's, 3 being its own choice.
///
/// # Errors
/// It is no bundle, what is to be replaced is none, or something cannot be read or written.
pub fn wrap_bundle(bundle: &Path, output: &Path, level: i32, limits: &Limits) -> Result<u64, StoreError> {
    let pack = output::open(bundle, limits)?;
    let (path, folder) = output::place(output)?;
    let failed = || StoreError::io("write a file in", &folder);
    let temp = output::create(&path, &folder)?;
    let mut encoder = Encoder::new(level).map_err(failed())?;
    // So that whoever unwraps it knows beforehand how large it is.
    encoder.set_pledged_src_size(Some(pack.bytes())).map_err(failed())?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0_u64;
    let mut put = |bytes: &[u8]| {
        temp.write_at(at, bytes).map_err(failed())?;
        at = at.saturating_add(bytes.len() as u64);
        Ok(())
    };
    pack.copy(&mut |piece| {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            let mut out = OutBuffer::around(&mut buffer[..]);
            encoder.run(&mut input, &mut out).map_err(failed())?;
            put(out.as_slice())?;
        }
        Ok(())
    })?;
    loop {
        let mut out = OutBuffer::around(&mut buffer[..]);
        let left = encoder.finish(&mut out, true).map_err(failed())?;
        put(out.as_slice())?;
        if left == 0 {
            break;
        }
    }
    temp.sync().map_err(StoreError::io("sync a file in", &folder))?;
    output::name(temp, &path)?;
    Ok(at)
}

/// Unwraps `wrapped` into `output`; gives the length of the bundle. Nothing is left where it fails.
///
/// A small file can be made that unwraps to a huge one. So the frame must say how large it is, that must not be above
/// [`Limits::max_unwrapped_bytes`], and no byte more is written; what comes out must begin with the header of a pack of that length.
///
/// # Errors
/// It is not what [`wrap_bundle`] writes, it is too large, what is to be replaced is no bundle, or something cannot be read or written.
pub fn unwrap_bundle(wrapped: &Path, output: &Path, limits: &Limits) -> Result<u64, StoreError> {
    let (path, folder) = output::place(output)?;
    let (temp, bytes) = unwrap_into(wrapped, &folder, limits)?;
    output::name(temp, &path)?;
    Ok(bytes)
}

/// Unwraps into a file without a name in the folder `tmp`.
pub(super) fn unwrap_into(wrapped: &Path, tmp: &Path, limits: &Limits) -> Result<(fs::Temp, u64), StoreError> {
    let file = open(wrapped)?;
    let stated = stated_size(wrapped, &file)?;
    crate::entry::check_limit(
        wrapped,
        "stated size of the unwrapped bundle in bytes",
        stated,
        "max_unwrapped_bytes",
        limits.max_unwrapped_bytes,
    )?;
    let temp = fs::create_temp(tmp).map_err(StoreError::io("create a file in", tmp))?;
    let mut unwrapping = Unwrapping { wrapped, tmp, temp: &temp, stated, written: 0, head: Vec::new(), limits };
    unwrapping.run(&file)?;
    temp.sync().map_err(StoreError::io("sync a file in", tmp))?;
    Ok((temp, stated))
}

/// The size that the frame says.
fn stated_size(path: &Path, file: &fs::OpenFile) -> Result<u64, StoreError> {
    let mut header = [0; FRAME_HEADER];
    let len = usize::try_from(file.size()).unwrap_or(FRAME_HEADER).min(FRAME_HEADER);
    let header = header.get_mut(..len).unwrap_or_default();
    file.read_at(0, header).map_err(StoreError::io("read", path))?;
    if !header.starts_with(&MAGIC) {
        return Err(wrong(path, format!("first bytes are {:02x?}", header.get(..MAGIC.len()).unwrap_or(header)), "a zstd frame"));
    }
    match zstd_safe::get_frame_content_size(header) {
        Ok(Some(size)) => Ok(size),
        Ok(None) => Err(wrong(
            path,
            "the frame does not say how large it is".into(),
            "one that does, as `hipplan bundle export --compress` writes it",
        )),
        Err(_) => Err(wrong(path, "the frame's header is damaged or cut short".into(), "a zstd frame")),
    }
}

struct Unwrapping<'u> {
    wrapped: &'u Path,
    tmp: &'u Path,
    temp: &'u fs::Temp,
    stated: u64,
    written: u64,
    /// The first bytes, until they are enough for a header.
    head: Vec<u8>,
    limits: &'u Limits,
}

impl Unwrapping<'_> {
    fn run(&mut self, file: &fs::OpenFile) -> Result<(), StoreError> {
        let damaged = |cause: io::Error| wrong(self.wrapped, format!("zstd says {cause}"), "a frame that is whole");
        let mut decoder = Decoder::new().map_err(damaged)?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(damaged)?;
        let mut buffer = vec![0; PIECE];
        let mut is_whole = false;
        let mut failed = Ok(());
        let read = file.pieces(0, file.size(), |piece| {
            failed = self.unwrap_piece(&mut decoder, piece, &mut buffer, &mut is_whole);
            failed.is_ok()
        });
        read.map_err(StoreError::io("read", self.wrapped))?;
        failed?;
        if !is_whole || self.written != self.stated {
            let found = format!("{} bytes came out", self.written);
            return Err(wrong(self.wrapped, found, "as many as the frame says; the file is cut short"));
        }
        Ok(())
    }

    fn unwrap_piece(&mut self, decoder: &mut Decoder<'_>, piece: &[u8], buffer: &mut [u8], is_whole: &mut bool) -> Result<(), StoreError> {
        let mut input = InBuffer::around(piece);
        loop {
            if *is_whole {
                return match piece.len().saturating_sub(input.pos()) {
                    0 => Ok(()),
                    more => Err(wrong(self.wrapped, format!("{more} bytes or more behind the frame"), "nothing behind it")),
                };
            }
            let mut out = OutBuffer::around(&mut *buffer);
            let hint = decoder.run(&mut input, &mut out);
            let hint = hint.map_err(|cause| wrong(self.wrapped, format!("zstd says {cause}"), "a frame that is whole"))?;
            let is_full = out.pos() == out.capacity();
            let bytes = out.as_slice();
            self.put(bytes)?;
            *is_whole = hint == 0;
            // What did not fit is still inside.
            if input.pos() == piece.len() && !is_full && !*is_whole {
                return Ok(());
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let end = self.written.saturating_add(bytes.len() as u64);
        if end > self.stated {
            return Err(wrong(self.wrapped, format!("{end} bytes or more came out"), "no more than the frame says"));
        }
        if self.head.len() < Pack::HEADER {
            let room = Pack::HEADER.saturating_sub(self.head.len()).min(bytes.len());
            self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
            if let Some(header) = self.head.first_chunk::<{ Pack::HEADER }>() {
                // What is no bundle is not written out in full first.
                Pack::check_header(header, self.stated, self.limits).map_err(|cause| StoreError::pack(self.wrapped, cause))?;
            }
        }
        self.temp.write_at(self.written, bytes).map_err(StoreError::io("write a file in", self.tmp))?;
        self.written = end;
        Ok(())
    }
}

fn open(path: &Path) -> Result<fs::OpenFile, StoreError> {
    let real = fs::resolved(path).map_err(StoreError::io("open", path))?;
    let opened = fs::open(&real).map_err(StoreError::io("open", path))?;
    opened.map_err(|kind| not_a_bundle(path, kind.name()))
}

/// Something that is no file was named where a bundle is wanted.
fn not_a_bundle(path: &Path, found: &str) -> StoreError {
    let (path, found) = (path.to_owned(), found.to_owned());
    StoreError::Named { path, found, expected: "a bundle, which is a regular file", advice: "name the file of a bundle" }
}

/// What to say of a file that does not open as a bundle: the first bytes of one that is wrapped are not those of a bundle.
pub(crate) fn not_served(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::FileType { found, .. } => not_a_bundle(path, found),
        StoreError::Pack { .. } if is_wrapped(path).unwrap_or(false) => StoreError::Named {
            path: path.to_owned(),
            found: "a bundle that is wrapped in zstd".to_owned(),
            expected: "one that is not wrapped",
            advice: "take it into a store with `hipplan bundle import`, or unwrap it with `zstd -d`",
        },
        error => error,
    }
}

fn wrong(path: &Path, found: String, expected: &'static str) -> StoreError {
    StoreError::pack(path, PackError::Wrapping { found, expected })
}
