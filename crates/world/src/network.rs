//! The network of a world: connections whose bytes arrive late, in any pieces, and not at all once a connection is cut.

use super::agenda::{Agenda, Happening, Side};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use weir_core::links::socket::{Socket, RECEIVE_BYTES};
use weir_fairshare::Nanos;
use weir_wire::ClientId;

/// Bytes that one direction takes before its sender has to wait.
const WINDOW_BYTES: usize = 256 << 10;

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// Pieces under way; an empty one is the end.
    under_way: VecDeque<Vec<u8>>,
    arrived: VecDeque<u8>,
    has_ended: bool,
    is_closed: bool,
    last: Nanos,
    /// Nothing arrives before then.
    held_until: Nanos,
}

struct Connection {
    server: usize,
    client: ClientId,
    /// The client's session.
    session: usize,
    /// The start of the server to which the connection goes.
    life: u64,
    /// The place of the server's link, once it is enlisted.
    link: Option<usize>,
    awaits_room: bool,
    is_cut: bool,
    to_server: Flow,
    to_client: Flow,
}

/// All connections of a world; clones share them.
#[derive(Clone)]
pub(super) struct Network {
    connections: Rc<RefCell<Vec<Connection>>>,
    /// The starts of servers.
    lives: Rc<RefCell<BTreeMap<usize, u64>>>,
    /// Clients that do not reach a server before a moment.
    alone_until: Rc<RefCell<BTreeMap<(ClientId, usize), Nanos>>>,
    agenda: Agenda,
}

/// The server's end of a connection.
pub(super) struct ServerEnd {
    network: Network,
    number: usize,
}

impl Flow {
    fn waiting(&self) -> usize {
        self.arrived.len() + self.under_way.iter().map(Vec::len).sum::<usize>()
    }

    fn take(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        if self.arrived.is_empty() && !self.has_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = self.arrived.len().min(bytes_max);
        Ok(self.arrived.drain(..count).collect())
    }
}

impl Connection {
    /// The direction towards a side.
    fn towards(&mut self, side: Side) -> &mut Flow {
        match side {
            Side::Client => &mut self.to_client,
            Side::Server => &mut self.to_server,
        }
    }
}

impl Network {
    pub(super) fn new(agenda: Agenda) -> Network {
        Network { connections: Rc::default(), lives: Rc::default(), alone_until: Rc::default(), agenda }
    }

    /// Begins a connection to a server, which takes it after a while if it lives.
    pub(super) fn connect(&self, server: usize, client: ClientId, session: usize) -> usize {
        let mut connections = self.connections.borrow_mut();
        connections.push(Connection {
            server,
            client,
            session,
            life: self.lives.borrow().get(&server).copied().unwrap_or(0),
            link: None,
            awaits_room: false,
            is_cut: false,
            to_server: Flow::default(),
            to_client: Flow::default(),
        });
        let number = connections.len() - 1;
        let alone_until = self.alone_until.borrow().get(&(client, server)).copied();
        let at = self.agenda.later(server).max(alone_until.unwrap_or(Nanos::ZERO));
        connections[number].to_server.last = at;
        self.agenda.add(at, Happening::Accept { server, connection: number });
        number
    }

    /// A server starts: connections to its earlier starts lead nowhere.
    pub(super) fn starts(&self, server: usize, life: u64) {
        self.lives.borrow_mut().insert(server, life);
    }

    /// The server takes a connection; none where the client has given it up, or began it when an earlier start was there.
    pub(super) fn accept(&self, number: usize, life: u64) -> Option<ServerEnd> {
        let connection = &mut self.connections.borrow_mut()[number];
        let is_taken = !connection.is_cut && connection.life == life;
        is_taken.then(|| ServerEnd { network: self.clone(), number })
    }

    /// Sends bytes towards a side in any pieces.
    fn send(&self, number: usize, towards: Side, mut bytes: &[u8]) {
        let connection = &mut self.connections.borrow_mut()[number];
        let server = connection.server;
        if connection.is_cut {
            return;
        }
        let flow = connection.towards(towards);
        if towards == Side::Client && flow.has_ended {
            return;
        }
        while !bytes.is_empty() {
            let count = self.agenda.piece(bytes.len());
            self.put(number, (server, towards), flow, bytes[..count].to_vec());
            bytes = &bytes[count..];
        }
    }

    fn put(&self, number: usize, (server, towards): (usize, Side), flow: &mut Flow, piece: Vec<u8>) {
        flow.last = flow.last.max(self.agenda.later(server));
        flow.under_way.push_back(piece);
        self.agenda.add(flow.last, Happening::Arrive { connection: number, towards });
    }

    /// A client sends bytes.
    pub(super) fn send_by_client(&self, number: usize, bytes: &[u8]) {
        self.send(number, Side::Server, bytes);
    }

    /// The start of the server to which a connection goes.
    pub(super) fn life(&self, number: usize) -> u64 {
        self.connections.borrow()[number].life
    }

    /// The client's session of a connection.
    pub(super) fn session(&self, number: usize) -> usize {
        self.connections.borrow()[number].session
    }

    /// A piece arrives.
    pub(super) fn arrive(&self, number: usize, towards: Side) {
        let connection = &mut self.connections.borrow_mut()[number];
        if connection.is_cut {
            return;
        }
        let flow = connection.towards(towards);
        if self.agenda.now() < flow.held_until {
            let late = Happening::Arrive { connection: number, towards };
            return self.agenda.add(flow.held_until, late);
        }
        let Some(piece) = flow.under_way.pop_front() else { return };
        flow.has_ended |= piece.is_empty();
        flow.arrived.extend(piece);
        if towards == Side::Server {
            self.tell_server(connection, true);
        }
    }

    /// Everything that has arrived for a client, and whether the connection has ended.
    pub(super) fn receive_by_client(&self, number: usize) -> (Vec<u8>, bool) {
        let connection = &mut self.connections.borrow_mut()[number];
        let bytes: Vec<u8> = connection.to_client.arrived.drain(..).collect();
        if std::mem::take(&mut connection.awaits_room) {
            self.tell_server(connection, false);
        }
        (bytes, connection.to_client.has_ended || connection.is_cut)
    }

    /// An end is closed: bytes that it sent before still arrive.
    pub(super) fn close(&self, number: usize, by: Side) {
        let connection = &mut self.connections.borrow_mut()[number];
        let towards = if by == Side::Client { Side::Server } else { Side::Client };
        let server = connection.server;
        if connection.is_cut || std::mem::replace(&mut connection.towards(towards).is_closed, true) {
            return;
        }
        let flow = connection.towards(towards);
        if !flow.has_ended {
            self.put(number, (server, towards), flow, Vec::new());
        }
    }

    /// A connection breaks: neither end gets what is under way.
    pub(super) fn cut(&self, number: usize) {
        let connection = &mut self.connections.borrow_mut()[number];
        if std::mem::replace(&mut connection.is_cut, true) {
            return;
        }
        for flow in [&mut connection.to_client, &mut connection.to_server] {
            flow.under_way.clear();
            flow.has_ended = true;
        }
        self.tell_server(connection, true);
        self.agenda.add(self.agenda.now(), Happening::Look { session: connection.session });
    }

    /// The server learns of a link, once it has enlisted the link.
    fn tell_server(&self, connection: &Connection, is_readable: bool) {
        let Connection { server, life, link, .. } = *connection;
        let has_ended = connection.to_server.has_ended;
        if let Some(link) = link {
            let ready = Happening::Ready { server, life, link, is_readable, has_ended };
            self.agenda.add(self.agenda.now(), ready);
        }
    }

    /// A connection breaks for its client alone: what is under way to the server still arrives, and late.
    pub(super) fn half_cut(&self, number: usize, until: Nanos) {
        let connection = &mut self.connections.borrow_mut()[number];
        connection.to_server.held_until = until;
        connection.to_client.under_way.clear();
        connection.to_client.has_ended = true;
        self.agenda.add(self.agenda.now(), Happening::Look { session: connection.session });
    }

    /// A client is gone: what it has sent on some of its connections still arrives, and late.
    pub(super) fn leave_late(&self, client: ClientId, until: Nanos) {
        for number in self.open() {
            let is_its = self.connections.borrow()[number].client == client;
            if is_its && self.agenda.by_chance(50) {
                self.half_cut(number, self.agenda.within(until.saturating_since(self.agenda.now())));
            }
        }
    }

    /// A client does not reach a server before a moment. What it has sent may still arrive, and late, in this part of its connections in
    /// hundredths: the server takes the client for connected as long.
    pub(super) fn isolate(&self, (client, server): (ClientId, usize), late: u64, until: Nanos) {
        self.alone_until.borrow_mut().insert((client, server), until);
        for number in self.open() {
            let is_its = {
                let connection = &self.connections.borrow()[number];
                (connection.client, connection.server) == (client, server)
            };
            match is_its.then(|| self.agenda.by_chance(late)) {
                Some(true) => {
                    self.half_cut(number, self.agenda.within(until.saturating_since(self.agenda.now())))
                }
                Some(false) => self.cut(number),
                None => {}
            }
        }
    }

    /// The connections that hold.
    pub(super) fn open(&self) -> Vec<usize> {
        let connections = self.connections.borrow();
        let holds = |connection: &Connection| {
            !connection.is_cut && !connection.to_client.is_closed && !connection.to_server.is_closed
        };
        (0..connections.len()).filter(|&number| holds(&connections[number])).collect()
    }
}

impl Socket for ServerEnd {
    fn is_local(&self) -> bool {
        true
    }

    fn enlist(&mut self, link: usize) -> io::Result<()> {
        let connection = &mut self.network.connections.borrow_mut()[self.number];
        connection.link = Some(link);
        self.network.tell_server(connection, true);
        Ok(())
    }

    fn watch_room(&mut self, is_awaited: bool) -> io::Result<()> {
        self.network.connections.borrow_mut()[self.number].awaits_room = is_awaited;
        Ok(())
    }

    fn waiting_bytes(&self) -> usize {
        self.network.connections.borrow()[self.number].to_server.arrived.len()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.network.connections.borrow_mut()[self.number].to_server.take(buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn append_to(&mut self, input: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        let wanted = bytes_max.min(RECEIVE_BYTES);
        let bytes = self.network.connections.borrow_mut()[self.number].to_server.take(wanted)?;
        input.extend_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let room = {
            let connection = &self.network.connections.borrow()[self.number];
            if connection.is_cut {
                return Err(ErrorKind::BrokenPipe.into());
            }
            WINDOW_BYTES.saturating_sub(connection.to_client.waiting())
        };
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let count = self.network.agenda.piece(bytes.len()).min(room);
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.network.send(self.number, Side::Client, &bytes[..count]);
        Ok(count)
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.network.close(self.number, Side::Server);
    }
}
