//! The requests under way, in places that are used again.

use super::network::{Ends, Span};
use super::station::Asked;
use weir_device::Work;
use weir_fairshare::{Direction, Nanos};

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) stream: u32,
    pub(super) job: u32,
    pub(super) ends: Ends,
    /// The device on its server: a target, or the metadata service behind the last.
    pub(super) device: u16,
    pub(super) stage: Stage,
    /// The next hop of its payload, counted from the sender.
    pub(super) hop: u8,
    /// Whether it is a metadata operation, which has no payload.
    pub(super) is_operation: bool,
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) span: Span,
    pub(super) arrived: Nanos,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// On its way to the server, or back.
    Travelling,
    /// In the queue of its device, or in service there.
    Device,
    /// Its server is gone.
    Stuck,
    /// The place is free.
    Free,
}

/// The table.
#[derive(Default)]
pub(super) struct Requests {
    places: Vec<Request>,
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = request;
                place
            }
            None => {
                self.places.push(request);
                self.places.len() as u32 - 1
            }
        }
    }

    pub(super) fn remove(&mut self, place: u32) -> Request {
        let request = self[place];
        self[place].stage = Stage::Free;
        self.free.push(place);
        request
    }

    /// A request as its device sees it.
    #[inline]
    pub(super) fn asked(&self, place: u32) -> Asked {
        let Request { direction, bytes, arrived, stream, .. } = self[place];
        Asked { work: Work { direction, bytes }, arrived, stream }
    }

    /// The requests that a server has at its devices, which are stuck from now on.
    pub(super) fn stick(&mut self, server: u16) -> Vec<u32> {
        let is_there = |request: &Request| request.stage == Stage::Device && request.ends.server == server;
        let there = (0..).zip(&mut self.places).filter(|(_, request)| is_there(request));
        let stuck = there.map(|(place, request)| {
            request.stage = Stage::Stuck;
            place
        });
        stuck.collect()
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;

    #[inline]
    fn index(&self, place: u32) -> &Request {
        &self.places[place as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Request {
        &mut self.places[place as usize]
    }
}
