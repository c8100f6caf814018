//! Refactored arrays: numpy's memory goes in and comes out by the buffer protocol.

use pyo3::buffer::{Element, ElementType, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use pyo3::IntoPyObjectExt;
use std::ops::Range;
use weir_refactor::{
    Accuracy, Asked, DataType, Fill, Header, Kind, Options, Part, RefactorError, Region, Sample,
};

/// Refactor an array of 1 to 4 axes into a container: a header, a base, and chunks that each lower the error.
///
/// Every sample of the full stream is off by at most `tolerance`; by nothing if `exact`. `fill` is an array of the same
/// type: the values that mark samples as missing, which are kept exactly and are no part of errors. Raises TypeError for an array
/// whose samples cannot be coded, and ValueError for a wrong option.
#[pyfunction]
#[pyo3(signature = (array, *, codec="planes", tolerance=None, exact=false, chunk_bytes=1048576, base_bytes=None, ratios=None, fill=None, threads=1))]
// One keyword per option: Python names them, so the number of parameters is the number of options.
#[allow(clippy::too_many_arguments)]
pub(crate) fn refactor<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    codec: &str,
    tolerance: Option<f64>,
    exact: bool,
    chunk_bytes: usize,
    base_bytes: Option<usize>,
    ratios: Option<Vec<usize>>,
    fill: Option<Bound<'py, PyAny>>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let codec = codec.to_owned();
    let options = Options { codec, tolerance, exact, chunk_bytes, base_bytes, ratios, fills: None, threads };
    let buffer = PyUntypedBuffer::get(array)?;
    let fill = fill.as_ref();
    match kind(&buffer)? {
        DataType::Float32 => refactor_typed::<f32>(py, buffer, fill, options),
        DataType::Float64 => refactor_typed::<f64>(py, buffer, fill, options),
        DataType::Int8 => refactor_typed::<i8>(py, buffer, fill, options),
        DataType::Int16 => refactor_typed::<i16>(py, buffer, fill, options),
        DataType::Int32 => refactor_typed::<i32>(py, buffer, fill, options),
        DataType::Int64 => refactor_typed::<i64>(py, buffer, fill, options),
        DataType::Uint8 => refactor_typed::<u8>(py, buffer, fill, options),
        DataType::Uint16 => refactor_typed::<u16>(py, buffer, fill, options),
        DataType::Uint32 => refactor_typed::<u32>(py, buffer, fill, options),
        DataType::Uint64 => refactor_typed::<u64>(py, buffer, fill, options),
    }
}

fn refactor_typed<'py, T: Kind + Element>(
    py: Python<'py>,
    buffer: PyUntypedBuffer,
    fill: Option<&Bound<'py, PyAny>>,
    options: Options,
) -> PyResult<Bound<'py, PyBytes>> {
    let samples_of = |fill: &Bound<'py, PyAny>| PyBuffer::<T>::get(fill)?.to_vec(py);
    let fills = fill.map(samples_of).transpose()?;
    let fills = fills.map(|fills| fills.into_iter().map(Fill::of).collect());
    let options = Options { fills, ..options };
    let shape = buffer.shape().to_vec();
    let typed: PyBuffer<T> = buffer.into_typed()?;
    // Other threads may write to Python's memory while this one works without the interpreter's lock, so it is copied.
    let samples = typed.to_vec(py)?;
    let container = py.detach(|| weir_refactor::refactor(&samples, &shape, &options)).map_err(error)?;
    PyBytes::new_with(py, container.total_bytes(), |bytes| {
        py.detach(|| container.write(bytes, options.threads));
        Ok(())
    })
}

/// The kind of the samples of a buffer.
fn kind(buffer: &PyUntypedBuffer) -> PyResult<DataType> {
    let format = buffer.format();
    let is_swapped = matches!(format.to_bytes().first(), Some(b'>' | b'!'));
    let kind = match ElementType::from_format(format) {
        _ if is_swapped => None,
        ElementType::Float { bytes: 4 } => Some(DataType::Float32),
        ElementType::Float { bytes: 8 } => Some(DataType::Float64),
        ElementType::SignedInteger { bytes: 1 } => Some(DataType::Int8),
        ElementType::SignedInteger { bytes: 2 } => Some(DataType::Int16),
        ElementType::SignedInteger { bytes: 4 } => Some(DataType::Int32),
        ElementType::SignedInteger { bytes: 8 } => Some(DataType::Int64),
        ElementType::UnsignedInteger { bytes: 1 } => Some(DataType::Uint8),
        ElementType::UnsignedInteger { bytes: 2 } => Some(DataType::Uint16),
        ElementType::UnsignedInteger { bytes: 4 } => Some(DataType::Uint32),
        ElementType::UnsignedInteger { bytes: 8 } => Some(DataType::Uint64),
        _ => None,
    };
    kind.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "samples of format `{}` cannot be refactored: expected float32, float64 or integers of 8 to 64 bits in \
             the machine's byte order; convert them with array.astype",
            format.to_string_lossy()
        ))
    })
}

/// The order in which to code values on the nodes of a mesh, by coordinates (nodes x 1 to 3 axes): the node at each
/// place (64-bit integers), and the shape of the array that the places fill.
#[pyfunction]
pub(crate) fn mesh_order_by_coordinates<'py>(
    py: Python<'py>,
    coordinates: PyBuffer<f64>,
) -> PyResult<(Bound<'py, PyByteArray>, Vec<usize>)> {
    let [_, axes @ 1..=3] = *coordinates.shape() else {
        return Err(PyValueError::new_err("coordinates are an array of nodes x axes, with 1 to 3 axes"));
    };
    let numbers = coordinates.to_vec(py)?;
    let order = py.detach(|| weir_refactor::order_by_coordinates(&numbers, axes));
    Ok((array(py, &order.nodes)?, order.shape))
}

/// The order of `mesh_order_by_coordinates`, by the cells (cells x corners) of a mesh of `count` nodes.
#[pyfunction]
pub(crate) fn mesh_order_by_connectivity<'py>(
    py: Python<'py>,
    cells: PyBuffer<u64>,
    count: usize,
) -> PyResult<(Bound<'py, PyByteArray>, Vec<usize>)> {
    let [_, corners] = *cells.shape() else {
        return Err(PyValueError::new_err("connectivity is an array of cells x corners"));
    };
    let numbers = cells.to_vec(py)?;
    let order = py.detach(|| weir_refactor::order_by_connectivity(&numbers, corners, count));
    Ok((array(py, &order.nodes)?, order.shape))
}

/// The bytes of samples.
fn array<'py, T: Sample>(py: Python<'py>, samples: &[T]) -> PyResult<Bound<'py, PyByteArray>> {
    let width = T::KIND.bytes();
    PyByteArray::new_with(py, samples.len() * width, |bytes| {
        samples.iter().zip(bytes.chunks_exact_mut(width)).for_each(|(sample, bytes)| sample.put(bytes));
        Ok(())
    })
}

/// The number of bytes of a container's header, from the container's first 14 bytes or more.
///
/// Raises ValueError if that is no container, or one of a newer version.
#[pyfunction]
pub(crate) fn refactored_header_bytes(head: &[u8]) -> PyResult<u64> {
    weir_refactor::header_bytes(head).map_err(error)
}

/// The contents of a container's header.
///
/// Raises ValueError if the header is damaged, or not wholly there.
#[pyclass(frozen, module = "weir._core")]
pub(crate) struct Refactored {
    header: Header,
}

/// An array as far as its bytes were there.
#[pyclass(frozen, get_all, module = "weir._core")]
pub(crate) struct Restored {
    /// The samples in C order.
    data: Py<PyByteArray>,
    /// The shape of the array, or of the region.
    shape: Vec<usize>,
    /// Upper bound of the root of the mean squared error.
    rmse: f64,
    /// Upper bound of the error of a sample.
    max_error: f64,
    /// Container offsets of the blocks that are damaged.
    damaged: Vec<u64>,
}

#[pymethods]
impl Refactored {
    #[new]
    fn new(head: &[u8]) -> PyResult<Self> {
        Ok(Self { header: Header::decode(head).map_err(error)? })
    }

    /// The version of the container's format.
    #[getter]
    fn version(&self) -> u16 {
        self.header.version
    }

    /// The array's shape.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.header.shape.clone()
    }

    /// The name of the samples' type, as numpy has it.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.header.kind.name()
    }

    /// The name of the codec.
    #[getter]
    fn codec(&self) -> &'static str {
        self.header.codec.name()
    }

    /// Bytes of the header.
    #[getter]
    fn header_bytes(&self) -> u64 {
        self.header.header_bytes
    }

    /// Bytes of the base, which follows the header.
    #[getter]
    fn base_bytes(&self) -> u64 {
        self.header.chunks.first().map_or(0, |chunk| chunk.length)
    }

    /// Bytes of the whole container.
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.header.total_bytes()
    }

    /// The smallest and the largest finite sample.
    #[getter]
    fn range(&self) -> (f64, f64) {
        self.header.range
    }

    /// The values that mark samples as missing, as they were stated.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let value = |fill: &Fill| match self.header.kind {
            DataType::Float32 | DataType::Float64 => fill.sample::<f64>().into_bound_py_any(py),
            DataType::Uint64 => fill.sample::<u64>().into_bound_py_any(py),
            _ => fill.sample::<i64>().into_bound_py_any(py),
        };
        self.header.fills.iter().map(value).collect()
    }

    /// Offset, length, and upper bounds of the RMSE and the largest error when everything up to its end is there; the
    /// base is chunk 0.
    #[getter]
    fn chunks(&self) -> Vec<(u64, u64, f64, f64)> {
        let entry = |chunk: &weir_refactor::Chunk| {
            (chunk.offset, chunk.length, chunk.accuracy.rmse, chunk.accuracy.max_error)
        };
        self.header.chunks.iter().map(entry).collect()
    }

    /// The accuracies of the container's first bytes: the number of bytes, upper bounds of the RMSE and the largest
    /// error, and whether these were measured (or derived from the coefficients). There is a row for the end of each
    /// chunk, and for places between them.
    #[getter]
    fn table(&self) -> Vec<(u64, f64, f64, bool)> {
        let entry = |(bytes, accuracy, measured): (u64, Accuracy, bool)| {
            (bytes, accuracy.rmse, accuracy.max_error, measured)
        };
        self.header.table().into_iter().map(entry).collect()
    }

    /// The array, or a region of it, from parts of the container: where each begins, and its bytes.
    ///
    /// Missing and damaged bytes lower the accuracy. Raises ValueError if the region does not lie in the array.
    #[pyo3(signature = (parts, *, region=None, threads=1))]
    fn restore(
        &self,
        py: Python<'_>,
        parts: Vec<(u64, Bound<'_, PyAny>)>,
        region: Option<Region>,
        threads: usize,
    ) -> PyResult<Restored> {
        let held = parts
            .iter()
            .map(|(offset, bytes)| Ok((*offset, Bytes::new(py, bytes)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let parts: Vec<Part<'_>> = held.iter().map(|(offset, bytes)| (*offset, bytes.as_slice())).collect();
        let region = region.as_ref();
        match self.header.kind {
            DataType::Float32 => self.restore_typed::<f32>(py, &parts, region, threads),
            DataType::Float64 => self.restore_typed::<f64>(py, &parts, region, threads),
            DataType::Int8 => self.restore_typed::<i8>(py, &parts, region, threads),
            DataType::Int16 => self.restore_typed::<i16>(py, &parts, region, threads),
            DataType::Int32 => self.restore_typed::<i32>(py, &parts, region, threads),
            DataType::Int64 => self.restore_typed::<i64>(py, &parts, region, threads),
            DataType::Uint8 => self.restore_typed::<u8>(py, &parts, region, threads),
            DataType::Uint16 => self.restore_typed::<u16>(py, &parts, region, threads),
            DataType::Uint32 => self.restore_typed::<u32>(py, &parts, region, threads),
            DataType::Uint64 => self.restore_typed::<u64>(py, &parts, region, threads),
        }
    }

    /// Bytes from the beginning of the container that reach all the accuracies asked for.
    ///
    /// `relative` is a largest error and `psnr` a level in dB, both measured by the range of the finite samples. Raises
    /// ValueError if the whole container does not reach them.
    #[pyo3(signature = (*, rmse=None, max_error=None, psnr=None, relative=None))]
    fn bytes_for(
        &self,
        rmse: Option<f64>,
        max_error: Option<f64>,
        psnr: Option<f64>,
        relative: Option<f64>,
    ) -> PyResult<u64> {
        self.header.bytes_to_reach(&Asked { rmse, max_error, psnr, relative }).map_err(error)
    }

    /// Ranges (offset, length) of the container that hold the bytes of a region in the first `chunks` chunks: in all
    /// chunks where the number is not given.
    #[pyo3(signature = (region=None, *, chunks=None))]
    fn ranges(&self, region: Option<Region>, chunks: Option<usize>) -> PyResult<Vec<(u64, u64)>> {
        let ranges = self.header.ranges(region.as_ref(), chunks.unwrap_or(usize::MAX)).map_err(error)?;
        Ok(ranges.into_iter().map(|range| (range.start, range.end - range.start)).collect())
    }
}

impl Refactored {
    fn restore_typed<T: Kind>(
        &self,
        py: Python<'_>,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
    ) -> PyResult<Restored> {
        let shape = self.header.restored_shape(region).map_err(error)?;
        let size = shape.iter().product::<usize>() * T::KIND.bytes();
        let mut known = None;
        let data = PyByteArray::new_with(py, size, |bytes| {
            let restored = py.detach(|| self.header.restore_to_bytes::<T>(parts, region, threads, bytes));
            known = Some(restored.map_err(error)?);
            Ok(())
        })?;
        let Some(known) = known else { unreachable!("an array that was made has been restored") };
        Ok(Restored {
            data: data.unbind(),
            shape,
            rmse: known.accuracy.rmse,
            max_error: known.accuracy.max_error,
            damaged: known.damaged,
        })
    }
}

/// Python's bytes in their place, or a copy of bytes that can change while the interpreter's lock is not held.
enum Bytes<'a, 'py> {
    Borrowed(&'a [u8]),
    Viewed(Bound<'py, PyBytes>, Range<usize>),
    Copied(Vec<u8>),
}

impl<'a, 'py> Bytes<'a, 'py> {
    fn new(py: Python<'py>, object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Borrowed(bytes.as_bytes()));
        }
        match viewed(object) {
            Some((bytes, range)) => Ok(Self::Viewed(bytes, range)),
            None => Ok(Self::Copied(PyBuffer::<u8>::get(object)?.to_vec(py)?)),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Viewed(bytes, range) => &bytes.as_bytes()[range.clone()],
            Self::Copied(bytes) => bytes,
        }
    }
}

/// The bytes that a memoryview shows a part of in a row, and that part.
fn viewed<'py>(object: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyBytes>, Range<usize>)> {
    let view = object.cast::<PyMemoryView>().ok()?;
    let bytes = view.getattr("obj").ok()?.cast_into::<PyBytes>().ok()?;
    let buffer = PyBuffer::<u8>::get(view).ok()?;
    let start = (buffer.buf_ptr() as usize).checked_sub(bytes.as_bytes().as_ptr() as usize)?;
    let range = start..start.checked_add(buffer.len_bytes())?;
    (buffer.is_c_contiguous() && range.end <= bytes.as_bytes().len()).then_some((bytes, range))
}

fn error(error: RefactorError) -> PyErr {
    match error {
        RefactorError::Memory(_) => PyMemoryError::new_err(error.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}
