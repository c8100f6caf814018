//! Windows in the control API.
//!
//! The holder of the site key sees all jobs, and the holder of a credential sees the jobs of its own user.

use super::{failure, json, Answer, Desk};
use crate::control::door::Bearer;
use crate::control::http::Request;
use serde::Serialize;
use std::sync::Arc;
use weir_core::accounts::observed::ObservedLine;
use weir_core::accounts::windows::{Window, SAMPLES};
use weir_core::clock::seconds;
use weir_core::control::question::{Observed, Question};
use weir_device::{Statistic, Statistics};

/// `GET /v1/windows/NUMBER`: the windows after that one.
pub(super) const PATH: &str = "/v1/windows/";

#[derive(Serialize)]
struct Windows<'a> {
    server: u16,
    boot: String,
    window_seconds: f64,
    samples: u64,
    windows: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    number: u64,
    devices: Vec<DeviceLine<'a>>,
    jobs: Vec<&'a ObservedLine>,
    left_out: usize,
    is_whole: bool,
}

#[derive(Serialize)]
struct StatisticLine {
    sum: f64,
    mean: f64,
    deviation: f64,
}

/// The reduced counters of a device.
#[derive(Serialize)]
struct DeviceLine<'a> {
    device: &'a str,
    reads: StatisticLine,
    writes: StatisticLine,
    read_sectors: StatisticLine,
    written_sectors: StatisticLine,
    read_milliseconds: StatisticLine,
    write_milliseconds: StatisticLine,
    in_progress: StatisticLine,
    busy_milliseconds: StatisticLine,
    queued_milliseconds: StatisticLine,
}

/// The jobs that a caller sees.
pub(super) enum Sight {
    All,
    Of(u32),
}

/// Shows the windows after the one that the path names.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    let sight = match sight(request, desk) {
        Ok(sight) => sight,
        Err(refusal) => return refusal,
    };
    let Ok(after) = request.path.trim_start_matches(PATH).parse::<u64>() else {
        return json(
            400,
            &failure("the path is not /v1/windows/NUMBER", "0 shows all windows that are kept"),
        );
    };
    match desk.ask(|answer| Question::Windows(after, answer)) {
        Ok(observed) => json(200, &shown(&observed, &sight)),
        Err(failure) => json(503, &failure),
    }
}

/// The jobs that the caller of a request sees; a refusal where it sees none.
pub(super) fn sight(request: &Request, desk: &Desk) -> Result<Sight, Answer> {
    match (desk.refusal(request), request.bearer) {
        (None, _) => Ok(Sight::All),
        (Some(_), Bearer::User(uid)) => Ok(Sight::Of(uid)),
        (Some(refusal), _) => Err(refusal),
    }
}

fn shown<'a>(observed: &'a Observed, sight: &Sight) -> Windows<'a> {
    let is_seen = |line: &&ObservedLine| match sight {
        Sight::All => true,
        Sight::Of(uid) => line.uid() == *uid,
    };
    let line = |window: &'a Arc<Window>| Line {
        number: window.number,
        devices: window.devices.iter().map(|(name, statistics)| device_line(name, statistics)).collect(),
        jobs: window.jobs.iter().filter(is_seen).collect(),
        left_out: window.left_out,
        is_whole: window.is_whole,
    };
    Windows {
        server: observed.server,
        boot: observed.boot.clone(),
        window_seconds: seconds(observed.length),
        samples: SAMPLES,
        windows: observed.windows.iter().map(line).collect(),
    }
}

fn device_line<'a>(device: &'a str, statistics: &Statistics) -> DeviceLine<'a> {
    let line = |of: Statistic| StatisticLine { sum: of.sum, mean: of.mean, deviation: of.deviation };
    DeviceLine {
        device,
        reads: line(statistics.reads),
        writes: line(statistics.writes),
        read_sectors: line(statistics.read_sectors),
        written_sectors: line(statistics.written_sectors),
        read_milliseconds: line(statistics.read_milliseconds),
        write_milliseconds: line(statistics.write_milliseconds),
        in_progress: line(statistics.in_progress),
        busy_milliseconds: line(statistics.busy_milliseconds),
        queued_milliseconds: line(statistics.queued_milliseconds),
    }
}
