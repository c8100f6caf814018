//! The control API: JSON and Prometheus over HTTP, beside the event loop.

use crate::error::ServerError;
use crate::events::Events;
use crate::http::{self, Request, Response};
use crate::jobs::JobLine;
use crate::metrics;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::time::Duration;
use weir_fairshare::{Algorithm, Policy, Sharing, SharingError};

/// How long the event loop may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// A question to the event loop.
pub(crate) enum Question {
    /// How the server is, without its jobs.
    Status(SyncSender<Box<Status>>),
    /// Everything that is shown.
    Snapshot(SyncSender<Box<Snapshot>>),
    /// Another policy from now on, and another scheduler where one is named.
    SetPolicy(Policy, Option<Algorithm>, SyncSender<Result<Sharing, SharingError>>),
}

/// The server at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) status: Status,
    pub(crate) jobs: Vec<JobLine>,
    /// For each job its waits: (bucket's upper bound in seconds, count), their sum in seconds.
    pub(crate) waits: Vec<(Vec<(f64, u64)>, f64)>,
    pub(crate) refusals: u64,
    pub(crate) malformed: u64,
}

/// `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) server: u16,
    pub(crate) version: &'static str,
    pub(crate) boot: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) policy: String,
    pub(crate) scheduler: String,
    pub(crate) connections: usize,
    pub(crate) outstanding: usize,
    pub(crate) inodes: u64,
    pub(crate) durable: bool,
    pub(crate) targets: Vec<TargetStatus>,
    pub(crate) metadata: DeviceStatus,
    pub(crate) peers: Vec<PeerStatus>,
    /// Reports of peers that came late or twice, and were ignored.
    pub(crate) reports_ignored: u64,
}

/// One target in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TargetStatus {
    pub(crate) target: String,
    pub(crate) backend: &'static str,
    pub(crate) capacity_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) keeps: &'static str,
    #[serde(flatten)]
    pub(crate) device: DeviceStatus,
}

/// A device in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceStatus {
    /// Share of the last interval in which it was busy.
    pub(crate) load: f64,
    pub(crate) queued: usize,
    /// Mean time a request was in service in the last interval in which there was one.
    pub(crate) latency_seconds: f64,
    pub(crate) busy_seconds: f64,
    pub(crate) cost: CostStatus,
    pub(crate) speed: Option<SpeedStatus>,
}

/// What a request is expected to take: learned, but for an emulated device, whose speed is known.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CostStatus {
    pub(crate) read: DirectionCost,
    pub(crate) write: DirectionCost,
}

/// The cost of requests in one direction: a fixed time, and bytes a second; an absent rate means that bytes cost nothing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DirectionCost {
    pub(crate) fixed_seconds: f64,
    pub(crate) bytes_per_second: Option<u64>,
}

/// An emulated speed; absent rates mean that bytes cost nothing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SpeedStatus {
    pub(crate) read_bytes_per_second: Option<u64>,
    pub(crate) write_bytes_per_second: Option<u64>,
    pub(crate) fixed_seconds: f64,
}

/// What was last heard of another server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PeerStatus {
    pub(crate) server: u16,
    /// Age of its last report; absent before the first.
    pub(crate) age_seconds: Option<f64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PolicyBody {
    policy: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
}

#[derive(Serialize)]
struct Jobs<'a> {
    jobs: &'a [JobLine],
}

#[derive(Serialize)]
struct Failure {
    error: String,
    hint: String,
}

/// Serves the API on `address` from a thread of its own; answers the address that it listens on.
///
/// # Errors
/// [`ServerError::Listen`] when the address cannot be had.
pub(crate) fn start(
    address: &str,
    token: String,
    events: Events,
) -> Result<std::net::SocketAddr, ServerError> {
    http::serve(address, move |request| respond(request, &token, &events))
        .map_err(|source| ServerError::Listen { address: address.to_string(), source })
}

fn respond(request: &Request, token: &str, events: &Events) -> Response {
    let (status, body, content_type) = match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/metrics") => match snapshot(events) {
            Ok(snapshot) => (200, metrics::encode(&snapshot), metrics::CONTENT_TYPE),
            Err(failure) => json(503, &failure),
        },
        ("GET", "/v1/status") => answer(status(events), |status| json(200, status)),
        ("GET", "/v1/jobs") => answer(snapshot(events), |snapshot| json(200, &Jobs { jobs: &snapshot.jobs })),
        ("GET", "/v1/policy") => answer(status(events), |Status { policy, scheduler, .. }| {
            json(200, &PolicyBody { policy: policy.clone(), scheduler: Some(scheduler.clone()) })
        }),
        ("PUT", "/v1/policy") => set_policy(request, token, events),
        _ => json(404, &failure("no such resource", "try /v1/status, /v1/jobs, /v1/policy or /metrics")),
    };
    Response { status, content_type, body }
}

fn set_policy(request: &Request, token: &str, events: &Events) -> (u16, String, &'static str) {
    if request.authorization.as_deref() != Some(&format!("Bearer {token}")) {
        return json(
            401,
            &failure(
                "not authorised",
                "changing the policy needs the site key: run as the user who ran `weir up`",
            ),
        );
    }
    let parsed = serde_json::from_slice::<PolicyBody>(&request.body).ok();
    let Some(PolicyBody { policy, scheduler }) = parsed else {
        return json(400, &failure("the body is not {\"policy\": \"NAME\"}", "send one policy name as JSON"));
    };
    let refused = |error: String| json(400, &failure(&error, "see `weir policy set --help`"));
    let policy: Policy = match policy.parse() {
        Ok(policy) => policy,
        Err(error) => return refused(error.to_string()),
    };
    let algorithm = match scheduler.map(|name| name.parse::<Algorithm>()).transpose() {
        Ok(algorithm) => algorithm,
        Err(error) => return refused(error.to_string()),
    };
    let (sender, receiver) = sync_channel(1);
    events.ask(Question::SetPolicy(policy, algorithm, sender));
    match receiver.recv_timeout(ANSWER_WAIT) {
        Ok(Ok(sharing)) => {
            let (policy, scheduler) = (sharing.policy().to_string(), sharing.algorithm().to_string());
            json(200, &PolicyBody { policy, scheduler: Some(scheduler) })
        }
        Ok(Err(error)) => refused(error.to_string()),
        Err(_) => json(503, &busy()),
    }
}

fn answer<T>(
    answered: Result<Box<T>, Failure>,
    render: impl FnOnce(&T) -> (u16, String, &'static str),
) -> (u16, String, &'static str) {
    match answered {
        Ok(answered) => render(&answered),
        Err(failure) => json(503, &failure),
    }
}

fn status(events: &Events) -> Result<Box<Status>, Failure> {
    ask(events, Question::Status)
}

fn snapshot(events: &Events) -> Result<Box<Snapshot>, Failure> {
    ask(events, Question::Snapshot)
}

fn ask<T>(events: &Events, question: impl FnOnce(SyncSender<T>) -> Question) -> Result<T, Failure> {
    let (sender, receiver) = sync_channel(1);
    events.ask(question(sender));
    receiver.recv_timeout(ANSWER_WAIT).map_err(|_| busy())
}

fn json<T: Serialize>(status: u16, value: &T) -> (u16, String, &'static str) {
    (status, serde_json::to_string(value).unwrap_or_default(), "application/json")
}

fn failure(error: &str, hint: &str) -> Failure {
    Failure { error: error.to_string(), hint: hint.to_string() }
}

fn busy() -> Failure {
    failure("the server did not answer in time", "look at its log")
}
