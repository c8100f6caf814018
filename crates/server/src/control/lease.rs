//! The lease of the sharing in the control API.

use super::{failure, json, Answer, Desk};
use crate::control::http::Request;
use weir_core::control::lease_terms::LeaseWanted;
use weir_core::control::question::Question;

/// `GET` and `PUT /v1/lease`.
pub(super) const PATH: &str = "/v1/lease";
/// Longest body of a lease: JSON may escape each byte of the longest names of the most jobs with six characters, and the
/// most targets that new files avoid take as much again.
pub(super) const BODY_BYTES_MAX: usize = 128 << 10;

/// Shows the lease. The names of jobs are nobody else's business, so the caller must be an administrator.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    match desk.ask(Question::Lease) {
        Ok(told) => json(200, &told),
        Err(failure) => json(503, &failure),
    }
}

/// Sets, renews or ends the lease.
pub(super) fn set(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let refused = |error: &str| json(400, &failure(error, "see `weir guard --help`"));
    let wanted: LeaseWanted = match serde_json::from_slice(&request.body) {
        Ok(wanted) => wanted,
        Err(error) => return refused(&format!("not a lease: {error}")),
    };
    if let Err(error) = wanted.check() {
        return refused(&error);
    }
    match desk.ask(|answer| Question::SetLease(Box::new(wanted), answer)) {
        Ok(Ok(told)) => json(200, &told),
        Ok(Err(error)) => refused(&error),
        Err(failure) => json(503, &failure),
    }
}
