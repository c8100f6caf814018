//! Quotas in the control API: the use and the limits of every owner, and decisions about limits.

use super::{changed, failure, json, Answer, Desk};
use crate::control::http::Request;
use serde::{Deserialize, Serialize};
use weir_core::control::question::{Question, Quotas};
use weir_core::namespace::QuotaLine;
use weir_wire::{QuotaLimits, QuotaOwner, QuotaTable};

/// `GET` and `PUT /v1/quotas`.
pub(super) const PATH: &str = "/v1/quotas";

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    User,
    Group,
}

/// One owner in `/v1/quotas`; without a number, all owners of the kind that have no limits of their own.
#[derive(Serialize)]
struct Line {
    kind: Kind,
    id: Option<u32>,
    /// The use of this server.
    bytes: u64,
    inodes: u64,
    /// The part of the bytes that no published size covers.
    unpublished_bytes: u64,
    /// The limits in force.
    bytes_max: Option<u64>,
    inodes_max: Option<u64>,
    /// Whether these limits were set for this owner.
    is_set: bool,
}

#[derive(Serialize)]
struct Lines {
    owners: Vec<Line>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LimitsBody {
    #[serde(default)]
    bytes_max: Option<u64>,
    #[serde(default)]
    inodes_max: Option<u64>,
}

/// Absent limits leave the owner to the limits of its kind.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct QuotaBody {
    kind: Kind,
    #[serde(default)]
    id: Option<u32>,
    #[serde(default)]
    limits: Option<LimitsBody>,
}

/// Shows the owners. The use of a user is nobody else's business, so the caller must be an administrator.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    match desk.ask(Question::Quotas) {
        Ok(Quotas { lines, table }) => {
            let owners = lines.iter().map(|line| shown(line, &table)).collect();
            json(200, &Lines { owners })
        }
        Err(failure) => json(503, &failure),
    }
}

/// Sets the limits of one owner.
pub(super) fn set(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let body: QuotaBody = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(error) => {
            return json(400, &failure(&format!("not a quota: {error}"), "see `weir quota set --help`"))
        }
    };
    let limits = body.limits.as_ref();
    let limits = limits.map(|limits| QuotaLimits { bytes: limits.bytes_max, inodes: limits.inodes_max });
    changed(desk.ask(|answer| Question::SetQuota(body.owner(), limits, answer)), |()| &body)
}

/// The owner that a body names, for the audit: `user 7`, or `every user` for all without limits of their own.
pub(super) fn owner_in(body: &[u8]) -> Option<String> {
    let body: QuotaBody = serde_json::from_slice(body).ok()?;
    let kind = match body.kind {
        Kind::User => "user",
        Kind::Group => "group",
    };
    Some(body.id.map_or(format!("every {kind}"), |id| format!("{kind} {id}")))
}

/// The limits that are set for the owner of a body, for the audit; `null` where none are.
pub(super) fn limits_before(body: &[u8], desk: &Desk) -> Option<String> {
    let body: QuotaBody = serde_json::from_slice(body).ok()?;
    let Quotas { table, .. } = desk.ask(Question::Quotas).ok()?;
    let limits = table.set_for(body.owner());
    let limits = limits.map(|limits| LimitsBody { bytes_max: limits.bytes, inodes_max: limits.inodes });
    serde_json::to_string(&limits).ok()
}

impl QuotaBody {
    fn owner(&self) -> QuotaOwner {
        match (self.kind, self.id) {
            (Kind::User, Some(id)) => QuotaOwner::User(id),
            (Kind::User, None) => QuotaOwner::AnyUser,
            (Kind::Group, Some(id)) => QuotaOwner::Group(id),
            (Kind::Group, None) => QuotaOwner::AnyGroup,
        }
    }
}

fn shown(line: &QuotaLine, table: &QuotaTable) -> Line {
    let (kind, id) = match line.owner {
        QuotaOwner::User(id) => (Kind::User, Some(id)),
        QuotaOwner::AnyUser => (Kind::User, None),
        QuotaOwner::Group(id) => (Kind::Group, Some(id)),
        QuotaOwner::AnyGroup => (Kind::Group, None),
    };
    let limits = table.of(line.owner);
    Line {
        kind,
        id,
        bytes: line.here.bytes,
        inodes: line.here.inodes,
        unpublished_bytes: line.unpublished_bytes,
        bytes_max: limits.bytes,
        inodes_max: limits.inodes,
        is_set: table.set_for(line.owner).is_some(),
    }
}
