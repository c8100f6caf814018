//! Predictions of slowdown in the control API.
//!
//! `weir interference serve` joins the windows of all servers, predicts, and tells every server the predictions of the last
//! window. A server keeps them for [`KEPT_WINDOWS`] windows: predictions that nobody renews are not shown.

use super::windows::{sight, Sight};
use super::{failure, json, Answer, Desk};
use crate::control::http::Request;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{text, DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_core::accounts::metrics::{self, label_text, Format};

/// `GET` shows the predictions, `PUT` tells them.
pub(super) const PATH: &str = "/v1/interference";
/// Longest body of a `PUT` by the holder of the site key: the predictions of [`JOBS_MAX`] jobs.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;
/// Most jobs with predictions.
const JOBS_MAX: usize = 1024;
/// Most windows ahead, classes, features and responsible jobs of a job, and servers that are missing.
const ITEMS_MAX: usize = 64;
/// Longest name.
const NAME_BYTES_MAX: usize = 256;
/// Windows for which predictions are shown, and the shortest such time.
const KEPT_WINDOWS: f64 = 10.0;
const KEPT_MIN: Duration = Duration::from_secs(5);
/// Longest window.
const WINDOW_SECONDS_MAX: f64 = 86_400.0;

/// The predictions of one window.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Predictions {
    /// Number of the window since 1970; 0 where there are no predictions.
    window: u64,
    window_seconds: f64,
    /// Numbers of the servers whose windows are missing.
    missing: Vec<u16>,
    jobs: Vec<JobPrediction>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct JobPrediction {
    job: String,
    user: String,
    uid: u32,
    basis: String,
    horizons: Vec<HorizonPrediction>,
    driven_by: Vec<DriverLine>,
    device_seconds: f64,
    waited_seconds: f64,
    waited_ratio: Option<f64>,
    responsible: Vec<ResponsibleJob>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct HorizonPrediction {
    ahead: u32,
    slowdown: String,
    probability: f64,
    probabilities: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DriverLine {
    feature: String,
    server: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ResponsibleJob {
    job: String,
    user: String,
    uid: u32,
    seconds: f64,
}

/// The last predictions that were told.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Option<(Instant, Arc<Predictions>)>>);

impl Told {
    fn tell(&self, predictions: Predictions) {
        *self.told() = Some((Instant::now(), Arc::new(predictions)));
    }

    /// The predictions, unless they are too old.
    fn current(&self) -> Option<Arc<Predictions>> {
        let told = self.told();
        let (at, predictions) = told.as_ref()?;
        let kept = Duration::from_secs_f64(predictions.window_seconds * KEPT_WINDOWS).max(KEPT_MIN);
        (at.elapsed() < kept).then(|| Arc::clone(predictions))
    }

    /// A poisoned place is whole: it is only replaced.
    fn told(&self) -> MutexGuard<'_, Option<(Instant, Arc<Predictions>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Predictions {
    fn none() -> Predictions {
        Predictions { window: 0, window_seconds: 0.0, missing: Vec::new(), jobs: Vec::new() }
    }

    /// The jobs that are slowed with the greatest probabilities, at most `count`.
    fn most_slowed(&self, count: usize) -> Vec<&JobPrediction> {
        let mut jobs: Vec<&JobPrediction> = self.jobs.iter().collect();
        if jobs.len() > count {
            jobs.select_nth_unstable_by(count, |left, right| right.worst().total_cmp(&left.worst()));
            jobs.truncate(count);
        }
        jobs
    }

    /// Whether every list, name and number is within its limit.
    fn is_well_formed(&self) -> bool {
        self.window_seconds > 0.0
            && self.window_seconds <= WINDOW_SECONDS_MAX
            && self.missing.len() <= usize::from(u16::MAX)
            && self.jobs.len() <= JOBS_MAX
            && self.jobs.iter().all(JobPrediction::is_well_formed)
    }
}

impl JobPrediction {
    fn is_well_formed(&self) -> bool {
        let lists = [self.horizons.len(), self.driven_by.len(), self.responsible.len()];
        let of_horizons = self.horizons.iter().flat_map(|horizon| {
            [
                horizon.probabilities.len(),
                usize::from(!(0.0..=1.0).contains(&horizon.probability)) * (ITEMS_MAX + 1),
            ]
        });
        let names = [&self.job, &self.user, &self.basis].into_iter();
        let names = names.chain(self.horizons.iter().map(|horizon| &horizon.slowdown));
        let names = names.chain(
            self.driven_by
                .iter()
                .flat_map(|driver| [Some(&driver.feature), driver.server.as_ref()])
                .flatten(),
        );
        let mut names = names.chain(self.responsible.iter().flat_map(|other| [&other.job, &other.user]));
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        lists.into_iter().chain(of_horizons).all(|length| length <= ITEMS_MAX)
            && names.all(|name| name.len() <= NAME_BYTES_MAX)
            && is_time(self.device_seconds)
            && is_time(self.waited_seconds)
            && self.waited_ratio.is_none_or(is_time)
            && self.responsible.iter().all(|other| is_time(other.seconds))
    }

    /// The greatest probability that the job is slowed at all, now or some windows ahead.
    fn worst(&self) -> f64 {
        self.horizons.iter().filter_map(|horizon| self.slowed(horizon)).fold(0.0, f64::max)
    }

    /// The probability that the job is slowed at all, so many windows ahead.
    fn slowed(&self, horizon: &HorizonPrediction) -> Option<f64> {
        let is_known = self.basis != "not known" && !horizon.probabilities.is_empty();
        is_known.then(|| horizon.probabilities.iter().skip(1).sum())
    }
}

/// Shows the predictions of the jobs that the caller may see.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    let sight = match sight(request, desk) {
        Ok(sight) => sight,
        Err(refusal) => return refusal,
    };
    let Some(current) = desk.told.current() else { return json(200, &Predictions::none()) };
    match sight {
        Sight::All => json(200, &*current),
        Sight::Of(uid) => {
            let mut own = (*current).clone();
            own.jobs.retain(|job| job.uid == uid);
            json(200, &own)
        }
    }
}

/// Takes the predictions of a window.
pub(super) fn tell(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let hint = "see `weir interference serve --help`";
    match serde_json::from_slice::<Predictions>(&request.body) {
        Ok(predictions) if predictions.is_well_formed() => {
            let answer = json(200, &serde_json::json!({ "window": predictions.window }));
            desk.told.tell(predictions);
            answer
        }
        Ok(_) => json(400, &failure("a prediction has a number, name or list outside of its limit", hint)),
        Err(error) => json(400, &failure(&format!("no predictions: {error}"), hint)),
    }
}

/// An exposition with the metrics of the predictions.
pub(super) fn with_metrics(exposition: Arc<str>, told: &Told, format: Format) -> Arc<str> {
    let Some(current) = told.current() else { return exposition };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition(current)));
    let mut own = String::new();
    if text::encode(&mut own, &registry).is_err() {
        return exposition;
    }
    let own = own.trim_end_matches("# EOF\n");
    match format {
        Format::Text => format!("{exposition}{own}").into(),
        Format::OpenMetrics => format!("{}{own}# EOF\n", exposition.trim_end_matches("# EOF\n")).into(),
    }
}

#[derive(Debug)]
struct Exposition(Arc<Predictions>);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let labels = |job: &JobPrediction| {
            [
                ("job_name", label_text(&job.job)),
                ("user", label_text(&job.user)),
                ("uid", job.uid.to_string()),
            ]
        };
        let jobs = self.0.most_slowed(metrics::JOBS_MAX);
        let help = "Predicted probability that the job is slowed, so many windows ahead";
        let mut family =
            encoder.encode_descriptor("weir_job_slowed_probability", help, None, MetricType::Gauge)?;
        for &job in &jobs {
            for horizon in &job.horizons {
                let Some(probability) = job.slowed(horizon) else { continue };
                let [name, user, uid] = labels(job);
                let all = [name, user, uid, ("ahead", horizon.ahead.to_string())];
                ConstGauge::new(probability).encode(family.encode_family(&all)?)?;
            }
        }
        let help =
            "Device time that others received while the job had requests queued, over that which it received";
        let mut family = encoder.encode_descriptor("weir_job_waited_ratio", help, None, MetricType::Gauge)?;
        for &job in &jobs {
            let Some(ratio) = job.waited_ratio else { continue };
            ConstGauge::new(ratio).encode(family.encode_family(&labels(job))?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(window_seconds: f64) -> Predictions {
        serde_json::from_value(serde_json::json!({
            "window": 7, "window_seconds": window_seconds, "missing": [], "jobs": [{
                "job": "a", "user": "u", "uid": 1, "basis": "trees",
                "horizons": [{"ahead": 0, "slowdown": "from 2", "probability": 0.75, "probabilities": [0.25, 0.75]}],
                "driven_by": [], "device_seconds": 0.5, "waited_seconds": 1.0, "waited_ratio": 2.0,
                "responsible": [{"job": "b", "user": "v", "uid": 8, "seconds": 1.0}],
            }],
        }))
        .unwrap()
    }

    #[test]
    fn predictions_that_nobody_renews_are_not_shown() {
        let told = Told::default();
        assert!(told.current().is_none());
        told.tell(predictions(1.0));
        assert_eq!(told.current().unwrap().window, 7);
        let ago = Instant::now().checked_sub(KEPT_MIN * 2).unwrap();
        told.0.lock().unwrap().as_mut().unwrap().0 = ago;
        assert!(told.current().is_none(), "ten windows of a second are over");
        let mut longer = predictions(3.0);
        longer.window = 8;
        told.tell(longer);
        told.0.lock().unwrap().as_mut().unwrap().0 = ago;
        assert_eq!(told.current().unwrap().window, 8);
    }

    #[test]
    fn predictions_outside_of_their_limits_are_refused() {
        assert!(predictions(1.0).is_well_formed());
        for harm in [
            (|each: &mut Predictions| each.window_seconds = 0.0) as fn(&mut Predictions),
            |each| each.window_seconds = 1e300,
            |each| each.jobs = vec![each.jobs[0].clone(); JOBS_MAX + 1],
            |each| each.jobs[0].job = "x".repeat(NAME_BYTES_MAX + 1),
            |each| each.jobs[0].responsible[0].user = "x".repeat(NAME_BYTES_MAX + 1),
            |each| each.jobs[0].waited_ratio = Some(-1.0),
            |each| each.jobs[0].horizons[0].probability = 1.5,
            |each| each.jobs[0].horizons[0].probabilities = vec![0.0; ITEMS_MAX + 1],
        ] {
            let mut harmed = predictions(1.0);
            harm(&mut harmed);
            assert!(!harmed.is_well_formed());
        }
    }

    #[test]
    fn the_metrics_of_predictions_follow_the_others_in_both_formats() {
        let told = Told::default();
        assert_eq!(&*with_metrics("a 1\n".into(), &told, Format::Text), "a 1\n");
        told.tell(predictions(1.0));
        let text = with_metrics("a 1\n".into(), &told, Format::Text);
        assert!(text.starts_with("a 1\n# HELP weir_job_slowed_probability") && !text.contains("# EOF"));
        assert!(text
            .contains("weir_job_slowed_probability{job_name=\"a\",user=\"u\",uid=\"1\",ahead=\"0\"} 0.75\n"));
        assert!(text.contains("weir_job_waited_ratio{job_name=\"a\",user=\"u\",uid=\"1\"} 2.0\n"));
        let open = with_metrics("a 1\n# EOF\n".into(), &told, Format::OpenMetrics);
        assert!(open.ends_with("# EOF\n") && open.matches("# EOF").count() == 1);
    }
}
