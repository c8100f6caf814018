//! The turns of devices, and the requests that wait no longer.

use super::Server;
use crate::clock::TimeLimit;
use crate::namespace::errno;
use crate::requests::continuation::Woken;
use crate::requests::request::{Outcome, Token};
use weir_fairshare::Nanos;

/// Devices are served for this long in one turn of the loop; then connections are read again, so that a newcomer
/// stands in the queues before many more have been served.
const SERVE_TURN: Nanos = Nanos::from_micros(500);

impl Server {
    /// Serves devices until none can go on now, or their time in this turn is over; the next turn begins where this one
    /// ended.
    pub(crate) fn serve_devices(&mut self) {
        let limit = self.clock.limit(SERVE_TURN);
        let count = self.requests.devices().all().len();
        let mut idle = 0;
        self.requests.devices_mut().begin_turn();
        while idle < count && !self.requests.devices().is_unserved() {
            let device = self.requests.devices_mut().take_next();
            idle = if self.serve_device(device, limit) { 0 } else { idle + 1 };
        }
    }

    /// Serves one device; answers whether anything was done.
    fn serve_device(&mut self, device: usize, limit: TimeLimit) -> bool {
        let now = self.clock.now();
        let mut was_served = false;
        while let Some(number) = self.requests.devices_mut().finished(device, now) {
            was_served = true;
            let next = self.requests.advance(number, &self.targets, &self.clock);
            self.pursue(next);
            self.take_on_woken();
        }
        loop {
            match self.requests.devices_mut().dispatch(device, now) {
                Some(dispatch) => self.start(device, dispatch),
                None => {
                    let Server { requests, links, accounts, .. } = self;
                    let Some(next) = requests.free_slot(device, links, accounts, now) else {
                        return was_served;
                    };
                    self.pursue(next);
                }
            }
            self.take_on_woken();
            was_served = true;
            if self.clock.is_over(limit) {
                self.requests.devices_mut().leave_unserved();
                return was_served;
            }
        }
    }

    /// Takes on all requests that wait no longer; answers whether there were any.
    pub(super) fn take_on_woken(&mut self) -> bool {
        let mut was_any = false;
        while let Some(woken) = self.requests.take_woken() {
            was_any = true;
            match woken {
                Woken::Step(step) => self.end_step(step),
                Woken::Continued(continued) => {
                    let step = self.go_on(continued);
                    self.end_step(step);
                }
                Woken::Reply(token, outcome) => self.reply(token, outcome),
                Woken::Route(token) => self.unless_abandoned(token, Server::reply, Server::send_to_device),
                Woken::Enqueue(token) => self.unless_abandoned(token, Server::finish, Server::enqueue),
                Woken::OnObject(token, begun) => {
                    let step = self.go_on_with_object(token, begun);
                    self.end_step(step);
                }
                Woken::Durable(waiting) => self.carry_out_durable(waiting),
            }
        }
        was_any
    }

    /// Goes on with a request if its link is still there; else its payload went with the link.
    fn unless_abandoned(
        &mut self,
        token: Token,
        end: fn(&mut Server, Token, Outcome),
        go_on: fn(&mut Server, Token),
    ) {
        match self.requests[&token].is_abandoned() {
            true => end(self, token, Outcome::failed(errno::EIO)),
            false => go_on(self, token),
        }
    }
}
