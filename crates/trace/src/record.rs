//! The records of a trace. Paths are absolute, as the program named them, and need not be UTF-8.

use serde::{Deserialize, Serialize};

/// One action of a process.
///
/// A version of the format never changes the order or the fields of these variants: a change raises
/// [`VERSION`](crate::VERSION). Version 2 added the variants from [`Record::Job`] on, and version 3 [`Record::Accessed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record<'a> {
    /// The recording process: the first record of a trace, and only the first.
    #[serde(borrow)]
    Process(Process<'a>),
    /// A file was opened for writing.
    #[serde(borrow)]
    Opened(Opened<'a>),
    /// Bytes of a file were written.
    Written(Written),
    /// The layout of a file became known.
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
    /// The job for which the process counts its operations on a store. It stands before the first window.
    #[serde(borrow)]
    Job(Job<'a>),
    /// The operations on a device in a window.
    Window(Window),
    /// Operations are missing in the windows.
    Uncounted(Uncounted),
    /// A file of the store was read or written by the client.
    #[serde(borrow)]
    Accessed(Accessed<'a>),
}

impl Record<'_> {
    /// The first version of the format that has the record.
    pub(crate) fn since(&self) -> u32 {
        match self {
            Record::Job(_) | Record::Window(_) | Record::Uncounted(_) => 2,
            Record::Accessed(_) => 3,
            _ => 1,
        }
    }
}

/// A process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process<'a> {
    /// An identity that all processes of one invocation share.
    #[serde(borrow)]
    pub run: &'a str,
    /// Name of the node.
    #[serde(borrow, with = "serde_bytes")]
    pub node: &'a [u8],
    /// Number of the process on its node.
    pub process: u32,
    /// Number of the parent process.
    pub parent: u32,
    /// Whether `weir run` started the process itself.
    pub is_first: bool,
    /// The executable.
    #[serde(borrow, with = "serde_bytes")]
    pub program: &'a [u8],
    /// The arguments, the program's own name first, each with a zero byte at its end; long arguments are cut.
    #[serde(borrow, with = "serde_bytes")]
    pub arguments: &'a [u8],
    /// The working directory.
    #[serde(borrow, with = "serde_bytes")]
    pub directory: &'a [u8],
    /// Name of the job, if the batch system named it.
    #[serde(borrow, with = "serde_bytes")]
    pub job: &'a [u8],
    /// Place in a communicator.
    pub rank: Option<Rank>,
    /// Start in nanoseconds since the Unix epoch: all times of the trace count from it.
    pub started_nanoseconds: u64,
}

/// Place of a process in the communicator it was started in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number, from 0.
    pub number: u32,
    /// Number of processes; 0 where no variable states it.
    pub size: u32,
    /// The source of the rank.
    pub launcher: Launcher,
}

/// The source of a rank in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launcher {
    /// `PMI_RANK`, `PMI_SIZE`: MPICH, Intel MPI and Cray under Hydra or PALS.
    Pmi,
    /// `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`: Open MPI.
    OpenMpi,
    /// `MV2_COMM_WORLD_RANK`, `MV2_COMM_WORLD_SIZE`: MVAPICH2.
    Mvapich,
    /// `PMIX_RANK`; it states no size, so the size of Open MPI or Slurm is taken.
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
    /// The name behind symbolic links; empty where no other name is known.
    #[serde(borrow, with = "serde_bytes")]
    pub true_path: &'a [u8],
    /// The effect of the opening on the file.
    pub opening: Opening,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The effect of an opening on the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// The file was not there before.
    Created,
    /// The file was there, and lost its bytes.
    Truncated,
    /// The file was there, and kept its bytes.
    Existing,
    /// The process did not open the file: it inherited the descriptor over `fork` or `exec`.
    Inherited,
}

/// The bytes of an open file that this process has written so far; a later record of the same file replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Number of the open file.
    pub file: u32,
    /// One past the last byte written.
    pub end_bytes: u64,
    /// Bytes written; a byte written twice counts twice.
    pub written_bytes: u64,
    /// The writes were not seen (libc's streams, mapped memory): both numbers follow from the file's size.
    pub is_estimate: bool,
    /// The last descriptor of it was closed.
    pub is_closed: bool,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The layout of an open file.
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
    /// The old name.
    #[serde(borrow, with = "serde_bytes")]
    pub from: &'a [u8],
    /// The new name.
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
    /// Files opened for writing that were not recorded, because too many were open at once.
    pub missed_files: u64,
}

/// The job for which a process counts its operations on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job<'a> {
    /// The number of the store.
    pub store: u64,
    /// Number of the job's user.
    pub uid: u32,
    /// Name of the job.
    #[serde(borrow)]
    pub name: &'a str,
    /// Length of a window.
    pub window_nanoseconds: u64,
}

/// The operations on a device that ended in a window, their bytes, and the sums of their times.
///
/// The counts of a window only grow. Where a trace has several records of a device's window, the greatest of each count holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Number of the window since 1970.
    pub number: u64,
    /// The device's server.
    pub server: u16,
    /// The device's number on its server; absent for the metadata service.
    pub target: Option<u16>,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of the reads.
    pub read_nanoseconds: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of the writes.
    pub write_nanoseconds: u64,
    /// Metadata operations that change nothing.
    pub stats: u64,
    /// Opens.
    pub opens: u64,
    /// Closes.
    pub closes: u64,
    /// Other metadata operations.
    pub others: u64,
    /// Time of the metadata operations.
    pub metadata_nanoseconds: u64,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The operations that are missing in the windows so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncounted {
    /// Records of windows that were not written, because the trace has no more room for them.
    pub windows: u64,
    /// Operations that were not counted, because the process used too many devices at once, or its clock was set back far.
    pub operations: u64,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The reads and writes of a file of the store, through one open description. A file may have several records, which add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accessed<'a> {
    /// The file's name; empty for the accesses of all files that have no record of their own.
    #[serde(borrow, with = "serde_bytes")]
    pub path: &'a [u8],
    /// The layout in the spelling of `lfs setstripe`; empty where it is not known.
    #[serde(borrow)]
    pub layout: &'a str,
    /// The reads.
    pub reads: Pattern,
    /// The writes.
    pub writes: Pattern,
    /// Nanoseconds since the process started.
    pub after_nanoseconds: u64,
}

/// The sizes of accesses in one direction, and their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Accesses by size: each class ends below the bound of [`SIZE_BOUNDS`] at its place, and the last class has no bound.
    pub sizes: [u64; SIZE_BOUNDS.len() + 1],
    /// Bytes of the accesses.
    pub bytes: u64,
    /// Accesses that begin at no multiple of [`ALIGNMENT_BYTES`].
    pub unaligned: u64,
    /// Accesses that begin at the end of the one before, or behind it. The first access is one of them.
    pub ahead: u64,
    /// Accesses that begin where the one before ended. The first access is one of them.
    pub consecutive: u64,
}

/// Bounds of the classes of sizes in bytes.
pub const SIZE_BOUNDS: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 4 << 20];
/// An access that begins at a multiple of this number of bytes, a page of memory, is aligned.
pub const ALIGNMENT_BYTES: u64 = 4096;
