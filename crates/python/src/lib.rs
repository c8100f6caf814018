//! The module `weir._core`: the pure leaves, the simulator and the client of a store as Python uses them.
//!
//! Each function is one call into a crate, so that Python never holds a second version of a decision.
#![deny(unsafe_code)]

mod algorithms;
mod allocation;
mod channel;
mod client;
mod description;
mod interference;
mod layout;
mod refactor;
mod sharing;
mod simulation;
mod statistics;
mod trace;
mod windows;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use weir_fairshare::{Algorithm, Policy, Sharing};
use weir_wire::{Claims, Credential, Role, SiteKey};

/// The module `weir._core`: the pure leaves, the simulator and the client of a store as Python uses them.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::allocation::{allocator_names, arrange, space_factors, Allocation, Allocator};
    #[pymodule_export]
    use super::channel::SealedChannel;
    #[pymodule_export]
    use super::client::{StoreClient, StoreFile};
    #[pymodule_export]
    use super::description::{
        parse_fraction, parse_heartbeat, parse_rate, parse_seconds, parse_silence, parse_size,
        parse_topology, parse_transport, toml_lines,
    };
    #[pymodule_export]
    use super::interference::{window_features, SlowdownPredictor};
    #[pymodule_export]
    use super::layout::{
        contiguous_layout, layout_from_ini, layout_to_ini, layout_warning, parse_layout, stripe_shares,
    };
    #[pymodule_export]
    use super::refactor::{
        mesh_order_by_connectivity, mesh_order_by_coordinates, refactor, refactored_header_bytes, Refactored,
        Restored,
    };
    #[pymodule_export]
    use super::sharing::owed_shares;
    #[pymodule_export]
    use super::simulation::{simulate, step_columns, step_kinds};
    #[pymodule_export]
    use super::statistics::{room_together, speeds_and_loads};
    #[pymodule_export]
    use super::trace::{decode_trace, trace_windows};
    #[pymodule_export]
    use super::windows::client_windows;
    #[pymodule_export]
    use super::{
        claims_of_credential, job_identifier, mint_credential, parse_policy, parse_sharing, policy_levels,
        policy_names, scheduler_names,
    };
}

/// Mint a credential: the text of a credential file.
///
/// Times are Unix seconds. Raises ValueError when the key is not 64 hexadecimal digits or a claim is outside its limit.
#[pyfunction]
#[pyo3(signature = (site_key, *, job, user, group, uid, gid, groups, nodes, priority, role, issued_seconds, expires_seconds))]
// One keyword per claim: Python names them, so the number of parameters is the number of claims.
#[allow(clippy::too_many_arguments)]
fn mint_credential(
    site_key: &str,
    job: String,
    user: String,
    group: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    nodes: u32,
    priority: u32,
    role: &str,
    issued_seconds: u64,
    expires_seconds: u64,
) -> PyResult<String> {
    let role = parse_role(role)?;
    let claims =
        Claims { job, user, group, uid, gid, groups, nodes, priority, role, issued_seconds, expires_seconds };
    if !claims.is_well_formed() {
        return Err(PyValueError::new_err(
            "a claim is outside its limit: names have 1 to 128 bytes, nodes and priority are at least 1, \
             and there are at most 256 groups",
        ));
    }
    Ok(parse_key(site_key)?.mint(claims).to_json())
}

/// Read the claims of a credential file's text.
///
/// Raises ValueError with the wrong part of the text. The tag is not checked: only servers hold the key.
#[pyfunction]
fn claims_of_credential<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
    let claims = parse_credential(text)?.claims;
    let dictionary = pyo3::types::PyDict::new(py);
    dictionary.set_item("job", claims.job)?;
    dictionary.set_item("user", claims.user)?;
    dictionary.set_item("group", claims.group)?;
    dictionary.set_item("uid", claims.uid)?;
    dictionary.set_item("gid", claims.gid)?;
    dictionary.set_item("groups", claims.groups)?;
    dictionary.set_item("nodes", claims.nodes)?;
    dictionary.set_item("priority", claims.priority)?;
    dictionary.set_item("role", role_name(claims.role))?;
    dictionary.set_item("issued_seconds", claims.issued_seconds)?;
    dictionary.set_item("expires_seconds", claims.expires_seconds)?;
    Ok(dictionary)
}

/// The job's number as servers print it, from a credential file's text.
#[pyfunction]
fn job_identifier(text: &str) -> PyResult<String> {
    Ok(parse_credential(text)?.claims.job_id().to_string())
}

/// The canonical text of a policy. Raises ValueError with the policies that exist.
#[pyfunction]
fn parse_policy(text: &str) -> PyResult<String> {
    text.parse::<Policy>()
        .map(|policy| policy.to_string())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The names of a policy's levels, outermost first; none under `fifo`. Raises ValueError with the policies that exist.
#[pyfunction]
fn policy_levels(text: &str) -> PyResult<Vec<&'static str>> {
    text.parse::<Policy>()
        .map(|policy| policy.levels())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The canonical texts of a policy and of the scheduler that enforces it: the default one where none is given.
/// Raises ValueError with those that exist, or saying why they do not go together.
#[pyfunction]
#[pyo3(signature = (policy, scheduler=None))]
fn parse_sharing(policy: &str, scheduler: Option<&str>) -> PyResult<(String, String)> {
    let wrong = |error: String| PyValueError::new_err(error);
    let policy = policy.parse::<Policy>().map_err(|error| wrong(error.to_string()))?;
    let scheduler = scheduler.map(|name| name.parse::<Algorithm>()).transpose();
    let scheduler = scheduler.map_err(|error| wrong(error.to_string()))?;
    let sharing =
        Sharing::new(policy, scheduler, Arc::default()).map_err(|error| wrong(error.to_string()))?;
    Ok((sharing.policy().to_string(), sharing.algorithm().to_string()))
}

/// The names of the schedulers.
#[pyfunction]
fn scheduler_names() -> Vec<&'static str> {
    Algorithm::NAMES.to_vec()
}

/// The names of the policies most sites choose among; other compositions of levels are policies too.
#[pyfunction]
fn policy_names() -> Vec<&'static str> {
    Policy::NAMES.to_vec()
}

fn parse_key(text: &str) -> PyResult<SiteKey> {
    SiteKey::from_hex(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn parse_credential(text: &str) -> PyResult<Credential> {
    Credential::from_json(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn parse_role(name: &str) -> PyResult<Role> {
    match name {
        "user" => Ok(Role::User),
        "mount" => Ok(Role::Mount),
        "administrator" => Ok(Role::Administrator),
        other => {
            let what = format!("unknown role `{other}`: expected user, mount or administrator");
            Err(PyValueError::new_err(what))
        }
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Mount => "mount",
        Role::Administrator => "administrator",
        Role::Server => "server",
    }
}
