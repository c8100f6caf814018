//! The windows of one job on a number of servers.

/// Counts of a job's operations on a server; the last three on metadata servers alone.
pub const CLIENT: [&str; 7] = ["reads", "writes", "read_bytes", "written_bytes", "stats", "opens", "closes"];
/// Counters of a server's device, as in Linux's `/proc/diskstats`.
pub const SERVER: [&str; 11] = [
    "reads",
    "writes",
    "merged_reads",
    "merged_writes",
    "read_sectors",
    "written_sectors",
    "read_milliseconds",
    "write_milliseconds",
    "in_progress",
    "busy_milliseconds",
    "queued_milliseconds",
];
/// Reductions of the samples of a window.
pub const STATISTICS: [&str; 3] = ["sum", "mean", "deviation"];
/// Reduced counters of a server.
pub(crate) const REDUCED: usize = SERVER.len() * STATISTICS.len();

/// The place of a counter's mean among the reduced counters.
pub(crate) const fn mean_of(counter: usize) -> usize {
    counter * STATISTICS.len() + 1
}

/// The place of a counter's sum among the reduced counters.
pub(crate) const fn sum_of(counter: usize) -> usize {
    counter * STATISTICS.len()
}

/// Places of reads and writes among the counts of a job and among the counters.
pub(crate) const READS: usize = 0;
pub(crate) const WRITES: usize = 1;
/// Places of the other counts of a job.
pub(crate) const READ_BYTES: usize = 2;
pub(crate) const WRITTEN_BYTES: usize = 3;
pub(crate) const STATS_AND_OPENS: [usize; 2] = [4, 5];
/// Place of `read_sectors` among the counters; the next ones follow in the order of [`SERVER`].
pub(crate) const READ_SECTORS: usize = 4;
pub(crate) const WRITTEN_SECTORS: usize = 5;
pub(crate) const READ_MILLISECONDS: usize = 6;
pub(crate) const WRITE_MILLISECONDS: usize = 7;
pub(crate) const BUSY_MILLISECONDS: usize = 9;
pub(crate) const QUEUED_MILLISECONDS: usize = 10;

/// The windows of a job, in the order of time. A server that was not there has zeros.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    servers: usize,
    io_seconds: &'a [f64],
    present: &'a [u8],
    is_metadata: &'a [u8],
    client: &'a [f64],
    server: &'a [f64],
}

/// Greatest count of a window: sums of its squares are finite.
const COUNT_MAX: f64 = 1e100;

/// The lengths of the columns of windows do not fit together, or a number is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A column has another length than the number of windows and servers asks for.
    #[error("the columns of the windows have lengths that do not fit together")]
    Length,
    /// A number is so large that its square is none, or is not a number.
    #[error("a window has a count that is no number up to {COUNT_MAX:e}")]
    TooLarge,
}

impl<'a> Windows<'a> {
    /// Windows on `servers` servers: columns with one value for each window; for each window and server; and for each
    /// window, server and count.
    ///
    /// # Errors
    /// [`ShapeError`] where the columns do not fit together or hold numbers that are too large.
    pub fn new(
        servers: usize,
        io_seconds: &'a [f64],
        present: &'a [u8],
        is_metadata: &'a [u8],
        client: &'a [f64],
        server: &'a [f64],
    ) -> Result<Windows<'a>, ShapeError> {
        let cells = io_seconds.len().checked_mul(servers).ok_or(ShapeError::Length)?;
        let fits = present.len() == cells
            && is_metadata.len() == cells
            && cells.checked_mul(CLIENT.len()) == Some(client.len())
            && cells.checked_mul(REDUCED) == Some(server.len());
        if !fits {
            return Err(ShapeError::Length);
        }
        let is_bounded = |column: &[f64]| column.iter().all(|each| each.abs() <= COUNT_MAX);
        if !(is_bounded(io_seconds) && is_bounded(client) && is_bounded(server)) {
            return Err(ShapeError::TooLarge);
        }
        Ok(Windows { servers, io_seconds, present, is_metadata, client, server })
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.io_seconds.len()
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.io_seconds.is_empty()
    }

    pub(crate) fn io_seconds(&self) -> &'a [f64] {
        self.io_seconds
    }

    /// One window of these.
    pub(crate) fn window(&self, number: usize) -> Window<'a> {
        let cells = number * self.servers..(number + 1) * self.servers;
        let counts = |each: usize| cells.start * each..cells.end * each;
        Window {
            io_seconds: self.io_seconds[number],
            present: &self.present[cells.clone()],
            is_metadata: &self.is_metadata[cells.clone()],
            client: &self.client[counts(CLIENT.len())],
            server: &self.server[counts(REDUCED)],
        }
    }
}

/// One window of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    pub(crate) io_seconds: f64,
    present: &'a [u8],
    is_metadata: &'a [u8],
    client: &'a [f64],
    server: &'a [f64],
}

impl Window<'_> {
    pub(crate) fn servers(&self) -> usize {
        self.present.len()
    }

    pub(crate) fn is_present(&self, server: usize) -> bool {
        self.present[server] != 0
    }

    pub(crate) fn is_target(&self, server: usize) -> bool {
        self.is_present(server) && self.is_metadata[server] == 0
    }

    pub(crate) fn is_metadata(&self, server: usize) -> bool {
        self.is_present(server) && self.is_metadata[server] != 0
    }

    /// A count of the job, by its place in [`CLIENT`].
    pub(crate) fn count(&self, server: usize, count: usize) -> f64 {
        self.client[server * CLIENT.len() + count]
    }

    /// A reduced counter, by its place in [`SERVER`] and, within that, in [`STATISTICS`].
    pub(crate) fn counter(&self, server: usize, reduced: usize) -> f64 {
        self.server[server * REDUCED + reduced]
    }

    /// The job's reads and writes on a server.
    pub(crate) fn data(&self, server: usize) -> f64 {
        self.count(server, 0) + self.count(server, 1)
    }

    /// The job's operations on metadata on a server.
    pub(crate) fn metadata(&self, server: usize) -> f64 {
        self.count(server, 4) + self.count(server, 5) + self.count(server, 6)
    }
}
