//! The control API: JSON and Prometheus over HTTP, beside the event loop.

pub(crate) mod audit;
pub(crate) mod callers;
mod door;
mod hosts;
pub(crate) mod http;
pub(crate) mod interference;
pub(crate) mod inventory;
pub(crate) mod lease;
pub(crate) mod quotas;
pub(crate) mod tree;
pub(crate) mod windows;

use crate::config::check_addresses;
use crate::ports::{resolve, Listening};
use door::{Bearer, Door};
use hosts::Hosts;
use http::{Request, Response};
use interference::Told;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::time::Duration;
use weir_core::accounts::metrics;
use weir_core::audit::Audit;
use weir_core::config::{ClusterConfig, ServerConfig, SpeedConfig, TargetConfig};
use weir_core::control::question::{NotChanged, Question, Shown};
use weir_core::control::showing::Boards;
use weir_core::control::status::Status;
use weir_core::control::table::Table;
use weir_core::error::ServerError;
use weir_core::events::Events;
use weir_fairshare::{Algorithm, Policy, Sharing};
use weir_placement::{AllocatorName, ServerId, TargetId};
use weir_wire::{same_secret, SiteKey, TargetState};

/// How long the event loop may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The remedy of a policy that is refused.
const POLICY_HINT: &str = "see `weir policy set --help`";
const JSON: &str = "application/json";
/// Shortest token of `/metrics`: shorter ones are guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// `PUT /v1/targets/SERVER.INDEX`, and `/speed` or `/state` below it.
const TARGET_PATH: &str = "/v1/targets/";
/// `PUT /v1/servers/NUMBER`, and `/state` or `/names` below it.
const SERVER_PATH: &str = "/v1/servers/";

/// The way to the event loop: questions there, snapshots back.
struct Desk {
    /// The secret that a site lets callers of `/metrics` show; absent where everybody may read them.
    metrics_token: Option<String>,
    events: Events,
    boards: Arc<Boards>,
    told: Told,
    noted: audit::Noted,
}

/// Status, body and content type of an answer.
type Answer = (u16, Arc<str>, &'static str);

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateBody {
    state: TargetState,
}

#[derive(Serialize)]
struct Failure {
    error: String,
    hint: String,
}

/// The rules by which callers are answered.
pub(crate) struct Rules {
    here: ServerId,
    key: SiteKey,
    hosts: Vec<String>,
    metrics_token: Option<String>,
}

impl Rules {
    /// The rules of server `here` by the store's configuration; its callers are proved by `key`.
    ///
    /// # Errors
    /// [`ServerError::Io`] where the token of `/metrics` cannot be used.
    pub(crate) fn new(config: &ClusterConfig, here: ServerId, key: SiteKey) -> Result<Rules, ServerError> {
        let metrics_token = config.metrics_token.as_deref().map(read_token).transpose()?;
        Ok(Rules { here, key, hosts: config.control_hosts.clone(), metrics_token })
    }
}

/// The secret that callers of `/metrics` show.
fn read_token(path: &Path) -> Result<String, ServerError> {
    let wrong =
        |source| ServerError::Io { what: "read the token of /metrics", path: path.to_path_buf(), source };
    let text = crate::privacy::read_secret(path).map_err(wrong)?;
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!(
            "it is no word of {TOKEN_BYTES_MIN} letters or more; hint: `openssl rand -hex 32` makes one"
        );
        return Err(wrong(Error::new(ErrorKind::InvalidData, what)));
    }
    Ok(token.to_string())
}

/// Serves the API on a listener from a thread of its own; answers the address that it listens on. `configured` is the address of
/// the configuration, by whose host callers may call it.
///
/// # Errors
/// [`ServerError::Listen`] when the listener is of no use.
pub(crate) fn start(
    Listening { listener, address, .. }: Listening,
    configured: &str,
    (rules, noted): (Rules, Audit),
    (events, boards): (Events, Arc<Boards>),
    callers_max: usize,
) -> Result<String, ServerError> {
    let Rules { here, key, hosts, metrics_token } = rules;
    let door = Door::new(here, key, Hosts::new(configured, &hosts));
    let noted = audit::Noted::new(noted);
    let desk = Arc::new(Desk { metrics_token, events, boards, told: Told::default(), noted });
    http::serve(listener, callers_max, door, body_bytes_max, move |request| respond(request, &desk))
        .and_then(|()| Ok(resolve(&address)?.to_string()))
        .map_err(|source| ServerError::Listen { address, source })
}

/// Longest body of a request: the holder of the site key alone may name many jobs.
fn body_bytes_max(request: &Request) -> usize {
    let bytes_max = match (request.method.as_str(), request.path.as_str()) {
        ("PUT", interference::PATH) => interference::BODY_BYTES_MAX,
        ("PUT", lease::PATH) => lease::BODY_BYTES_MAX,
        _ => return http::BODY_BYTES_MAX,
    };
    match request.bearer {
        Bearer::Administrator => bytes_max,
        _ => http::BODY_BYTES_MAX,
    }
}

/// A resource's way of answering one method.
type Handler = fn(&Request, &Desk) -> Answer;

fn respond(request: &Request, desk: &Desk) -> Response {
    let method = if request.method == "HEAD" { "GET" } else { &request.method };
    let (status, body, content_type) = match route(method, &request.path) {
        Some(handler) if method == "PUT" => audit::change(request, desk, handler),
        _ if request.bearer == Bearer::Expired => expired(),
        Some(handler) => handler(request, desk),
        None => return unknown(request),
    };
    Response { status, content_type, body, allowed: "" }
}

fn unknown(request: &Request) -> Response {
    let is_known = |method: &str| route(method, &request.path).is_some();
    let allowed = match (is_known("GET"), is_known("PUT")) {
        (true, true) => "GET, HEAD, PUT",
        (true, false) => "GET, HEAD",
        (false, true) => "PUT",
        (false, false) => "",
    };
    let hint = "try /v1/status, /v1/jobs, /v1/policy, /v1/allocator, /v1/quotas, /v1/windows/0, /v1/interference, /v1/audit/0 or /metrics";
    let (status, body, content_type) = match allowed {
        "" => json(404, &failure("no such resource", hint)),
        _ => json(405, &failure("no such method of this resource", &format!("it has {allowed}"))),
    };
    Response { status, content_type, body, allowed }
}

fn route(method: &str, path: &str) -> Option<Handler> {
    Some(match (method, path) {
        ("GET", "/metrics") => show_metrics,
        ("GET", "/v1/status") => |_, desk| answer(desk.status(), |status| json(200, &**status)),
        ("GET", "/v1/jobs") => |_, desk| answer(desk.table(), |table| (200, table.jobs_text(), JSON)),
        ("GET", "/v1/policy") => show_policy,
        ("PUT", "/v1/policy") => set_policy,
        ("GET", lease::PATH) => lease::show,
        ("PUT", lease::PATH) => lease::set,
        ("GET", "/v1/allocator") => show_allocator,
        ("PUT", "/v1/allocator") => set_allocator,
        ("PUT", path) if path.starts_with(SERVER_PATH) => change_server,
        ("PUT", path) if path.starts_with(TARGET_PATH) => change_target,
        ("GET", quotas::PATH) => quotas::show,
        ("PUT", quotas::PATH) => quotas::set,
        ("GET", interference::PATH) => interference::show,
        ("PUT", interference::PATH) => interference::tell,
        ("PUT", audit::PATH) => audit::tell,
        ("GET", path) if path.starts_with(audit::ENTRIES_PATH) => audit::show,
        ("GET", path) if path.starts_with(windows::PATH) => windows::show,
        ("GET", path) if path.starts_with(inventory::PATH) => inventory::show,
        ("GET", path) if path.starts_with(inventory::PLACES_PATH) => inventory::show_places,
        ("GET", path) if path.starts_with(tree::PATH) => tree::show,
        ("GET", path) if path.starts_with(tree::DIRECTORIES_PATH) => tree::show_directories,
        ("GET", path) if path.starts_with(tree::ENTRIES_PATH) => tree::show_entries,
        ("GET", tree::SUMS_PATH) => tree::show_sums,
        ("PUT", tree::MEND_PATH) => tree::mend,
        _ => return None,
    })
}

fn show_metrics(request: &Request, desk: &Desk) -> Answer {
    if !desk.shows_metrics(request) {
        let hint = "show the token of the file `metrics_token` in cluster.toml as a bearer token";
        return json(401, &failure("not authorised", hint));
    }
    let format = metrics::Format::of(request.accept.as_deref());
    answer(desk.table(), |table| {
        let text = interference::with_metrics(table.metrics_text(format), &desk.told, format);
        (200, text, format.content_type())
    })
}

fn show_policy(_: &Request, desk: &Desk) -> Answer {
    answer(desk.status(), |status| {
        let (policy, scheduler) = (status.policy.clone(), Some(status.scheduler.clone()));
        json(200, &PolicyBody { policy, scheduler })
    })
}

fn show_allocator(_: &Request, desk: &Desk) -> Answer {
    answer(desk.status(), |status| json(200, &AllocatorBody { allocator: status.allocator.clone() }))
}

impl Desk {
    fn status(&self) -> Result<Arc<Status>, Failure> {
        let ask = || self.events.ask(Question::Show(Shown::Status));
        self.boards.status.next(ask, ANSWER_WAIT).ok_or_else(busy)
    }

    fn table(&self) -> Result<Arc<Table>, Failure> {
        let ask = || self.events.ask(Question::Show(Shown::Table));
        self.boards.table.next(ask, ANSWER_WAIT).ok_or_else(busy)
    }

    /// Has the loop change something.
    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Question) -> Result<T, Failure> {
        let (sender, receiver) = sync_channel(1);
        self.events.ask(question(sender));
        receiver.recv_timeout(ANSWER_WAIT).map_err(|_| busy())
    }

    /// Refuses a caller that is no administrator.
    fn refusal(&self, request: &Request) -> Option<Answer> {
        let hint =
            "this needs the site key, which no request shows: run `weir` as the user who ran `weir up`";
        match request.bearer {
            Bearer::Administrator => None,
            Bearer::Nobody => Some(json(401, &failure("not authorised", hint))),
            Bearer::User(_) => Some(json(403, &failure("not authorised", hint))),
            Bearer::Expired => Some(expired()),
        }
    }

    /// Whether a caller may read the metrics. Digests are compared, so that the time tells nothing of the secret.
    fn shows_metrics(&self, request: &Request) -> bool {
        let Some(token) = &self.metrics_token else { return true };
        let shown = request.authorization.as_deref().and_then(|text| text.strip_prefix("Bearer "));
        request.bearer == Bearer::Administrator || shown.is_some_and(|shown| same_secret(shown, token))
    }
}

fn expired() -> Answer {
    let hint = "ask the holder of the site key for a new one: `weir grant`; an administrator looks at the clocks of both hosts";
    json(401, &failure("the credential is outside of its time", hint))
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
    let body = |()| AllocatorBody { allocator: name.to_string() };
    changed(desk.ask(|answer| Question::SetAllocator(name, answer)), body)
}

/// Changes the target that the path names.
fn change_target(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let path = request.path.trim_start_matches(TARGET_PATH);
    let (name, part) = path.split_once('/').map_or((path, None), |(name, part)| (name, Some(part)));
    let target: TargetId = match name.parse() {
        Ok(target) => target,
        Err(error) => return json(400, &failure(&format!("{error}"), "see `weir targets`")),
    };
    match part {
        None => add_target(request, desk, target),
        Some("state") => set_state(request, desk, target),
        Some("speed") => set_speed(request, desk, target),
        Some(_) => json(404, &failure("no such resource", "a target has a state and a speed")),
    }
}

/// Changes the server that the path names.
fn change_server(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let path = request.path.trim_start_matches(SERVER_PATH);
    let (number, part) = path.split_once('/').map_or((path, None), |(number, part)| (number, Some(part)));
    let Ok(number) = number.parse::<u16>() else {
        return json(400, &failure("a server has a number", "see `weir server add --help`"));
    };
    match part {
        None => add_server(request, desk, number),
        Some("state") => match serde_json::from_slice::<StateBody>(&request.body) {
            Ok(StateBody { state }) => {
                let ask = |answer| Question::SetServerState(ServerId(number), state, answer);
                changed(desk.ask(ask), |()| serde_json::json!({ "server": number }))
            }
            Err(error) => {
                json(400, &failure(&format!("not a state: {error}"), "see `weir server retire --help`"))
            }
        },
        Some("names") => {
            let ask = |answer| Question::KeepNames(ServerId(number), answer);
            changed(desk.ask(ask), |()| serde_json::json!({ "server": number }))
        }
        Some(_) => json(404, &failure("no such resource", "a server has a state and names")),
    }
}

/// Takes in a server that runs; the body is its table in the configuration, with the addresses at which it listens.
fn add_server(request: &Request, desk: &Desk, number: u16) -> Answer {
    let refused = |what: &str| json(400, &failure(what, "see `weir server add --help`"));
    let config = std::str::from_utf8(&request.body).map_err(|error| error.to_string());
    let config = config.and_then(ServerConfig::described);
    match config.and_then(|config| check_addresses(&config).map(|()| config)) {
        Ok(config) => {
            let ask = |answer| Question::AddServer(ServerId(number), Box::new(config), answer);
            changed(desk.ask(ask), |()| serde_json::json!({ "server": number }))
        }
        Err(what) => refused(&what),
    }
}

/// Adds a target; the body is its table in the configuration.
fn add_target(request: &Request, desk: &Desk, target: TargetId) -> Answer {
    let refused = |what: &str| json(400, &failure(what, "see `weir target add --help`"));
    let config = std::str::from_utf8(&request.body).map_err(|error| error.to_string());
    match config.and_then(TargetConfig::described) {
        Ok(config) => {
            changed(desk.ask(|answer| Question::AddTarget(target, Box::new(config), answer)), |()| {
                named(target)
            })
        }
        Err(what) => refused(&what),
    }
}

fn set_state(request: &Request, desk: &Desk, target: TargetId) -> Answer {
    match serde_json::from_slice::<StateBody>(&request.body) {
        Ok(StateBody { state }) => {
            changed(desk.ask(|answer| Question::SetTargetState(target, state, answer)), |()| named(target))
        }
        Err(error) => {
            json(400, &failure(&format!("not a state: {error}"), "see `weir target retire --help`"))
        }
    }
}

fn named(target: TargetId) -> serde_json::Value {
    serde_json::json!({ "target": target.to_string() })
}

/// The answer about a change of the store's servers, targets or settings, with the body `done`.
fn changed<T, B: Serialize>(
    outcome: Result<Result<T, NotChanged>, Failure>,
    done: impl FnOnce(T) -> B,
) -> Answer {
    let error = match outcome {
        Ok(Ok(change)) => return json(200, &done(change)),
        Ok(Err(error)) => error,
        Err(failure) => return json(503, &failure),
    };
    let (status, hint) = match &error {
        NotChanged::Unknown(_) => (404, "see `weir targets`"),
        NotChanged::Refused { hint, .. } => (409, hint.as_str()),
        NotChanged::Sharing(_) => (400, POLICY_HINT),
        NotChanged::Quota(_) => (400, "set limits of all users, or of groups, in place of single ones"),
        NotChanged::NotYet(_) => (503, "ask again later"),
        NotChanged::Storage(_) => (503, "make room in the server's folder"),
    };
    json(status, &failure(&error.to_string(), hint))
}

/// Sets the emulated speed of a target; an empty object takes it away.
fn set_speed(request: &Request, desk: &Desk, target: TargetId) -> Answer {
    let name = target.to_string();
    let refused = |error: String| json(400, &failure(&error, "see `weir targets set --help`"));
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
    let refused = |error: String| json(400, &failure(&error, POLICY_HINT));
    let policy: Policy = match policy.parse() {
        Ok(policy) => policy,
        Err(error) => return refused(error.to_string()),
    };
    let algorithm = match scheduler.map(|name| name.parse::<Algorithm>()).transpose() {
        Ok(algorithm) => algorithm,
        Err(error) => return refused(error.to_string()),
    };
    let body = |sharing: Sharing| PolicyBody {
        policy: sharing.policy().to_string(),
        scheduler: Some(sharing.algorithm().to_string()),
    };
    changed(desk.ask(|answer| Question::SetPolicy(policy, algorithm, answer)), body)
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
