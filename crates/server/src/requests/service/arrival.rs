//! Payloads that stay in the socket: awaited before their request is queued, received in its turn, given up at last.

use super::{Pending, Sink, Stage};
use crate::server::Server;
use crate::storage::Target;
use weir_fairshare::Nanos;
use weir_wire::{limits, Reply};

/// Payload that is in the socket before its request is queued: every socket buffer of a usual size holds as much, and it
/// is enough to be worth a turn at the device.
const ARRIVED_BYTES: usize = limits::INLINE_PAYLOAD_BYTES;
/// A sender that is slower is queued with what it has sent after this time.
const ARRIVAL_WAIT: Nanos = Nanos::from_millis(5);
/// A sender that is stalled for this long is given up: its connection is closed.
const STALL_MAX: Nanos = Nanos::from_millis(60_000);

impl Server {
    /// Waits for payload: a request is queued when its bytes are there, so that no slot is ever given to a sender that
    /// has sent nothing.
    pub(super) fn await_payload(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        (pending.stage, pending.bytes_here) = (Stage::Awaiting, 0);
        self.receiving.insert(token);
        self.look_for_payload(token);
    }

    /// Queues a request whose payload is awaited, if enough of it has arrived.
    pub(crate) fn look_for_payload(&mut self, token: usize) {
        let now = self.now();
        let Some(pending) = self.pending.get_mut(token) else { return };
        let index = pending.link.index;
        let Some(link) = self.links.get_mut(index) else { return };
        let bytes_here = link.connection.arrived();
        if bytes_here > pending.bytes_here {
            if pending.bytes_here == 0 {
                pending.here_since = now;
                self.slow_senders.push_back((now + ARRIVAL_WAIT, token));
            }
            (pending.bytes_here, pending.progress) = (bytes_here, now);
        }
        let is_slow = bytes_here > 0 && now >= pending.here_since + ARRIVAL_WAIT;
        if bytes_here >= ARRIVED_BYTES.min(pending.detached_bytes) || is_slow {
            // Time before that is its sender's own.
            pending.arrived = now;
            self.receiving.remove(&token);
            self.enqueue(token);
        } else if link.connection.has_ended() {
            self.close_link(index);
        }
    }

    /// Bytes came on a link whose payload is awaited or received.
    pub(crate) fn payload_arrived(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        match pending.stage {
            Stage::Awaiting => self.look_for_payload(token),
            Stage::Receiving if pending.dispatch.is_some() => self.receive(token),
            // What has no slot takes its turn among the links.
            Stage::Receiving => self.make_ready(pending.link.index),
            _ => {}
        }
    }

    /// Queues requests of slow senders with what has arrived.
    pub(crate) fn queue_slow_senders(&mut self) {
        let now = self.now();
        while let Some(&(due, token)) = self.slow_senders.front() {
            if due > now {
                return;
            }
            self.slow_senders.pop_front();
            // The number may be another request's by now, which looks once more than it need.
            let is_awaited =
                self.pending.get(token).is_some_and(|pending| matches!(pending.stage, Stage::Awaiting));
            if is_awaited {
                self.look_for_payload(token);
            }
        }
    }

    /// Receives what has arrived of a detached payload.
    pub(crate) fn receive(&mut self, token: usize) {
        let before = self.clock_now();
        self.discard_if_stale(token);
        let outcome = self.receive_available(token);
        let after = self.clock_now();
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.service = pending.service + after.saturating_since(before);
        match outcome {
            Ok((received, complete)) => {
                if received > 0 {
                    pending.progress = after;
                }
                if let (Some((device, _)), Some(_)) = (pending.device, pending.dispatch) {
                    self.devices[device].note_pause(token as u64, !complete);
                }
                if complete {
                    let link = pending.link.index;
                    pending.stage = Stage::Ready;
                    self.receiving.remove(&token);
                    if let Some(link) = self.links.get_mut(link) {
                        link.receiving = None;
                    }
                    self.make_ready(link);
                    self.advance(token);
                }
            }
            Err(_) => {
                let link = pending.link.index;
                self.close_link(link);
            }
        }
    }

    /// Receives what needs no slot: what is thrown away, or comes from another server.
    pub(crate) fn receive_unqueued(&mut self, token: usize) {
        let is_unqueued =
            |pending: &&Pending| matches!(pending.stage, Stage::Receiving) && pending.dispatch.is_none();
        if self.pending.get(token).filter(is_unqueued).is_some() {
            self.receive(token);
        }
    }

    /// The rest of a payload is thrown away once its object was cut.
    fn discard_if_stale(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let target = pending.device.and_then(|(device, _)| self.targets.get_mut(device));
        let memory = target.and_then(Target::memory);
        let (Sink::Arena { plan, .. }, Some(ram)) = (&pending.sink, memory) else { return };
        let Err(stale) = ram.check_write(plan) else { return };
        let failure = Reply::StaleEpoch { epoch: stale.0 };
        let discard = Sink::Discard { failure, left: pending.detached_bytes };
        if let Sink::Arena { plan, .. } = std::mem::replace(&mut pending.sink, discard) {
            ram.abandon_write(plan);
        }
    }

    /// Bytes received now, and whether the payload is complete.
    fn receive_available(&mut self, token: usize) -> std::io::Result<(usize, bool)> {
        let Some(pending) = self.pending.get_mut(token) else { return Ok((0, false)) };
        let Some(link) = self.links.get_mut(pending.link.index) else { return Ok((0, false)) };
        let mut received = 0;
        let mut scratch = [0; 16 * 1024];
        while pending.detached_bytes > 0 {
            let count = match &mut pending.sink {
                Sink::None => return Ok((received, false)),
                Sink::Arena { plan, region, within } => {
                    let target = pending.device.and_then(|(device, _)| self.targets.get_mut(device));
                    let Some(ram) = target.and_then(Target::memory) else {
                        return Ok((received, false));
                    };
                    let whole = plan.regions[*region];
                    let count = link.connection.receive(&mut ram.bytes_mut(whole)[*within..])?;
                    *within += count;
                    if *within == whole.length {
                        (*region, *within) = (*region + 1, 0);
                    }
                    count
                }
                Sink::Buffer { bytes, filled } => {
                    let count = link.connection.receive(&mut bytes[*filled..])?;
                    *filled += count;
                    count
                }
                Sink::Discard { left, .. } => {
                    let wanted = (*left).min(scratch.len());
                    let count = link.connection.receive(&mut scratch[..wanted])?;
                    *left -= count;
                    count
                }
            };
            if count == 0 {
                return Ok((received, false));
            }
            received += count;
            pending.detached_bytes -= count;
        }
        Ok((received, true))
    }

    /// Gives up senders that stay away in the midst of a payload.
    pub(crate) fn expire_senders(&mut self, now: Nanos) {
        let is_silent = |pending: &Pending| now.saturating_since(pending.progress) > STALL_MAX;
        let silent = self.receiving.iter().filter_map(|&token| self.pending.get(token));
        let links: Vec<usize> =
            silent.filter(|pending| is_silent(pending)).map(|pending| pending.link.index).collect();
        for link in links {
            self.close_link(link);
        }
    }

    /// Frees the pages that were to take the rest of a payload.
    pub(super) fn drop_sink(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let is_arriving = matches!(pending.stage, Stage::Queued | Stage::Awaiting | Stage::Receiving);
        if !is_arriving || !matches!(pending.sink, Sink::Arena { .. }) {
            return;
        }
        let target = pending.device.and_then(|(device, _)| self.targets.get_mut(device));
        let sink = std::mem::replace(&mut pending.sink, Sink::None);
        if let (Sink::Arena { plan, .. }, Some(ram)) = (sink, target.and_then(Target::memory)) {
            ram.abandon_write(plan);
        }
    }
}
