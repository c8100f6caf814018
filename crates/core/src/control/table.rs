//! The texts of a snapshot.

use super::snapshot::Snapshot;
use crate::accounts::jobs::JobLine;
use crate::accounts::metrics::{self, Format};
use serde::Serialize;
use std::sync::{Arc, OnceLock};

/// A snapshot whose texts are written once, by the first caller that wants them, for all.
#[derive(Debug)]
pub struct Table {
    snapshot: Arc<Snapshot>,
    jobs_text: OnceLock<Arc<str>>,
    metrics_texts: [OnceLock<Arc<str>>; Format::COUNT],
}

#[derive(Serialize)]
struct Jobs<'a> {
    jobs: Vec<&'a JobLine>,
}

impl Table {
    /// The texts of `snapshot`, which are not written yet.
    pub(crate) fn new(snapshot: Snapshot) -> Table {
        Table { snapshot: Arc::new(snapshot), jobs_text: OnceLock::new(), metrics_texts: Default::default() }
    }

    /// `/v1/jobs`.
    pub fn jobs_text(&self) -> Arc<str> {
        let text = self.jobs_text.get_or_init(|| {
            let mut jobs: Vec<&JobLine> = self.snapshot.jobs.iter().map(|job| &job.line).collect();
            jobs.sort_by(|left, right| left.job.cmp(&right.job).then(left.uid.cmp(&right.uid)));
            serde_json::to_string(&Jobs { jobs }).unwrap_or_default().into()
        });
        Arc::clone(text)
    }

    /// `/metrics`.
    pub fn metrics_text(&self, format: Format) -> Arc<str> {
        let encode = || metrics::encode(Arc::clone(&self.snapshot), format).into();
        Arc::clone(self.metrics_texts[format as usize].get_or_init(encode))
    }
}
