//! The records of a trace. Paths are absolute, as the program named them, and need not be UTF-8.

use serde::{Deserialize, Serialize};

/// One thing that a process did.
///
/// A version of the format never changes the order or the fields of these: whoever changes them raises
/// [`VERSION`](crate::VERSION).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record<'a> {
    /// Who records: the first record of a trace, and only there.
    #[serde(borrow)]
    Process(Process<'a>),
    /// A file was opened for writing.
    #[serde(borrow)]
    Opened(Opened<'a>),
    /// How much of it has been written so far.
    Written(Written),
    /// Where its bytes lie.
    #[serde(borrow)]
    Placed(Placed<'a>),
    /// A file got another name.
    #[serde(borrow)]
    Renamed(Renamed<'a>),
    /// A name was removed.
    #[serde(borrow)]
    Unlinked(Unlinked<'a>),
    /// The process image ended by itself: it exited, or became another program.
    Ended(Ended),
}

/// A process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process<'a> {
    /// What is common to all processes of one invocation.
    #[serde(borrow)]
    pub run: &'a str,
    /// Name of the node.
    #[serde(borrow, with = "serde_bytes")]
    pub node: &'a [u8],
    /// Number of the process on its node.
    pub process: u32,
    /// Number of the process that made it.
    pub parent: u32,
    /// Whether it is what `weir run` started itself.
    pub is_first: bool,
    /// The executable.
    #[serde(borrow, with = "serde_bytes")]
    pub program: &'a [u8],
    /// Its arguments, the program's own name first, each with a zero byte at its end; long ones are cut.
    #[serde(borrow, with = "serde_bytes")]
    pub arguments: &'a [u8],
    /// The working directory.
    #[serde(borrow, with = "serde_bytes")]
    pub directory: &'a [u8],
    /// Name of the job, where the batch system told it.
    #[serde(borrow, with = "serde_bytes")]
    pub job: &'a [u8],
    /// Place in a communicator.
    pub rank: Option<Rank>,
    /// Nanoseconds since the Unix epoch: all times of the trace count from here.
    pub started_nanoseconds: u64,
}

/// Place of a process in the communicator it was started in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number, from 0.
    pub number: u32,
    /// Number of processes; 0 where nobody told it.
    pub size: u32,
    /// Who told it.
    pub launcher: Launcher,
}

/// Whose environment told a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launcher {
    /// `PMI_RANK`, `PMI_SIZE`: MPICH, Intel MPI and Cray under Hydra or PALS.
    Pmi,
    /// `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`: Open MPI.
    OpenMpi,
    /// `MV2_COMM_WORLD_RANK`, `MV2_COMM_WORLD_SIZE`: MVAPICH2.
    Mvapich,
    /// `PMIX_RANK`; it tells no size, so that of Open MPI or Slurm is taken.
    Pmix,
    /// `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`: tasks that `srun` starts.
    Slurm,
}

/// A file was opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened<'a> {
    /// Number of the open file in this trace.
    pub file: u32,
    /// Its name.
    #[serde(borrow, with = "serde_bytes")]
    pub path: &'a [u8],
    /// The name that symbolic links lead to; empty where it is not known to be another.
    #[serde(borrow, with = "serde_bytes")]
    pub true_path: &'a [u8],
    /// What the opening did to it.
    pub opening: Opening,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// What an opening did to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// It was not there before.
    Created,
    /// It was there, and lost its bytes.
    Truncated,
    /// It was there, and kept its bytes.
    Existing,
    /// The process did not open it: it came with the descriptor, over `fork` or `exec`.
    Inherited,
}

/// How much of an open file this process has written so far; a later record of the same file takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Number of the open file.
    pub file: u32,
    /// One past the last byte written.
    pub end_bytes: u64,
    /// Bytes written, those written twice counted twice.
    pub written_bytes: u64,
    /// The writes were not seen (libc's streams, mapped memory): both numbers are what the file's size tells.
    pub is_estimate: bool,
    /// The last descriptor of it was closed.
    pub is_closed: bool,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// Where the bytes of an open file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed<'a> {
    /// Number of the open file.
    pub file: u32,
    /// The layout in the spelling of `lfs setstripe`.
    #[serde(borrow)]
    pub layout: &'a str,
}

/// A file got another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed<'a> {
    /// The name before.
    #[serde(borrow, with = "serde_bytes")]
    pub from: &'a [u8],
    /// The name since.
    #[serde(borrow, with = "serde_bytes")]
    pub to: &'a [u8],
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// A name was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlinked<'a> {
    /// The name.
    #[serde(borrow, with = "serde_bytes")]
    pub path: &'a [u8],
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The process image ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
    /// Files opened for writing that were not recorded, because more were open at once than are followed.
    pub missed_files: u64,
}
