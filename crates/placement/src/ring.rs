//! Consistent hashing of names onto servers (Karger et al., STOC 1997).

use crate::splitmix::scatter;
use crate::ServerId;

/// Points of each server on the ring: enough that shares differ by about a tenth.
const POINTS_PER_SERVER: u64 = 128;

/// A hash ring over the servers of a cluster.
#[derive(Clone, Debug)]
pub struct Ring {
    points: Vec<(u64, ServerId)>,
}

impl Ring {
    /// A ring of `servers`; the order of the argument does not matter.
    pub fn new(servers: impl IntoIterator<Item = ServerId>) -> Ring {
        let mut points: Vec<(u64, ServerId)> = servers
            .into_iter()
            .flat_map(|server| {
                (0..POINTS_PER_SERVER)
                    .map(move |point| (scatter((u64::from(server.0) << 32) | point), server))
            })
            .collect();
        points.sort_unstable();
        Ring { points }
    }

    /// The server that `name` inside directory `directory` hashes to; `None` on an empty ring.
    pub fn server(&self, directory: u64, name: &[u8]) -> Option<ServerId> {
        let mut key = scatter(directory);
        for &byte in name {
            key = scatter(key ^ u64::from(byte));
        }
        let position = self.points.partition_point(|&(point, _)| point < key);
        self.points.get(position).or_else(|| self.points.first()).map(|&(_, server)| server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_spread_evenly_and_few_move_when_a_server_joins() {
        let names: Vec<String> = (0..20_000).map(|number| format!("run-{number:05}")).collect();
        let three = Ring::new((0..3).map(ServerId));
        let four = Ring::new((0..4).map(ServerId));
        let mut counts = [0usize; 4];
        let mut moved = 0;
        for name in &names {
            let before = three.server(7, name.as_bytes()).unwrap();
            let after = four.server(7, name.as_bytes()).unwrap();
            counts[usize::from(after.0)] += 1;
            if before != after {
                assert_eq!(after, ServerId(3), "a name may move only to the server that joined");
                moved += 1;
            }
        }
        assert!(counts.iter().all(|&count| (3_500..6_800).contains(&count)), "{counts:?}");
        assert_eq!(moved, counts[3]);
    }

    #[test]
    fn an_empty_ring_has_no_server() {
        assert_eq!(Ring::new([]).server(1, b"name"), None);
    }
}
