//! The server at one moment, as the control API shows it.

use crate::accounts::jobs::{JobLine, ShownJob};
use crate::accounts::metrics;
use crate::control::Status;
use serde::Serialize;
use std::sync::{Arc, OnceLock};

/// The server at one moment. Its texts are written once, by the first caller that wants them, for all.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<ShownJob>,
    pub(crate) refusals: u64,
    pub(crate) malformed: u64,
    jobs_text: OnceLock<Arc<str>>,
    metrics_text: OnceLock<Arc<str>>,
}

#[derive(Serialize)]
struct Jobs<'a> {
    jobs: Vec<&'a JobLine>,
}

impl Snapshot {
    pub(crate) fn new(status: Status, jobs: Vec<ShownJob>, refusals: u64, malformed: u64) -> Snapshot {
        let (jobs_text, metrics_text) = (OnceLock::new(), OnceLock::new());
        Snapshot { status, jobs, refusals, malformed, jobs_text, metrics_text }
    }

    /// `/v1/jobs`.
    pub(crate) fn jobs_text(&self) -> Arc<str> {
        let text = self.jobs_text.get_or_init(|| {
            let mut jobs: Vec<&JobLine> = self.jobs.iter().map(|job| &job.line).collect();
            jobs.sort_by(|left, right| left.job.cmp(&right.job).then(left.uid.cmp(&right.uid)));
            serde_json::to_string(&Jobs { jobs }).unwrap_or_default().into()
        });
        Arc::clone(text)
    }

    /// `/metrics`.
    pub(crate) fn metrics_text(self: &Arc<Snapshot>) -> Arc<str> {
        Arc::clone(self.metrics_text.get_or_init(|| metrics::encode(Arc::clone(self)).into()))
    }
}
