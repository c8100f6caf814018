//! Predictions of slowdown: the columns of windows come in by the buffer protocol.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_interference::{
    pooled, pooled_names, ratio_names, relative_names, Costs, Predictor, Ratios, Relative, Windows,
};

/// A prediction: window, windows ahead, basis, class, probabilities, drivers (feature, server), those of the network.
type Prediction =
    (usize, usize, &'static str, usize, Vec<f64>, Vec<(String, Option<usize>)>, Option<Vec<f64>>);

/// Named rows of features: a list for each window.
type Features = (Vec<String>, Vec<Vec<f64>>);

/// Columns of the windows of one job, copied: other threads may write to Python's memory meanwhile.
struct Columns {
    servers: usize,
    io_seconds: Vec<f64>,
    present: Vec<u8>,
    is_metadata: Vec<u8>,
    client: Vec<f64>,
    server: Vec<f64>,
}

impl Columns {
    fn windows(&self) -> PyResult<Windows<'_>> {
        Windows::new(
            self.servers,
            &self.io_seconds,
            &self.present,
            &self.is_metadata,
            &self.client,
            &self.server,
        )
        .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// `io_seconds`, `present`, `is_metadata`, `client` and `server` of windows as Python has them.
type Buffers = (PyBuffer<f64>, PyBuffer<u8>, PyBuffer<u8>, PyBuffer<f64>, PyBuffer<f64>);

fn columns(py: Python<'_>, servers: usize, buffers: &Buffers) -> PyResult<Columns> {
    let (io_seconds, present, is_metadata, client, server) = buffers;
    Ok(Columns {
        servers,
        io_seconds: io_seconds.to_vec(py)?,
        present: present.to_vec(py)?,
        is_metadata: is_metadata.to_vec(py)?,
        client: client.to_vec(py)?,
        server: server.to_vec(py)?,
    })
}

/// A trained model of `weir interference train`.
///
/// Raises ValueError where the bytes are no model of this version, or a harmed one.
#[pyclass(frozen, module = "weir._core")]
pub(crate) struct SlowdownPredictor(Predictor);

#[pymethods]
impl SlowdownPredictor {
    #[new]
    fn new(model: &[u8]) -> PyResult<Self> {
        Predictor::decode(model).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Slowdowns at which a class begins.
    #[getter]
    fn bins(&self) -> Vec<f64> {
        self.0.bins().to_vec()
    }

    /// Predict from the windows of one job, of which those from `first` on are asked for.
    ///
    /// Raises ValueError where the columns do not fit together.
    #[pyo3(signature = (workload, servers, columns, *, first=0))]
    fn predict(
        &self,
        py: Python<'_>,
        workload: &str,
        servers: usize,
        columns: Buffers,
        first: usize,
    ) -> PyResult<Vec<Prediction>> {
        let columns = self::columns(py, servers, &columns)?;
        let windows = columns.windows()?;
        let made = py.detach(|| self.0.predict(workload, &windows, first));
        let shown = made.into_iter().map(|each| {
            let drivers = each.driven_by.into_iter().map(|driver| (driver.feature, driver.server)).collect();
            let basis = each.basis.name();
            (each.window, each.ahead, basis, each.class, each.probabilities, drivers, each.network)
        });
        Ok(shown.collect())
    }
}

/// The pooled features of the windows of one job, the relative ones and the ratios; no rows of the last two where there are
/// too few windows.
///
/// Raises ValueError where the columns do not fit together, or a cost is no time.
#[pyfunction]
pub(crate) fn window_features(
    py: Python<'_>,
    servers: usize,
    columns: Buffers,
    costs: ([f64; 4], f64),
) -> PyResult<(Features, Features, Features)> {
    let columns = self::columns(py, servers, &columns)?;
    let windows = columns.windows()?;
    let costs = Costs::new(costs.0, costs.1).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let numbers = 0..windows.len();
    let of_servers = numbers.clone().map(|number| pooled(&windows, number)).collect();
    let relative = Relative::of(&windows)
        .map_or_else(Vec::new, |relative| numbers.clone().map(|number| relative.features(number)).collect());
    let ratios = Ratios::of(&windows, &costs)
        .map_or_else(Vec::new, |ratios| numbers.map(|number| ratios.features(number)).collect());
    Ok(((pooled_names(), of_servers), (relative_names(), relative), (ratio_names(), ratios)))
}
