//! The work of jobs: streams of steps, and the files that they touch.
//!
//! A stream is a process, or many alike that are taken as one. It does its steps one after the other. Indices of jobs, streams
//! and files are positions in their tables.

use serde::{Deserialize, Serialize};

/// The jobs of a run and their steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The streams.
    pub streams: Vec<Stream>,
    /// The files.
    pub files: Vec<File>,
    /// The steps; those of one stream in their order, streams mixed at will.
    pub steps: Vec<Step>,
}

/// A job, as its credential would prove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its group.
    pub group: String,
    /// Compute nodes that it runs on.
    pub nodes: u32,
    /// Its priority.
    #[serde(default = "one")]
    pub priority: u32,
    /// Moment of its start.
    #[serde(default)]
    pub arrival_seconds: f64,
}

/// One process of a job, or many that act alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its job.
    pub job: u32,
    /// The client node that it runs on.
    pub node: u32,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The job that makes it, or read it where it was there before.
    pub job: u32,
    /// The choice of its targets.
    #[serde(default)]
    pub placement: Placement,
    /// Bytes that it holds before the run; 0 for a file that the run makes.
    #[serde(default)]
    pub bytes: u64,
    /// The server that places it, as the home of its folder. Without one, the homes of files are spread evenly by their numbers.
    #[serde(default)]
    pub home: Option<u32>,
}

/// The choice of a file's targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The scenario's layout and allocator.
    #[default]
    Usual,
    /// A layout as `lfs setstripe` spells it, such as `-E 128M -c 1 -E -1 -c 8 -S 1M`; the allocator chooses the targets.
    Layout(String),
    /// A layout whose targets are named, as in weir-placement's spelling with `-o`.
    Named(String),
}

/// One step of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its stream.
    pub stream: u32,
    /// Its work.
    pub kind: StepKind,
    /// Pause between the end of the step before and this one.
    #[serde(default)]
    pub after_seconds: f64,
    /// Earliest moment of its begin, counted from the job's start.
    #[serde(default)]
    pub not_before_seconds: f64,
    /// The file, where the work has one.
    #[serde(default)]
    pub file: u32,
    /// First byte of a read or write.
    #[serde(default)]
    pub offset: u64,
    /// Bytes of a read or write; operations of `Metadata`.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of each request; 0 takes one request for each stripe.
    #[serde(default)]
    pub request_bytes: u64,
    /// Requests under way at once; 0 is all of the step.
    #[serde(default)]
    pub depth: u32,
}

/// The work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// Nothing but its pause.
    Compute,
    /// Waits for all streams of the job to come to their barrier of the same turn.
    Barrier,
    /// Makes the file: it is placed, and one metadata operation is paid. A file that is there is opened.
    Create,
    /// Reads.
    Read,
    /// Writes; a file that was not made is made first.
    Write,
    /// Metadata operations on the home server of the file that look and change nothing.
    Metadata,
    /// Removes the file, which frees its bytes.
    Remove,
}

fn one() -> u32 {
    1
}
