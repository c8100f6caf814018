//! The policy language: one string says how a target's time is divided.
//!
//! A fair policy is a list of levels, outermost first; each level names the entities among which
//! a node of the share tree divides its time, and their weights (ThemisIO, SC'23, section 2.2.2).
//! A level that is not the last gathers jobs into classes: of one group, one user, one priority or
//! one size. The last level divides among jobs; `group` and `user` are followed by `job` unsaid.
//!
//! ```text
//! policy = "fifo" | levels "-fair"
//! levels = level (("-" | "-then-") level)*
//! level  = "group" | "user" | "priority" | "size" | "job"
//! ```
//!
//! The paper writes `user-then-size-fair` and `user-size-fair` for one policy; it is printed with `-then-`.

use std::fmt;
use std::str::FromStr;

use crate::job::{GroupId, JobAttributes, JobId, UserId};

/// The rule by which a target's time is divided among jobs. It is parsed from one string and printed as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Requests in order of arrival, whoever sends them.
    Fifo,
    /// Time is divided level by level, outermost first: at least one level, none of them twice, and
    /// [`Level::Job`] only last.
    Fair(Vec<Level>),
}

/// A level of the share tree: the holders that divide time, and the measure of their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Equally among groups.
    Group,
    /// Equally among users.
    User,
    /// In proportion to priority: among jobs where it is the last level, else among the classes of
    /// jobs of one priority.
    Priority,
    /// In proportion to compute nodes: among jobs where it is the last level, else among the
    /// classes of jobs of one size.
    Size,
    /// Equally among jobs.
    Job,
}

/// The group, user or job behind a node of the share tree; unique among the children of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Entity {
    Group(GroupId),
    User(UserId),
    /// The jobs of one priority.
    Priority(u32),
    /// The jobs of one size.
    Size(u32),
    Job(JobId),
    /// A node of a tree of any shape, in tests of the tree itself.
    #[cfg(test)]
    Numbered(u32),
}

/// A string that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A string without the form of a policy.
    #[error("unknown policy `{given}`: {}{}", Policy::EXPECTED, did_you_mean(.nearest))]
    Unknown {
        /// The given string.
        given: String,
        /// The common policy whose name is nearest, where one is near.
        nearest: Option<&'static str>,
    },
    /// A level does not exist.
    #[error("unknown level `{level}` in policy `{given}`: {}{}", Policy::EXPECTED, did_you_mean(.nearest))]
    UnknownLevel {
        /// The given string.
        given: String,
        /// The level that does not exist.
        level: String,
        /// The level whose name is nearest, where one is near.
        nearest: Option<&'static str>,
    },
    /// A level stands where it can divide nothing.
    #[error("policy `{given}` divides nothing at its level `{level}`: {reason}; {}", Policy::EXPECTED)]
    Idle {
        /// The given string.
        given: String,
        /// The level.
        level: Level,
        /// The reason.
        reason: &'static str,
    },
}

impl Policy {
    /// The policies most sites choose among; every other composition of levels is accepted too.
    pub const NAMES: [&'static str; 7] = [
        "fifo",
        "job-fair",
        "user-fair",
        "size-fair",
        "priority-fair",
        "user-then-size-fair",
        "group-then-user-then-size-fair",
    ];

    /// The strings that [`Policy::from_str`] accepts, in a sentence.
    const EXPECTED: &'static str = "expected one of fifo, job-fair, user-fair, size-fair, priority-fair, \
         user-then-size-fair, group-then-user-then-size-fair, or levels of your own as A-then-B-fair or A-B-fair, of \
         group, user, priority, size and job";

    /// The names of the levels, outermost first; none under `fifo`.
    pub fn levels(&self) -> Vec<&'static str> {
        match self {
            Policy::Fifo => Vec::new(),
            Policy::Fair(levels) => levels.iter().map(|level| level.name()).collect(),
        }
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(given: &str) -> Result<Policy, PolicyError> {
        let name = given.trim().to_ascii_lowercase();
        if name == "fifo" {
            return Ok(Policy::Fifo);
        }
        let unknown =
            || PolicyError::Unknown { given: given.to_owned(), nearest: nearest(&name, &Policy::NAMES) };
        let words = level_words(&name).ok_or_else(unknown)?;
        let mut fair: Vec<Level> = Vec::new();
        for &word in &words {
            let Some(level) = Level::ALL.into_iter().find(|level| level.name() == word) else {
                if words.len() == 1 {
                    return Err(unknown());
                }
                let (given, level) = (given.to_owned(), word.to_owned());
                return Err(PolicyError::UnknownLevel {
                    given,
                    nearest: nearest(word, &Level::NAMES),
                    level,
                });
            };
            let idle = |level, reason| Err(PolicyError::Idle { given: given.to_owned(), level, reason });
            if fair.contains(&level) {
                return idle(level, "it was divided by before");
            }
            if fair.last() == Some(&Level::Job) {
                return idle(level, "`job` before it leaves a single job");
            }
            fair.push(level);
        }
        Ok(Policy::Fair(fair))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fifo => formatter.write_str("fifo"),
            Policy::Fair(_) => write!(formatter, "{}-fair", self.levels().join("-then-")),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Level {
    /// Every level and its name, in the order of their declaration.
    const ALL: [Level; 5] = [Level::Group, Level::User, Level::Priority, Level::Size, Level::Job];
    const NAMES: [&'static str; 5] = ["group", "user", "priority", "size", "job"];

    fn name(self) -> &'static str {
        Level::NAMES[self as usize]
    }

    /// The weight that this level gives the entity `job` belongs to.
    pub(crate) fn weight(self, job: &JobAttributes) -> u32 {
        match self {
            Level::Group | Level::User | Level::Job => 1,
            Level::Priority => job.priority.0.max(1),
            Level::Size => job.nodes.max(1),
        }
    }

    /// The entity `job` belongs to at this level where other levels follow; none where the level
    /// itself is one of jobs.
    pub(crate) fn class(self, job: &JobAttributes) -> Option<Entity> {
        match self {
            Level::Group => Some(Entity::Group(job.group)),
            Level::User => Some(Entity::User(job.user)),
            Level::Priority => Some(Entity::Priority(self.weight(job))),
            Level::Size => Some(Entity::Size(self.weight(job))),
            Level::Job => None,
        }
    }

    /// Whether, as the last level, it divides among jobs.
    pub(crate) fn divides_jobs(self) -> bool {
        matches!(self, Level::Priority | Level::Size | Level::Job)
    }
}

/// The words between which `-` or `-then-` stands in the name of a fair policy; none where its form is another one.
fn level_words(name: &str) -> Option<Vec<&str>> {
    const THEN: &str = "then";
    let words: Vec<&str> = name.strip_suffix("-fair")?.split('-').collect();
    let is_level = |word: &&str| !word.is_empty() && *word != THEN;
    let ends_in_levels = words.first().is_some_and(is_level) && words.last().is_some_and(is_level);
    let is_doubled = words.windows(2).any(|pair| pair == [THEN, THEN]) || words.contains(&"");
    (ends_in_levels && !is_doubled).then(|| words.into_iter().filter(is_level).collect())
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// The name within a third of its letters of `given`, if any.
pub(crate) fn nearest(given: &str, names: &[&'static str]) -> Option<&'static str> {
    names
        .iter()
        .map(|&name| (edit_distance(given, name), name))
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_round_trips() {
        for name in Policy::NAMES {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
            assert!(Policy::EXPECTED.contains(name));
        }
        for (level, name) in Level::ALL.into_iter().zip(Level::NAMES) {
            assert_eq!(level.name(), name);
        }
        assert_eq!(" Size-Fair ".parse::<Policy>().unwrap().to_string(), "size-fair");
    }

    #[test]
    fn every_spelling_of_the_paper_is_taken() {
        for (given, printed) in [
            ("user-size-fair", "user-then-size-fair"),
            ("group-user-size-fair", "group-then-user-then-size-fair"),
            ("group-user-then-size-fair", "group-then-user-then-size-fair"),
            ("group-then-user-size-fair", "group-then-user-then-size-fair"),
            ("group-then-user-fair", "group-then-user-fair"),
            ("user-then-job-fair", "user-then-job-fair"),
        ] {
            assert_eq!(given.parse::<Policy>().unwrap().to_string(), printed);
        }
    }

    proptest! {
        #[test]
        fn every_order_of_levels_round_trips(
            mut levels in Just(Level::ALL.to_vec()).prop_shuffle(),
            depth in 1..=5_usize,
        ) {
            levels.truncate(depth);
            if let Some(job) = levels.iter().position(|&level| level == Level::Job) {
                levels.truncate(job + 1);
            }
            let policy = Policy::Fair(levels);
            let short = policy.to_string().replace("-then-", "-");
            prop_assert_eq!(short.parse(), Ok(policy.clone()));
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn a_wrong_policy_is_answered_with_the_right_ones() {
        for (given, expected) in [
            ("szie-fair", "unknown policy `szie-fair`"),
            ("szie-fair", "(did you mean `size-fair`?)"),
            ("lottery", "expected one of fifo, job-fair"),
            ("fair", "unknown policy `fair`"),
            ("-fair", "unknown policy `-fair`"),
            ("user-then-fifo-fair", "unknown level `fifo`"),
            ("usr-then-size-fair", "unknown level `usr` in policy `usr-then-size-fair`"),
            ("usr-then-size-fair", "(did you mean `user`?)"),
            ("user-then-user-fair", "it was divided by before"),
            ("job-then-size-fair", "`job` before it leaves a single job"),
            ("user-then-fair", "unknown policy"),
            ("then-user-fair", "unknown policy"),
            ("user-then-then-size-fair", "unknown policy"),
            ("user--size-fair", "unknown policy"),
            ("user-size", "unknown policy `user-size`"),
            ("user-fifo-fair", "unknown level `fifo`"),
            ("user-user-fair", "it was divided by before"),
        ] {
            let error = given.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(expected), "{given} gave {error:?}");
            assert!(error.contains("group-then-user-then-size-fair"), "{error:?}");
        }
    }
}
