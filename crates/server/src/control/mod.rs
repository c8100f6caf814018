//! The control API: JSON and Prometheus over HTTP, beside the event loop.

pub(crate) mod board;
pub(crate) mod callers;
pub(crate) mod http;
pub(crate) mod showing;
pub(crate) mod snapshot;

use crate::accounts::metrics;
use crate::config::SpeedConfig;
use crate::control::http::{Request, Response};
use crate::control::showing::Boards;
use crate::control::snapshot::Snapshot;
use crate::error::ServerError;
use crate::events::Events;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::time::Duration;
use weir_fairshare::{Algorithm, DeviceSpeed, Policy, Sharing, SharingError};
use weir_placement::{AllocatorName, TargetId};
use weir_wire::MachineLoad;

/// How long the event loop may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

const JSON: &str = "application/json";

/// `PUT /v1/targets/SERVER.INDEX/speed`.
const SPEED_PATH: &str = "/v1/targets/";

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// How the server is, without its jobs.
    Status,
    /// Everything.
    Table,
}

/// A question to the event loop.
pub(crate) enum Question {
    /// Somebody waits for a snapshot.
    Show(Shown),
    /// Another policy from now on, and another scheduler where one is named.
    SetPolicy(Policy, Option<Algorithm>, SyncSender<Result<Sharing, SharingError>>),
    /// Another allocator from now on.
    SetAllocator(AllocatorName, SyncSender<()>),
    /// Another emulated speed of a target, or none; false where there is no such target.
    SetSpeed(TargetId, Option<DeviceSpeed>, SyncSender<bool>),
}

/// The way to the event loop: questions there, snapshots back.
struct Desk {
    token: String,
    events: Events,
    boards: Arc<Boards>,
}

/// Status, body and content type of an answer.
type Answer = (u16, Arc<str>, &'static str);

/// `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) server: u16,
    pub(crate) version: &'static str,
    pub(crate) boot: String,
    pub(crate) uptime_seconds: f64,
    pub(crate) policy: String,
    pub(crate) scheduler: String,
    pub(crate) allocator: String,
    pub(crate) connections: usize,
    pub(crate) outstanding: usize,
    /// Memory held for clients.
    pub(crate) held_bytes: usize,
    pub(crate) inodes: u64,
    pub(crate) durable: bool,
    /// Absent where the store keeps nothing.
    pub(crate) journal: Option<JournalStatus>,
    /// The file system of the journal has no room: only what gives room back is taken.
    pub(crate) full: bool,
    pub(crate) load: MachineLoad,
    pub(crate) targets: Vec<TargetStatus>,
    pub(crate) metadata: DeviceStatus,
    pub(crate) placements: Placements,
    pub(crate) peers: Vec<PeerStatus>,
    /// Reports of peers that came late or twice, and were ignored.
    pub(crate) reports_ignored: u64,
}

/// The journal in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JournalStatus {
    /// `works`, or `stopped` since a sync of it failed: changes answer EROFS, and it is tried to begin it anew.
    pub(crate) state: &'static str,
    /// What failed last, and for how long it has been stopped.
    pub(crate) error: Option<String>,
    pub(crate) stopped_seconds: Option<f64>,
    /// Syncs that failed since the server started.
    pub(crate) sync_failures: u64,
    /// The last change, and the last one on stable storage.
    pub(crate) appended: u64,
    pub(crate) durable: u64,
    pub(crate) log_bytes: u64,
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
    pub(crate) placement: PlacementStatus,
    #[serde(flatten)]
    pub(crate) device: DeviceStatus,
}

/// What the placement of new files goes by, of a target in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlacementStatus {
    /// Targets of one class are expected to be equally fast.
    pub(crate) class: String,
    /// How fast it is beside the store's usual target, which is 1.
    pub(crate) speed_ratio: f64,
    /// What its last requests achieved, and what such requests achieve on the others of its class; absent before the
    /// first few.
    pub(crate) achieved_bytes_per_second: Option<f64>,
    pub(crate) expected_bytes_per_second: Option<f64>,
    /// Unix time since when it is slow.
    pub(crate) slow_since: Option<f64>,
    /// Time needed for what waits, averaged over the last exchanges.
    pub(crate) backlog_seconds: f64,
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

/// What this server placed since it started, in `/v1/status`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Placements {
    /// Stripes by allocator, and by target.
    pub(crate) stripes: BTreeMap<String, u64>,
    pub(crate) targets: BTreeMap<String, u64>,
    /// Files that were not made, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
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

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AllocatorBody {
    allocator: String,
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
    boards: Arc<Boards>,
    callers_max: usize,
) -> Result<std::net::SocketAddr, ServerError> {
    let desk = Desk { token, events, boards };
    http::serve(address, callers_max, move |request| respond(request, &desk))
        .map_err(|source| ServerError::Listen { address: address.to_string(), source })
}

fn respond(request: &Request, desk: &Desk) -> Response {
    let (status, body, content_type) = match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/metrics") => {
            answer(desk.table(), |table| (200, table.metrics_text(), metrics::CONTENT_TYPE))
        }
        ("GET", "/v1/status") => answer(desk.status(), |status| json(200, &**status)),
        ("GET", "/v1/jobs") => answer(desk.table(), |table| (200, table.jobs_text(), JSON)),
        ("GET", "/v1/policy") => answer(desk.status(), |status| {
            let (policy, scheduler) = (status.policy.clone(), Some(status.scheduler.clone()));
            json(200, &PolicyBody { policy, scheduler })
        }),
        ("PUT", "/v1/policy") => set_policy(request, desk),
        ("GET", "/v1/allocator") => {
            answer(desk.status(), |status| json(200, &AllocatorBody { allocator: status.allocator.clone() }))
        }
        ("PUT", "/v1/allocator") => set_allocator(request, desk),
        ("PUT", path) if path.starts_with(SPEED_PATH) => set_speed(request, desk),
        _ => json(
            404,
            &failure("no such resource", "try /v1/status, /v1/jobs, /v1/policy, /v1/allocator or /metrics"),
        ),
    };
    Response { status, content_type, body }
}

impl Desk {
    fn status(&self) -> Result<Arc<Status>, Failure> {
        let ask = || self.events.ask(Question::Show(Shown::Status));
        self.boards.status.next(ask, ANSWER_WAIT).ok_or_else(busy)
    }

    fn table(&self) -> Result<Arc<Snapshot>, Failure> {
        let ask = || self.events.ask(Question::Show(Shown::Table));
        self.boards.table.next(ask, ANSWER_WAIT).ok_or_else(busy)
    }

    /// Has the loop change something.
    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Question) -> Result<T, Failure> {
        let (sender, receiver) = sync_channel(1);
        self.events.ask(question(sender));
        receiver.recv_timeout(ANSWER_WAIT).map_err(|_| busy())
    }

    /// Refuses who does not know the token.
    fn refusal(&self, request: &Request) -> Option<Answer> {
        let hint = "changing this needs the site key: run as the user who ran `weir up`";
        let is_allowed = request.authorization.as_deref() == Some(&format!("Bearer {}", self.token));
        (!is_allowed).then(|| json(401, &failure("not authorised", hint)))
    }
}

fn set_allocator(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let Ok(AllocatorBody { allocator }) = serde_json::from_slice(&request.body) else {
        return json(400, &failure("the body is not {\"allocator\": \"NAME\"}", "send one name as JSON"));
    };
    let name: AllocatorName = match allocator.parse() {
        Ok(name) => name,
        Err(error) => return json(400, &failure(&error.to_string(), "see `weir targets allocator --help`")),
    };
    match desk.ask(|answer| Question::SetAllocator(name, answer)) {
        Ok(()) => json(200, &AllocatorBody { allocator: name.to_string() }),
        Err(failure) => json(503, &failure),
    }
}

/// Sets the emulated speed of the target that the path names; an empty object takes it away.
fn set_speed(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let name = request.path.trim_start_matches(SPEED_PATH).trim_end_matches("/speed");
    let refused = |error: String| json(400, &failure(&error, "see `weir targets set --help`"));
    let target: TargetId = match name.parse() {
        Ok(target) => target,
        Err(error) => return refused(format!("{error}")),
    };
    let speed: SpeedConfig = match serde_json::from_slice(&request.body) {
        Ok(speed) => speed,
        Err(error) => return refused(format!("not a speed: {error}")),
    };
    let speed = (!speed.is_none()).then(|| speed.device_speed());
    match desk.ask(|answer| Question::SetSpeed(target, speed, answer)) {
        Ok(true) => json(200, &serde_json::json!({ "target": name })),
        Ok(false) => {
            json(404, &failure(&format!("target {name} is not one of this server"), "see `weir targets`"))
        }
        Err(failure) => json(503, &failure),
    }
}

fn set_policy(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
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
    match desk.ask(|answer| Question::SetPolicy(policy, algorithm, answer)) {
        Ok(Ok(sharing)) => {
            let (policy, scheduler) = (sharing.policy().to_string(), sharing.algorithm().to_string());
            json(200, &PolicyBody { policy, scheduler: Some(scheduler) })
        }
        Ok(Err(error)) => refused(error.to_string()),
        Err(failure) => json(503, &failure),
    }
}

fn answer<T>(answered: Result<Arc<T>, Failure>, render: impl FnOnce(&Arc<T>) -> Answer) -> Answer {
    match answered {
        Ok(answered) => render(&answered),
        Err(failure) => json(503, &failure),
    }
}

fn json<T: Serialize>(status: u16, value: &T) -> Answer {
    (status, serde_json::to_string(value).unwrap_or_default().into(), JSON)
}

fn failure(error: &str, hint: &str) -> Failure {
    Failure { error: error.to_string(), hint: hint.to_string() }
}

fn busy() -> Failure {
    failure("the server did not answer in time", "look at its log")
}
