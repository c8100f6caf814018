//! The links to the servers of a store: those at the beginning of a session, and those that joined the store since.
//!
//! Links are only added, so no call takes a lock to find one.

use crate::pool::Link;
use std::sync::OnceLock;
use weir_placement::ServerId;
use weir_wire::ServerAddress;

/// A chain of links. Each reading of cluster.json that names servers which joined adds one part.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    next: OnceLock<Box<Links>>,
}

impl Links {
    pub(crate) fn new(servers: Vec<ServerAddress>, is_mount: bool) -> Links {
        let links = servers.into_iter().map(|address| Link::new(address, is_mount)).collect();
        Links { links, next: OnceLock::new() }
    }

    /// All links.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        let parts = std::iter::successors(Some(self), |part| part.next.get().map(|next| &**next));
        parts.flat_map(|part| &part.links)
    }

    /// The link to a server.
    pub(crate) fn find(&self, server: ServerId) -> Option<&Link> {
        let usual = self.links.get(usize::from(server.0)).filter(|link| link.server() == server);
        usual.or_else(|| self.iter().find(|link| link.server() == server))
    }

    /// Adds the servers that are not known yet, and notes where the others are now.
    pub(crate) fn extend(&self, servers: Vec<ServerAddress>, is_mount: bool) {
        let mut last = self;
        let mut servers = servers;
        for address in &servers {
            if let Some(link) = self.find(address.server) {
                link.note_filed(address);
            }
        }
        loop {
            // The end comes first: a part that another thread adds after the look below makes this thread's addition fail.
            while let Some(next) = last.next.get() {
                last = next;
            }
            servers.retain(|address| self.find(address.server).is_none());
            // The links are made outside of the cell. Where another thread was faster, its links count.
            if servers.is_empty() || last.next.set(Box::new(Links::new(servers.clone(), is_mount))).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(server: u16) -> ServerAddress {
        let text = format!("127.0.0.1:{}", 1000 + server);
        ServerAddress { server: ServerId(server), tcp: text.clone(), unix: None, owner: 0, control: text }
    }

    #[test]
    fn servers_join_and_stay_where_they_are() {
        let links = Links::new((0..3).map(address).collect(), false);
        let first: *const Link = links.find(ServerId(1)).unwrap();
        assert!(links.find(ServerId(3)).is_none());
        links.extend((0..5).map(address).collect(), false);
        links.extend((2..6).map(address).collect(), false);
        let known: Vec<u16> = links.iter().map(|link| link.server().0).collect();
        assert_eq!(known, [0, 1, 2, 3, 4, 5]);
        assert!(std::ptr::eq(links.find(ServerId(1)).unwrap(), first));
        assert_eq!(*links.find(ServerId(5)).unwrap().address(), address(5));
    }

    #[test]
    fn a_server_is_where_it_was_seen_last_and_its_link_stays() {
        let links = Links::new((0..2).map(address).collect(), false);
        let link: *const Link = links.find(ServerId(1)).unwrap();
        for port in [7, 7, 8, 1001] {
            let elsewhere = ServerAddress { tcp: format!("127.0.0.2:{port}"), ..address(1) };
            links.extend(vec![address(0), elsewhere.clone()], false);
            assert_eq!(*links.find(ServerId(1)).unwrap().address(), elsewhere);
        }
        assert!(std::ptr::eq(links.find(ServerId(1)).unwrap(), link));
        assert_eq!(*links.find(ServerId(0)).unwrap().address(), address(0));
    }

    #[test]
    fn a_told_address_is_tried_in_turn_with_the_filed_one_until_the_file_changes() {
        let links = Links::new((0..2).map(address).collect(), false);
        let link = links.find(ServerId(1)).unwrap();
        let at = |port: u16| ServerAddress { tcp: format!("127.0.0.2:{port}"), ..address(1) };
        let of_other_host = |port| ServerAddress { unix: Some("/elsewhere".into()), owner: 7, ..at(port) };
        link.note_told(&address(1));
        link.turn_to_other_address();
        assert_eq!(*link.address(), address(1), "nothing new was told");
        link.note_told(&of_other_host(7));
        assert_eq!(*link.address(), at(7), "a path of another host leads nowhere here");
        // The file is read again, and has not changed.
        links.extend(vec![address(0), address(1)], false);
        link.note_told(&of_other_host(7));
        assert_eq!(*link.address(), at(7));
        for expected in [address(1), at(7), address(1)] {
            link.turn_to_other_address();
            assert_eq!(*link.address(), expected);
        }
        link.note_told(&at(8));
        assert_eq!(*link.address(), at(8));
        links.extend(vec![at(9)], false);
        assert_eq!(*link.address(), at(9), "the file is news");
        for port in 1_000..2_000 {
            link.note_told(&at(port));
        }
        let last: u16 = link.address().tcp.rsplit_once(':').unwrap().1.parse().unwrap();
        assert!(last < 1_100, "servers that contradict each other fill no memory: {last}");
    }

    #[test]
    fn threads_that_read_at_once_add_each_server_once() {
        let links = Links::new(vec![address(0)], false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for count in 1..50 {
                        links.extend((0..count).map(address).collect(), false);
                        assert!(links.find(ServerId(count - 1)).is_some());
                    }
                });
            }
        });
        let mut known: Vec<u16> = links.iter().map(|link| link.server().0).collect();
        known.sort_unstable();
        assert_eq!(known, (0..49).collect::<Vec<u16>>());
    }
}
