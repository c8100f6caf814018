//! The policy language: one string says how a target's time is divided.
//!
//! A fair policy is a list of levels, outermost first; each level names the entities among which
//! a node of the share tree divides its time, and their weights (ThemisIO, SC'23, section 2.2.2).

use std::fmt;
use std::str::FromStr;

use crate::job::{JobAttributes, JobId};

/// How a target's time is divided among jobs. Parsed from, and printed as, one string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Requests in order of arrival, whoever sends them.
    Fifo,
    /// Time is divided level by level, outermost first.
    Fair(Vec<Level>),
}

/// Among whom one level of the share tree divides time, and by which weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Equally among jobs.
    Job,
    /// Among jobs, in proportion to their compute nodes.
    Size,
}

/// One child of a node of the share tree, before it has a place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) entity: Entity,
    pub(crate) weight: u32,
}

/// Who a node of the share tree stands for; unique among the children of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entity {
    Job(JobId),
    /// A node of a tree of any shape, in tests of the tree itself.
    #[cfg(test)]
    Numbered(u32),
}

/// A string that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    #[error(
        "unknown policy `{given}`: expected one of {}{}",
        Policy::NAMES.join(", "),
        .nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
    )]
    Unknown {
        /// What was given.
        given: String,
        /// The policy whose name is nearest, where one is near.
        nearest: Option<&'static str>,
    },
}

impl Policy {
    /// The names [`Policy::from_str`] accepts.
    pub const NAMES: [&'static str; 3] = ["fifo", "job-fair", "size-fair"];
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(given: &str) -> Result<Policy, PolicyError> {
        match given.trim().to_ascii_lowercase().as_str() {
            "fifo" => Ok(Policy::Fifo),
            "job-fair" => Ok(Policy::Fair(vec![Level::Job])),
            "size-fair" => Ok(Policy::Fair(vec![Level::Size])),
            other => Err(PolicyError::Unknown { given: given.to_owned(), nearest: nearest(other) }),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fifo => formatter.write_str("fifo"),
            Policy::Fair(levels) => {
                let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
                write!(formatter, "{}-fair", names.join("-then-"))
            }
        }
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Job => "job",
            Level::Size => "size",
        }
    }

    /// The child of this level's node that `job` belongs to.
    pub(crate) fn branch(self, job: &JobAttributes) -> Branch {
        match self {
            Level::Job => Branch { entity: Entity::Job(job.job), weight: 1 },
            Level::Size => Branch { entity: Entity::Job(job.job), weight: job.nodes.max(1) },
        }
    }
}

/// The policy name within a third of its letters of `given`, if any.
fn nearest(given: &str) -> Option<&'static str> {
    Policy::NAMES
        .into_iter()
        .map(|name| (edit_distance(given, name), name))
        .filter(|(distance, name)| distance * 3 <= name.len() + 2)
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein's distance: insertions, deletions and substitutions from `left` to `right`.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..right.len() {
            let substituted = diagonal + usize::from(letter != right[column]);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_round_trips() {
        for name in Policy::NAMES {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        assert_eq!(" Size-Fair ".parse::<Policy>().unwrap().to_string(), "size-fair");
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        let error = "szie-fair".parse::<Policy>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown policy `szie-fair`: expected one of fifo, job-fair, size-fair \
             (did you mean `size-fair`?)"
        );
        assert!(matches!("lottery".parse::<Policy>(), Err(PolicyError::Unknown { nearest: None, .. })));
    }

    #[test]
    fn a_job_of_unknown_size_counts_as_one_node() {
        let job = JobAttributes {
            job: JobId(7),
            user: crate::UserId(1),
            group: crate::GroupId(1),
            nodes: 0,
            priority: crate::Priority(0),
        };
        assert_eq!(Level::Size.branch(&job).weight, 1);
    }
}
