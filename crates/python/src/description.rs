//! Descriptions of simulated machines and work, as users write them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use weir_simulator::Part;

/// A topology described in TOML, as the JSON document of the simulator's `Topology`.
///
/// Raises ValueError with the line and the key that are wrong.
#[pyfunction]
pub(crate) fn parse_topology(text: &str) -> PyResult<String> {
    let topology = weir_simulator::parse_topology(text).map_err(wrong)?;
    serde_json::to_string(&topology).map_err(wrong)
}

/// The line of each key of a TOML document and of each entry of its arrays, by the keys and indices that lead there.
///
/// Raises ValueError where the text is not TOML.
#[pyfunction]
pub(crate) fn toml_lines<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let lines = PyDict::new(py);
    for (way, line) in weir_simulator::key_lines(text).map_err(wrong)? {
        let parts = way.into_iter().map(|part| match part {
            Part::Key(key) => key.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from),
            Part::Index(index) => index.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from),
        });
        lines.set_item(PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?, line)?;
    }
    Ok(lines)
}

/// The bytes of a size such as `4GiB`. Raises ValueError with an example.
#[pyfunction]
pub(crate) fn parse_size(text: &str) -> PyResult<u64> {
    weir_device::parse_size(text).map_err(wrong)
}

/// The bytes a second of a rate such as `200MB/s`. Raises ValueError with an example.
#[pyfunction]
pub(crate) fn parse_rate(text: &str) -> PyResult<f64> {
    weir_device::parse_rate(text).map(|rate| rate as f64).map_err(wrong)
}

/// The seconds of a time such as `100us`. Raises ValueError with an example.
#[pyfunction]
pub(crate) fn parse_seconds(text: &str) -> PyResult<f64> {
    weir_device::parse_time(text).map(|time| time.as_secs_f64()).map_err(wrong)
}

/// The part of a fraction such as `20%`. Raises ValueError with an example.
#[pyfunction]
pub(crate) fn parse_fraction(text: &str) -> PyResult<f64> {
    weir_fairshare::parse_fraction(text).map_err(wrong)
}

/// The way to the servers that a client takes: `unix` or `tcp`. Raises ValueError with the values that are allowed.
#[pyfunction]
pub(crate) fn parse_transport(text: &str) -> PyResult<&str> {
    text.parse::<weir_wire::TransportChoice>().map(|_| text).map_err(wrong)
}

/// The seconds for which a server may be silent. Raises ValueError with the values that are allowed.
#[pyfunction]
pub(crate) fn parse_silence(text: &str) -> PyResult<f64> {
    weir_wire::parse_silence(text).map(|silence| silence.as_secs_f64()).map_err(wrong)
}

/// The seconds between two signs of life of a mount. Raises ValueError with the values that are allowed.
#[pyfunction]
pub(crate) fn parse_heartbeat(text: &str) -> PyResult<f64> {
    weir_wire::parse_heartbeat(text).map(|interval| interval.as_secs_f64()).map_err(wrong)
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
