//! The memory of Python's objects, which calls read and fill in its place and without the interpreter's lock.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;

/// The bytes of an object that lie in a row.
///
/// The object keeps them where they are until this value is dropped: a `bytearray` refuses to grow meanwhile.
pub(crate) struct Memory {
    buffer: PyUntypedBuffer,
}

impl Memory {
    /// The memory of an object that is read.
    ///
    /// # Errors
    /// TypeError or BufferError for an object without bytes in a row.
    pub(crate) fn readable(object: &Bound<'_, PyAny>) -> PyResult<Memory> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
            return Err(PyBufferError::new_err("the bytes of the buffer do not lie in a row"));
        }
        Ok(Memory { buffer })
    }

    /// The memory of an object that is filled.
    ///
    /// # Errors
    /// Those of [`Memory::readable`]; TypeError for an object that cannot be written.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Memory> {
        let memory = Memory::readable(object)?;
        if memory.buffer.readonly() {
            return Err(PyTypeError::new_err(
                "the buffer cannot be written: give a bytearray or a writable memoryview",
            ));
        }
        Ok(memory)
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.buffer.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the view names so many bytes in a row, which its exporter keeps in place while the view lives. Bytes that
        // another thread of Python changes meanwhile are those that such a program asked to be written, as with io.FileIO:
        // they are given to system calls and to ciphers, and nothing is decided by them.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.buffer.len_bytes()) }
    }

    /// The bytes, to be filled. Only a value of [`Memory::writable`] has some.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.buffer.len_bytes() == 0 || self.buffer.readonly() {
            return &mut [];
        }
        // SAFETY: as for `bytes`; the exporter lets the view write, and this value alone gives its bytes out.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.buffer.len_bytes()) }
    }
}
