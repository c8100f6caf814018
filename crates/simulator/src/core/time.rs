//! Seconds of a scenario and nanoseconds of its clock.

use weir_fairshare::Nanos;

const NANOSECONDS: f64 = 1e9;

/// The moment or span of so many seconds, to the nearest nanosecond; at least none.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * NANOSECONDS).round() as u64)
}

/// As [`nanos`], and never before `seconds`.
pub(crate) fn nanos_above(seconds: f64) -> Nanos {
    Nanos((seconds * NANOSECONDS).ceil() as u64)
}

pub(crate) fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / NANOSECONDS
}
