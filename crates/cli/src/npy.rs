//! Tensors as NumPy files. The numbers are in row-major order of the tensor's dims, whatever its strides; `bfloat16`, which NumPy does
//! not have, is read from and written as `float32`.
//!
//! Our own reader, because those at hand multiply the sizes of a hostile header before anybody can look at them.

use anyhow::{Context, bail, ensure};
use half::f16;
use hipplan::DataType;
use hipplan::reference::HostTensor;
use std::io::Read;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Fills a tensor from a file whose shape is the tensor's dims. Any numeric type is converted to the tensor's.
pub(crate) fn read(path: &Path, tensor: &mut HostTensor) -> anyhow::Result<()> {
    // Eight bytes an element at most, and a header: more is not this tensor.
    let most = (tensor.elements() as u64).saturating_mul(8).saturating_add(1 << 16);
    let mut bytes = Vec::new();
    let read = crate::inputs::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.with_context(|| crate::output::path(path))?;
    let values = values(&bytes, tensor.dims()).with_context(|| crate::output::path(path))?;
    tensor.fill(&values)?;
    Ok(())
}

/// The numbers of a file, in row-major order of `dims`.
fn values(file: &[u8], dims: &[i64]) -> anyhow::Result<Vec<f64>> {
    let (header, data) = split_header(file)?;
    let descr = text_of(header, "descr")?;
    let shape = shape_of(header)?;
    ensure!(shape == dims, "the shape is {shape:?}, expected {dims:?}");
    let values = match descr {
        "<f2" => all(data, |b| f16::from_le_bytes(b).to_f64()),
        "<f4" => all(data, |b| f32::from_le_bytes(b).into()),
        "<f8" => all(data, f64::from_le_bytes),
        "|i1" => all(data, |b| i8::from_le_bytes(b).into()),
        "<i2" => all(data, |b| i16::from_le_bytes(b).into()),
        "<i4" => all(data, |b| i32::from_le_bytes(b).into()),
        "<i8" => all(data, |b| i64::from_le_bytes(b) as f64),
        "|u1" => all(data, |b| u8::from_le_bytes(b).into()),
        "<u2" => all(data, |b| u16::from_le_bytes(b).into()),
        "<u4" => all(data, |b| u32::from_le_bytes(b).into()),
        "|b1" => all(data, |[b]: [u8; 1]| u8::from(b != 0).into()),
        other => bail!("the type is {other:?}, expected little-endian floats of 2, 4 or 8 bytes, integers or booleans"),
    };
    // The dims are those of a tensor in memory: their product is counted.
    let expected = usize::try_from(dims.iter().product::<i64>())?;
    ensure!(values.len() == expected, "{} numbers follow the header, expected {expected}", values.len());
    Ok(if is_fortran(header)? { row_major(&values, dims) } else { values })
}

/// The header's text, and what follows it.
fn split_header(file: &[u8]) -> anyhow::Result<(&str, &[u8])> {
    let short = || anyhow::anyhow!("{} bytes are too few for a NumPy file", file.len());
    ensure!(file.starts_with(MAGIC), "this is not a NumPy file");
    let version = *file.get(MAGIC.len()).ok_or_else(short)?;
    let (start, len) = match version {
        1 => (10, file.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))),
        2 | 3 => (12, file.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)),
        other => bail!("NumPy format version {other}, expected 1, 2 or 3"),
    };
    let header = file.get(start..).and_then(|rest| rest.split_at_checked(len?)).ok_or_else(short)?;
    Ok((std::str::from_utf8(header.0).context("the header is not text")?, header.1))
}

/// What stands behind a key of the header, which is a Python dictionary with three known keys.
fn after_key<'h>(header: &'h str, key: &str) -> anyhow::Result<&'h str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let rest = quoted.iter().find_map(|q| header.split_once(q.as_str())).and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).with_context(|| format!("the header has no {key:?}"))
}

fn text_of<'h>(header: &'h str, key: &str) -> anyhow::Result<&'h str> {
    let rest = after_key(header, key)?;
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"')).with_context(|| format!("{key:?} is not a plain type"))?;
    rest[1..].split_once(quote).map(|(text, _)| text).with_context(|| format!("{key:?} does not end"))
}

fn shape_of(header: &str) -> anyhow::Result<Vec<i64>> {
    let rest = after_key(header, "shape")?;
    let inner = rest.strip_prefix('(').and_then(|r| r.split_once(')')).context("the shape is not a tuple")?.0;
    inner.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().with_context(|| format!("{n:?} in the shape"))).collect()
}

fn is_fortran(header: &str) -> anyhow::Result<bool> {
    let rest = after_key(header, "fortran_order")?;
    match (rest.starts_with("True"), rest.starts_with("False")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => bail!("fortran_order is neither True nor False"),
    }
}

/// Whole elements; a rest that is none makes the count wrong, which the caller notices.
fn all<const N: usize>(data: &[u8], convert: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    let mut element = [0; N];
    data.chunks(N)
        .map(|chunk| {
            element[..chunk.len()].copy_from_slice(chunk);
            convert(element)
        })
        .collect()
}

/// Values whose first dimension is the fastest, with the last the fastest.
fn row_major(values: &[f64], dims: &[i64]) -> Vec<f64> {
    let dims: Vec<usize> = dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
    let mut index = vec![0; dims.len()];
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        let at = index.iter().zip(&dims).rev().fold(0, |at, (i, dim)| at * dim + i);
        out.push(values[at]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

/// Writes a tensor.
pub(crate) fn write(path: &Path, tensor: &HostTensor) -> anyhow::Result<()> {
    let values = tensor.values();
    let (descr, data) = match tensor.dtype() {
        DataType::Half => ("<f2", bytes(&values, |v| f16::from_f64(v).to_le_bytes())),
        DataType::Float | DataType::BFloat16 => ("<f4", bytes(&values, |v| (v as f32).to_le_bytes())),
        DataType::Double => ("<f8", bytes(&values, f64::to_le_bytes)),
        DataType::Int8 => ("|i1", bytes(&values, |v| (v as i8).to_le_bytes())),
        DataType::UInt8 => ("|u1", bytes(&values, |v| (v as u8).to_le_bytes())),
        DataType::Int32 => ("<i4", bytes(&values, |v| (v as i32).to_le_bytes())),
        DataType::Int64 => ("<i8", bytes(&values, |v| (v as i64).to_le_bytes())),
        DataType::Boolean => ("|b1", bytes(&values, |v| [u8::from(v != 0.0)])),
        other => bail!("{}: tensors of type {other} have no NumPy form", crate::output::path(path)),
    };
    let shape: String = tensor.dims().iter().map(|d| format!("{d}, ")).collect();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Data starts at a multiple of 64; the header ends in a line feed.
    let start = (10 + dict.len() + 1).next_multiple_of(64);
    let header_len = u16::try_from(start - 10).context("the header is too long")?;
    let mut file = Vec::with_capacity(start + data.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&header_len.to_le_bytes());
    file.extend_from_slice(dict.as_bytes());
    file.resize(start - 1, b' ');
    file.push(b'\n');
    file.extend_from_slice(&data);
    std::fs::write(path, file).with_context(|| crate::output::path(path))
}

fn bytes<const N: usize>(values: &[f64], convert: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&v| convert(v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_order_is_turned_round() {
        // A 2x3 array [[1, 2, 3], [4, 5, 6]], columns first.
        assert_eq!(row_major(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[2, 3]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn tensors_come_back_whatever_their_strides() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.npy");
        let mut tensor = HostTensor::new(DataType::BFloat16, &[2, 3], &[1, 4]).expect("a tensor");
        tensor.fill(&[1.0, -2.0, 0.5, 3.0, 4.0, -0.25]).expect("six values");
        write(&path, &tensor).expect("written");
        let mut again = HostTensor::packed(DataType::Half, &[2, 3]).expect("a tensor");
        read(&path, &mut again).expect("read");
        assert_eq!(again.values(), tensor.values());
        let mut other = HostTensor::packed(DataType::Half, &[3, 2]).expect("a tensor");
        assert!(read(&path, &mut other).is_err_and(|e| format!("{e:#}").contains("shape")));
    }

    #[test]
    fn a_hostile_header_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.npy");
        for dict in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, ), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }",
            "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }",
            "{'descr': '<q9', 'fortran_order': False, 'shape': (2, 3), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }",
            "{",
        ] {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend_from_slice(&(dict.len() as u16 + 1).to_le_bytes());
            bytes.extend_from_slice(dict.as_bytes());
            bytes.push(b'\n');
            std::fs::write(&path, &bytes).expect("written");
            let mut tensor = HostTensor::packed(DataType::Float, &[2, 3]).expect("a tensor");
            assert!(read(&path, &mut tensor).is_err(), "{dict}");
        }
    }
}
