//! Descriptors: the limit of the process, divided so that no part of the server takes the descriptors that another part needs.

/// Descriptors of the server itself: standard streams, the poll, its timer and waker, three listeners, the journal and its
/// snapshot, and two files of each worker.
const OWN: u64 = 32;
/// Descriptors of each target's folder: the folder and its stamp.
const FOLDER: u64 = 2;
/// Descriptors of a home and a journal beside such targets: the journal's folder, their stamps, and one for a look.
const PLACES: u64 = 4;
/// Proved connections: with one thread each of a large job's nodes they fit the usual hard limit of descriptors.
pub const LINKS_MAX: u64 = 32_768;
/// Fewer are of no use to anybody.
const LINKS_MIN: u64 = 8;
/// Connections that have not proved who they are: a handshake takes a few milliseconds, so this many admit tens of thousands of
/// new clients a second.
const STRANGERS_MAX: u64 = 256;
/// Callers of the control API, each served by a short-lived thread; one more takes the place of a caller that keeps the server waiting.
const CALLERS_MAX: u64 = 64;
/// The least of each small budget.
const PART_MIN: u64 = 4;
/// Object files that a target keeps open: as many as a few hundred clients write at once.
const OBJECTS_MAX: u64 = 512;

/// The number of descriptors that each part of a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Connections that are proved.
    pub links: usize,
    /// Connections that are not.
    pub strangers: usize,
    /// Callers of the control API.
    pub callers: usize,
    /// Object files kept open by each target in a directory.
    pub objects: usize,
}

impl Budget {
    /// The parts of `limit` for one of `servers` with so many targets in directories; none where too few are left for connections.
    pub fn of(limit: u64, servers: usize, directories: usize) -> Option<Budget> {
        let (servers, directories) = (servers as u64, directories as u64);
        let folders = if directories > 0 { PLACES + FOLDER * directories } else { 0 };
        let left = limit.checked_sub(OWN)?.checked_sub(servers)?.checked_sub(folders)?;
        let callers = (left / 8).clamp(PART_MIN, CALLERS_MAX);
        let strangers = (left / 8).clamp(PART_MIN, STRANGERS_MAX);
        let objects = (left / 4).checked_div(directories).map_or(0, |each| each.clamp(PART_MIN, OBJECTS_MAX));
        let links = left.checked_sub(callers + strangers + objects * directories)?.min(LINKS_MAX);
        (links >= LINKS_MIN).then_some(Budget {
            links: links as usize,
            strangers: strangers as usize,
            callers: callers as usize,
            objects: objects as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_never_more_than_the_limit_and_grow_to_their_bounds() {
        for limit in (0..3_000).chain([20_000, 65_536, 1 << 20, u64::MAX]) {
            for (servers, directories) in [(1, 0), (1, 2), (3, 1), (100, 8)] {
                let Some(budget) = Budget::of(limit, servers, directories) else {
                    assert!(limit < 64 + servers as u64 + 8 * directories as u64, "{limit} are enough");
                    continue;
                };
                let Budget { links, strangers, callers, objects } = budget;
                let sum = links + strangers + callers + objects * directories + servers;
                assert!(sum as u64 + OWN <= limit, "{limit}: {budget:?}");
                assert!(strangers >= 4 && callers >= 4 && (directories == 0 || objects >= 4), "{budget:?}");
            }
        }
        let most = Budget { links: 32_768, strangers: 256, callers: 64, objects: 512 };
        assert_eq!(Budget::of(1 << 20, 4, 8), Some(most));
    }
}
