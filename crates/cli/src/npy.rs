//! Tensors as NumPy files. The numbers are in row-major order of the tensor's dims, whatever its strides; `bfloat16`, which NumPy does
//! not have, is read from and written as `float32`.

use anyhow::{Context, bail};
use half::f16;
use hipplan::DataType;
use hipplan::reference::HostTensor;
use npyz::{DType, NpyFile, NpyHeader, Order, TypeChar, WriterBuilder};
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

/// Fills a tensor from a file whose shape is the tensor's dims. Any numeric type is converted to the tensor's.
pub(crate) fn read(path: &Path, tensor: &mut HostTensor) -> anyhow::Result<()> {
    let values = read_values(path, tensor.dims()).with_context(|| path.display().to_string())?;
    tensor.fill(&values)?;
    Ok(())
}

fn read_values(path: &Path, dims: &[i64]) -> anyhow::Result<Vec<f64>> {
    let mut file = BufReader::new(std::fs::File::open(path)?);
    let header = NpyHeader::from_reader(&mut file)?;
    // Before anything multiplies the shape, which a hostile file chooses.
    if !header.shape().iter().copied().eq(dims.iter().map(|d| d.unsigned_abs())) {
        bail!("the shape is {:?}, expected {dims:?}", header.shape());
    }
    let DType::Plain(ty) = header.dtype() else { bail!("structured arrays are not tensors") };
    let npy = NpyFile::with_header(header, file);
    let order = npy.order();
    let values = match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 2) => all(npy, |v: f16| v.to_f64()),
        (TypeChar::Float, 4) => all(npy, |v: f32| v.into()),
        (TypeChar::Float, 8) => all(npy, |v: f64| v),
        (TypeChar::Int, 1) => all(npy, |v: i8| v.into()),
        (TypeChar::Int, 2) => all(npy, |v: i16| v.into()),
        (TypeChar::Int, 4) => all(npy, |v: i32| v.into()),
        (TypeChar::Int, 8) => all(npy, |v: i64| v as f64),
        (TypeChar::Uint, 1) => all(npy, |v: u8| v.into()),
        (TypeChar::Uint, 2) => all(npy, |v: u16| v.into()),
        (TypeChar::Uint, 4) => all(npy, |v: u32| v.into()),
        (TypeChar::Bool, _) => all(npy, |v: bool| u8::from(v).into()),
        _ => bail!("the type is {ty}, expected floats of 2, 4 or 8 bytes, integers or booleans"),
    }?;
    Ok(if order == Order::Fortran { row_major(&values, dims) } else { values })
}

fn all<T: npyz::Deserialize>(npy: NpyFile<impl Read>, convert: impl Fn(T) -> f64) -> anyhow::Result<Vec<f64>> {
    npy.data::<T>().map_err(|e| anyhow::anyhow!("{e}"))?.map(|v| Ok(convert(v?))).collect()
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
    let result = match tensor.dtype() {
        DataType::Half => save(path, tensor, values.iter().map(|&v| f16::from_f64(v))),
        DataType::Float | DataType::BFloat16 => save(path, tensor, values.iter().map(|&v| v as f32)),
        DataType::Double => save(path, tensor, values),
        DataType::Int8 => save(path, tensor, values.iter().map(|&v| v as i8)),
        DataType::UInt8 => save(path, tensor, values.iter().map(|&v| v as u8)),
        DataType::Int32 => save(path, tensor, values.iter().map(|&v| v as i32)),
        DataType::Int64 => save(path, tensor, values.iter().map(|&v| v as i64)),
        DataType::Boolean => save(path, tensor, values.iter().map(|&v| v != 0.0)),
        other => bail!("{}: tensors of type {other} have no NumPy form", path.display()),
    };
    result.with_context(|| path.display().to_string())
}

fn save<T: npyz::AutoSerialize>(path: &Path, tensor: &HostTensor, values: impl IntoIterator<Item = T>) -> anyhow::Result<()> {
    let shape: Vec<u64> = tensor.dims().iter().map(|d| d.unsigned_abs()).collect();
    let file = BufWriter::new(std::fs::File::create(path)?);
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
    writer.extend(values)?;
    writer.finish()?;
    Ok(())
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
