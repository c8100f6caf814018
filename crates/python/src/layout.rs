//! Layouts as texts, for the command line.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weir_placement::{LayoutSpecification, Stripes};

/// The components of a layout in the spelling of `lfs setstripe`: for each its `start`, its `end` (None: the end of the
/// file), its `stripe_bytes` (None: the default), its `stripes` (None: the default, -1: all) and the `targets` it
/// names.
///
/// Raises ValueError with the wrong part of the text.
#[pyfunction]
pub(crate) fn parse_layout<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
    let components = PyList::empty(py);
    let mut start = 0;
    for component in specification(text)?.components {
        let entry = PyDict::new(py);
        entry.set_item("start", start)?;
        entry.set_item("end", component.end)?;
        entry.set_item("stripe_bytes", component.stripe_bytes)?;
        let (stripes, targets) = match component.stripes {
            Stripes::Default => (None, Vec::new()),
            Stripes::All => (Some(-1), Vec::new()),
            Stripes::Count(count) => (Some(i32::from(count)), Vec::new()),
            Stripes::Targets(targets) => {
                let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
                (Some(names.len() as i32), names)
            }
        };
        entry.set_item("stripes", stripes)?;
        entry.set_item("targets", targets)?;
        components.append(entry)?;
        start = component.end.unwrap_or(start);
    }
    Ok(components)
}

/// The spelling of the layout that a text in the paper's `.ini` form describes (Tarazu, figure 12).
///
/// Raises ValueError with the line that is wrong.
#[pyfunction]
pub(crate) fn layout_from_ini(text: &str) -> PyResult<String> {
    LayoutSpecification::from_ini(text).map(|layout| layout.to_string()).map_err(wrong)
}

/// The paper's `.ini` form of a layout.
#[pyfunction]
pub(crate) fn layout_to_ini(text: &str) -> PyResult<String> {
    Ok(specification(text)?.to_ini())
}

/// The Lustre manual's advice against this layout on a system of `targets`; None where there is no such advice.
///
/// Raises ValueError where a component has more stripes than there are targets.
#[pyfunction]
pub(crate) fn layout_warning(text: &str, targets: usize) -> PyResult<Option<String>> {
    let specification = specification(text)?;
    specification.check_stripes(targets).map_err(wrong)?;
    Ok(specification.warning(targets))
}

/// For each component, the bytes that each of its stripes holds of a file of `size_bytes`, on a system of `targets`
/// where a stripe has `stripe_bytes` and a component `stripes` targets (0: all) unless the layout says otherwise.
#[pyfunction]
#[pyo3(signature = (text, size_bytes, *, stripe_bytes, stripes, targets))]
pub(crate) fn stripe_shares(
    text: &str,
    size_bytes: u64,
    stripe_bytes: u64,
    stripes: u16,
    targets: usize,
) -> PyResult<Vec<Vec<u64>>> {
    if stripe_bytes == 0 {
        return Err(PyValueError::new_err("a stripe of zero bytes: use 1048576"));
    }
    Ok(specification(text)?.shares(size_bytes, stripe_bytes, stripes, targets))
}

/// The layout with one contiguous run on each target for a file of `size_bytes`, stripes rounded up to
/// `alignment_bytes` (Tarazu, equations 2 and 3 with 131072). Components that name no number of stripes stay.
#[pyfunction]
pub(crate) fn contiguous_layout(text: &str, size_bytes: u64, alignment_bytes: u64) -> PyResult<String> {
    if alignment_bytes == 0 {
        return Err(PyValueError::new_err("an alignment of zero bytes: use 65536 or 131072"));
    }
    let mut start = 0;
    let components = specification(text)?.components.into_iter().map(|component| {
        let begin = start;
        start = component.end.unwrap_or(start);
        component.contiguous(begin, size_bytes, alignment_bytes)
    });
    Ok(LayoutSpecification { components: components.collect() }.to_string())
}

fn specification(text: &str) -> PyResult<LayoutSpecification> {
    text.parse().map_err(wrong)
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
