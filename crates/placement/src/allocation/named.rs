//! A view of targets and servers that go by names: those of a store (`3.1`), or Lustre's OSTs by their index.

use super::{AllocationError, ServerState, TargetState, View};
use crate::{ServerId, TargetId};
use std::collections::{HashMap, HashSet};
use thiserror::Error;

/// Figures of named targets and their servers. A list has one value for each target, in their order; if it is
/// absent, all targets are equally fast, idle and empty, and each lies on the server before its dot, else on its own.
#[derive(Clone, Debug, Default)]
pub struct NamedTargets {
    /// The name of each target's server.
    pub servers: Option<Vec<String>>,
    /// The speed of each target; a target of speed 0 is not used.
    pub speeds: Option<Vec<f64>>,
    /// Bytes of work of each target.
    pub loads_bytes: Option<Vec<f64>>,
    /// Bytes that still fit on each target.
    pub free_bytes: Option<Vec<u64>>,
    /// Speeds of servers; one without a speed is never the narrow place.
    pub server_speeds: HashMap<String, f64>,
    /// Bytes of work of servers.
    pub server_loads_bytes: HashMap<String, f64>,
}

/// The reason why names and figures make no view.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum NamedTargetsError {
    /// More targets than there are numbers.
    #[error("{0} targets; at most {max}", max = u16::MAX)]
    TooMany(usize),
    /// A list with another length than the targets'.
    #[error("{name} has {length} values where {expected} are expected")]
    Length {
        /// The list.
        name: &'static str,
        /// Its length.
        length: usize,
        /// The number of targets.
        expected: usize,
    },
    /// A target that was named before.
    #[error("target {0} occurs twice; name each once")]
    Twice(String),
    /// A name of no target.
    #[error("`{0}` is no target: write SERVER.INDEX (3.1) on a store, an OST's index on Lustre")]
    NoTarget(String),
    /// A server that has figures and no target.
    #[error("no target lies on server {0}, of which something is told")]
    UnknownServer(String),
    /// A speed or load of a target that cannot be one.
    #[error(
        "target {name} has speed {speed} and load {load_bytes}: both are finite, a load is not negative"
    )]
    Target {
        /// The target.
        name: String,
        /// Its speed.
        speed: f64,
        /// Its load.
        load_bytes: f64,
    },
    /// A speed or load of a server that cannot be one.
    #[error(
        "server {name} has speed {speed} and load {load_bytes}: a speed is a number, a load finite and not negative"
    )]
    Server {
        /// The server.
        name: String,
        /// Its speed.
        speed: f64,
        /// Its load.
        load_bytes: f64,
    },
    /// The view refuses the figures.
    #[error(transparent)]
    View(#[from] AllocationError),
}

impl NamedTargets {
    /// The view of `targets`, in their order.
    ///
    /// # Errors
    /// A list of another length, a name that is none or occurs twice, a server without targets, or a figure that is none.
    pub fn view(&self, targets: &[String]) -> Result<View, NamedTargetsError> {
        self.check_lengths(targets.len())?;
        if targets.len() > usize::from(u16::MAX) {
            return Err(NamedTargetsError::TooMany(targets.len()));
        }
        let mut numbers: HashMap<&str, u16> = HashMap::new();
        let mut servers = Vec::new();
        let mut states = Vec::with_capacity(targets.len());
        let mut seen = HashSet::new();
        for (place, name) in targets.iter().enumerate() {
            if !seen.insert(name) {
                return Err(NamedTargetsError::Twice(name.clone()));
            }
            let server = self.server_of(place, name)?;
            let next = numbers.len() as u16;
            let number = *numbers.entry(server).or_insert(next);
            if number == next {
                servers.push(self.server_state(number, server)?);
            }
            // Unique whatever the names are: the place in the list.
            let target = TargetId { server: ServerId(number), index: place as u16 };
            states.push(self.target_state(place, name, target)?);
        }
        let mut told = self.server_speeds.keys().chain(self.server_loads_bytes.keys());
        if let Some(name) = told.find(|name| !numbers.contains_key(name.as_str())) {
            return Err(NamedTargetsError::UnknownServer(name.clone()));
        }
        Ok(View::new(states, &servers)?)
    }

    fn check_lengths(&self, expected: usize) -> Result<(), NamedTargetsError> {
        let lengths = [
            ("servers", self.servers.as_ref().map(Vec::len)),
            ("speeds", self.speeds.as_ref().map(Vec::len)),
            ("loads_bytes", self.loads_bytes.as_ref().map(Vec::len)),
            ("free_bytes", self.free_bytes.as_ref().map(Vec::len)),
        ];
        let other = |(name, length): (&'static str, Option<usize>)| {
            let length = length.filter(|&length| length != expected)?;
            Some(NamedTargetsError::Length { name, length, expected })
        };
        lengths.into_iter().find_map(other).map_or(Ok(()), Err)
    }

    fn server_of<'a>(&'a self, place: usize, name: &'a str) -> Result<&'a str, NamedTargetsError> {
        let is_index = name.parse::<u16>().is_ok() && !name.starts_with('+');
        if !is_index && name.parse::<TargetId>().is_err() {
            return Err(NamedTargetsError::NoTarget(name.to_owned()));
        }
        let own = || name.split_once('.').map_or(name, |(server, _)| server);
        Ok(self.servers.as_ref().map_or_else(own, |servers| &servers[place]))
    }

    fn target_state(
        &self,
        place: usize,
        name: &str,
        target: TargetId,
    ) -> Result<TargetState, NamedTargetsError> {
        let speed = self.speeds.as_ref().map_or(1.0, |speeds| speeds[place]);
        let load_bytes = self.loads_bytes.as_ref().map_or(0.0, |loads| loads[place]);
        let free_bytes = self.free_bytes.as_ref().map_or(u64::MAX, |free| free[place]);
        if !speed.is_finite() || !load_bytes.is_finite() || load_bytes < 0.0 {
            return Err(NamedTargetsError::Target { name: name.to_owned(), speed, load_bytes });
        }
        Ok(TargetState { target, speed, load_bytes, free_bytes })
    }

    fn server_state(&self, number: u16, name: &str) -> Result<ServerState, NamedTargetsError> {
        let speed = self.server_speeds.get(name).copied().unwrap_or(f64::INFINITY);
        let load_bytes = self.server_loads_bytes.get(name).copied().unwrap_or(0.0);
        if speed.is_nan() || !load_bytes.is_finite() || load_bytes < 0.0 {
            return Err(NamedTargetsError::Server { name: name.to_owned(), speed, load_bytes });
        }
        Ok(ServerState { server: ServerId(number), speed, load_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn targets_lie_on_the_server_before_the_dot_or_on_their_own_unless_it_is_told() {
        let server_of = |known: &NamedTargets, targets: &str| -> Vec<usize> {
            let view = known.view(&names(targets)).unwrap();
            (0..view.targets().len()).map(|target| view.server_of(target)).collect()
        };
        let known = NamedTargets::default();
        assert_eq!(server_of(&known, "3.1 3.2 4.1"), [0, 0, 1]);
        assert_eq!(server_of(&known, "17 18"), [0, 1]);
        let told = NamedTargets { servers: Some(names("oss1 oss1")), ..known };
        assert_eq!(server_of(&told, "17 18"), [0, 0]);
    }

    #[test]
    fn what_makes_no_view_is_named() {
        let refused = |known: NamedTargets, targets: &str| known.view(&names(targets)).unwrap_err();
        let name = || "0.0".to_owned();
        assert_eq!(refused(NamedTargets::default(), "0.0 0.0"), NamedTargetsError::Twice(name()));
        for wrong in ["a", "+3", "0.0.0"] {
            assert_eq!(
                refused(NamedTargets::default(), wrong),
                NamedTargetsError::NoTarget(wrong.to_owned())
            );
        }
        let one = NamedTargets { speeds: Some(vec![1.0]), ..NamedTargets::default() };
        let length = NamedTargetsError::Length { name: "speeds", length: 1, expected: 2 };
        assert_eq!(refused(one, "0.0 0.1"), length);
        let loaded = NamedTargets { loads_bytes: Some(vec![-1.0]), ..NamedTargets::default() };
        let wrong = NamedTargetsError::Target { name: name(), speed: 1.0, load_bytes: -1.0 };
        assert_eq!(refused(loaded, "0.0"), wrong);
        let server_speeds = HashMap::from([("7".to_owned(), 1.0)]);
        let elsewhere = NamedTargets { server_speeds, ..NamedTargets::default() };
        assert_eq!(refused(elsewhere, "0.0"), NamedTargetsError::UnknownServer("7".to_owned()));
    }
}
