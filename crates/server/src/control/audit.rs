//! The audit in the control API. Every `PUT` passes through [`change`]: a resource that takes one is audited without a
//! line of its own.

use super::{
    busy, expired, failure, json, quotas, Answer, Desk, Handler, ANSWER_WAIT, SERVER_PATH, TARGET_PATH,
};
use crate::control::door::Bearer;
use crate::control::http::Request;
use crate::control::{interference, lease, route};
use crate::machine_time::wall_moment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::audit::{Asked, Audit, Entry, Outcome};
use weir_core::notices::warning;

/// `PUT /v1/audit`: tells of a change that no server makes.
pub(super) const PATH: &str = "/v1/audit";
/// `GET /v1/audit/AFTER`: the entries above a number.
pub(super) const ENTRIES_PATH: &str = "/v1/audit/";
/// Longest kind of an entry that is told.
const KIND_BYTES_MAX: usize = 32;
/// Pause between two tries to hold the entries.
const HELD_PAUSE: Duration = Duration::from_millis(2);

/// The entries, and the order of changes.
pub(super) struct Noted {
    audit: Mutex<Audit>,
    /// Held while a change is made, so that the value before it is that of the change before it.
    changes: Mutex<()>,
    /// The same of leases, whose holders do not wait for changes that last.
    leases: Mutex<()>,
}

/// An entry of a change that no server makes.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ToldBody {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// The reason for which the change was refused; absent where it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct Entries<'a> {
    entries: Vec<&'a Entry>,
}

impl Noted {
    pub(super) fn new(audit: Audit) -> Noted {
        Noted { audit: Mutex::new(audit), changes: Mutex::new(()), leases: Mutex::new(()) }
    }

    /// The entries.
    fn audit(&self) -> Result<MutexGuard<'_, Audit>, Answer> {
        held(&self.audit)
    }
}

/// Holds what another caller may hold while it writes to a disk that hangs, so the wait is bounded. Entries are whole after each
/// call, so what a caller left that panicked counts.
fn held<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>, Answer> {
    let end = Instant::now() + ANSWER_WAIT;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(error)) => return Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < end => thread::sleep(HELD_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let hint = "another change waits for the disk of the server's folder; see `weir health`";
                return Err(json(503, &failure("the audit was not written in time", hint)));
            }
        }
    }
}

/// Has a handler carry out a `PUT`, and notes who asked for what, and what came of it.
pub(super) fn change(request: &Request, desk: &Desk, handler: Handler) -> Answer {
    let refusal = match request.bearer {
        Bearer::Expired => Some(expired()),
        _ => desk.refusal(request),
    };
    if let Some(answer) = refusal {
        match desk.noted.audit() {
            Ok(mut audit) => warn_of(audit.refuse(asked(request), wall_moment(), reason(&answer))),
            Err(_) => warning!("a refusal is not in the audit, which was not written in time"),
        }
        return answer;
    }
    match request.path.as_str() {
        // Predictions change nothing, and come each second. What is told becomes an entry of its own.
        interference::PATH | PATH => handler(request, desk),
        lease::PATH => change_lease(request, desk, handler),
        _ => change_lasting(request, desk, handler),
    }
}

/// A change is noted before it is made, and not made where that fails.
fn change_lasting(request: &Request, desk: &Desk, handler: Handler) -> Answer {
    let _alone = match held(&desk.noted.changes) {
        Ok(alone) => alone,
        Err(late) => return late,
    };
    let asked = Asked { before: before(request, desk), ..asked(request) };
    let begun = match desk.noted.audit() {
        Ok(mut audit) => audit.begin(asked, wall_moment()),
        Err(late) => return late,
    };
    let number = match begun {
        Ok(number) => number,
        Err(error) => {
            let what = format!("the audit cannot be kept: {error}");
            return json(503, &failure(&what, "make room in the server's folder"));
        }
    };
    let answer = handler(request, desk);
    match desk.noted.audit() {
        Ok(mut audit) => warn_of(audit.end(number, outcome(&answer), reason(&answer))),
        Err(_) => warning!("entry {number} of the audit has no outcome, as it was not written in time"),
    }
    answer
}

/// A lease ends with its server. Its holder renews it each second, so a renewal that changes nothing is no entry.
fn change_lease(request: &Request, desk: &Desk, handler: Handler) -> Answer {
    let _alone = match held(&desk.noted.leases) {
        Ok(alone) => alone,
        Err(late) => return late,
    };
    let before = answered("GET", request, desk).and_then(|answer| terms(&answer));
    let answer = handler(request, desk);
    let after = terms(&answer);
    if after.is_none() || after != before {
        let text = |terms: Option<Value>| terms.map(|terms| terms.to_string());
        let wanted = asked(request);
        let asked = Asked { before: text(before), after: text(after).or(wanted.after.clone()), ..wanted };
        match desk.noted.audit() {
            Ok(mut audit) => warn_of(audit.note(asked, wall_moment(), outcome(&answer), reason(&answer))),
            Err(_) => warning!("a lease is not in the audit, which was not written in time"),
        }
    }
    answer
}

/// The terms of a lease without the time that is left.
fn terms(answer: &Answer) -> Option<Value> {
    let mut terms: Value = serde_json::from_str(&answer.1).ok().filter(|_| answer.0 == 200)?;
    terms.as_object_mut()?.remove("seconds");
    Some(terms)
}

/// Tells of a change that no server makes, such as the deployment of the store. All of it is a claim of its
/// administrator.
pub(super) fn tell(request: &Request, desk: &Desk) -> Answer {
    let told: ToldBody = match serde_json::from_slice(&request.body) {
        Ok(told) => told,
        Err(error) => {
            return json(400, &failure(&format!("not an entry: {error}"), "see `weir audit --help`"))
        }
    };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b' ';
    if !(1..=KIND_BYTES_MAX).contains(&told.kind.len()) || !told.kind.bytes().all(is_word) {
        return json(400, &failure("the kind of an entry is a word", "such as `deployment`"));
    }
    let ToldBody { kind, object, before, after, refused } = &told;
    let (object, before, after) = (object.clone(), before.clone(), after.clone());
    let asked = Asked { kind: kind.clone(), object, before, after, is_told: true, ..asked(request) };
    let mut audit = match desk.noted.audit() {
        Ok(audit) => audit,
        Err(late) => return late,
    };
    let noted = match refused {
        Some(reason) => audit.note(asked, wall_moment(), Outcome::Refused, Some(reason.clone())),
        None => audit.begin(asked, wall_moment()).and_then(|number| audit.end(number, Outcome::Done, None)),
    };
    match noted {
        Ok(()) => json(200, &told),
        Err(error) => {
            let what = format!("the audit cannot be kept: {error}");
            json(503, &failure(&what, "make room in the server's folder"))
        }
    }
}

/// Shows the entries above a number. Who did what is nobody else's business, so the caller must be an administrator.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let Ok(after) = request.path.trim_start_matches(ENTRIES_PATH).parse() else {
        return json(400, &failure("the path is not /v1/audit/NUMBER", "0 shows all entries"));
    };
    match desk.noted.audit() {
        Ok(audit) => json(200, &Entries { entries: audit.after(after).collect() }),
        Err(late) => late,
    }
}

/// The request as its caller made it.
fn asked(request: &Request) -> Asked {
    let (kind, object) = subject(&request.path);
    let role = match request.bearer {
        Bearer::Administrator => "administrator",
        Bearer::User(_) => "user",
        Bearer::Nobody => "nobody",
        Bearer::Expired => "expired",
    };
    Asked {
        role: role.into(),
        uid: request.proved.as_ref().map(|proved| proved.uid),
        user: request.proved.as_ref().map(|proved| proved.user.clone()),
        address: request.address.clone(),
        claimed_command: request.claim("command"),
        claimed_host: request.claim("host"),
        claimed_request_of: request.claim("request-of"),
        kind,
        object: object.or_else(|| quotas::owner_in(&request.body).filter(|_| request.path == quotas::PATH)),
        before: None,
        after: Some(String::from_utf8_lossy(&request.body).into_owned()).filter(|body| !body.is_empty()),
        is_told: false,
    }
}

/// The kind and the object of a path: `target speed` and `0.1` of `/v1/targets/0.1/speed`.
fn subject(path: &str) -> (String, Option<String>) {
    for (begin, kind) in [(TARGET_PATH, "target"), (SERVER_PATH, "server")] {
        if let Some(rest) = path.strip_prefix(begin) {
            let (object, part) = rest.split_once('/').unwrap_or((rest, ""));
            return (format!("{kind} {part}").trim_end().to_string(), Some(object.to_string()));
        }
    }
    let kind = if path == quotas::PATH { "quota" } else { path.trim_start_matches("/v1/") };
    (kind.to_string(), None)
}

/// The value before a change, where the store tells it.
fn before(request: &Request, desk: &Desk) -> Option<String> {
    if request.path == quotas::PATH {
        return quotas::limits_before(&request.body, desk);
    }
    let (kind, object) = subject(&request.path);
    if let Some((of, key @ ("state" | "speed"))) = kind.split_once(' ') {
        let status = serde_json::to_value(&*desk.status().ok()?).ok()?;
        let named = |target: &&Value| target.get("target").and_then(Value::as_str) == object.as_deref();
        let shown = match of {
            "server" => &status,
            _ => status.get("targets")?.as_array()?.iter().find(named)?,
        };
        return Some(serde_json::json!({ key: shown.get(key)? }).to_string());
    }
    answered("GET", request, desk).filter(|answer| answer.0 == 200).map(|answer| answer.1.to_string())
}

/// The answer of a resource to another method.
fn answered(method: &str, request: &Request, desk: &Desk) -> Option<Answer> {
    route(method, &request.path).map(|handler| handler(request, desk))
}

fn outcome(answer: &Answer) -> Outcome {
    match answer.0 {
        200 => Outcome::Done,
        // The change may be made yet.
        503 if reason(answer) == Some(busy().error) => Outcome::Unknown,
        _ => Outcome::Failed,
    }
}

fn reason(answer: &Answer) -> Option<String> {
    let said: Value = serde_json::from_str(&answer.1).ok().filter(|_| answer.0 != 200)?;
    said.get("error")?.as_str().map(str::to_string)
}

fn warn_of(noted: std::io::Result<()>) {
    if let Err(error) = noted {
        warning!("an entry of the audit is in memory alone: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_kind_and_an_object() {
        for (path, kind, object) in [
            ("/v1/policy", "policy", None),
            ("/v1/quotas", "quota", None),
            ("/v1/mend", "mend", None),
            ("/v1/targets/0.1", "target", Some("0.1")),
            ("/v1/targets/0.1/speed", "target speed", Some("0.1")),
            ("/v1/servers/2/names", "server names", Some("2")),
        ] {
            assert_eq!(subject(path), (kind.to_string(), object.map(str::to_string)), "{path}");
        }
    }
}
