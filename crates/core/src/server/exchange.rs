//! The lambda exchange: every interval each server tells its peers its job table and its loads.

use super::Server;
use crate::peers::line::Answer;
use crate::requests::arrival::Sink;
use crate::requests::request::{Outcome, Step, Token};
use std::collections::HashMap;
use weir_exchange::measure;
use weir_fairshare::{device_number, METADATA_DEVICE};
use weir_placement::ServerId;
use weir_wire::{decode_body, DeviceUse, JobId, PeerReply, QuotaReport, Reply, ServerReport};

impl Server {
    /// Closes an interval, where it is over: accounts, reports, and the division of the devices.
    pub(super) fn exchange_if_due(&mut self) {
        let now = self.clock.now();
        if !self.exchange.take_due(now) {
            return;
        }
        let lambda = self.exchange.lambda();
        let reports = self.exchange.fresh(now).chain(self.exchange.late(now));
        self.accounts.jobs().note_elsewhere(reports.flat_map(|report| &report.jobs), now);
        self.accounts.begin_interval(self.requests.devices_mut().all_mut(), lambda, &self.clock);
        self.update_report();
        self.refresh_placement();
        self.weigh_homes();
        self.divide_devices();
        self.tell_peers(now + lambda);
        self.tell_homes();
        self.requests.devices_mut().end_interval();
    }

    /// The answer to a report of this server.
    pub(super) fn exchanged(&mut self, server: ServerId, answer: Answer) {
        self.exchange.answered(server);
        if let Ok((PeerReply::Report, payload)) = answer {
            self.take_report(&payload);
        }
    }

    /// Another server reports; it is answered with this one's report.
    pub(super) fn serve_exchange(&mut self, token: Token) -> Step {
        let request = &mut self.requests[&token];
        let payload = match request.arrival.take() {
            Sink::Buffer { bytes, .. } => bytes,
            _ => std::mem::take(&mut request.payload),
        };
        self.take_report(&payload);
        let reply = Outcome::of(Reply::Peer(PeerReply::Report));
        Step::Done(token, Outcome { payload: self.encoded_report(), ..reply })
    }

    pub(super) fn take_report(&mut self, payload: &[u8]) {
        let Ok(report) = decode_body::<ServerReport>(payload, "report") else { return };
        if report.server != self.site.id {
            self.follow_settings(&report.settings);
            self.namespace.files_mut().quotas_mut().note(report.server, report.boot, &report.quotas);
            if self.peers.objects().note_start(report.server, report.boot) {
                self.look_for_left_bytes();
            }
            self.exchange.hear(report, self.clock.now());
            self.divide_devices();
        }
    }

    /// Tells the names how much the metadata service of each server is wanted, for the homes of new trees.
    fn weigh_homes(&mut self) {
        let wanted = self.exchange.believed(self.clock.now()).map(|report| {
            let uses = report.jobs.iter().flat_map(|job| &job.uses);
            let metadata = uses.filter(|each| each.device == METADATA_DEVICE);
            (report.server, metadata.map(|each| f64::from(each.wanted.unwrap_or(1.0))).sum())
        });
        self.namespace.names_mut().weigh_homes(wanted);
    }

    /// Divides this server's devices by the last reports of all servers.
    fn divide_devices(&mut self) {
        let now = self.clock.now();
        if !self.exchange.may_divide(now) {
            return;
        }
        let mut divided = self.exchange.uses(now).portions(self.requests.devices().sharing(), self.site.id.0);
        let metadata = self.requests.devices().metadata();
        for index in 0..=metadata {
            let portions = divided.remove(&device_number(index, metadata)).unwrap_or_default();
            self.requests.devices_mut().set_portions(index, &portions, now);
        }
        self.exchange.divided(now, self.clock.within_step().saturating_since(now));
    }

    /// Looks again at everything that this server's report tells.
    fn update_report(&mut self) {
        let now = self.clock.now();
        let mut uses: HashMap<JobId, Vec<DeviceUse>> = HashMap::new();
        for (job, usage) in measure(self.requests.devices_mut().all_mut().iter_mut(), now) {
            uses.entry(job).or_default().push(usage);
        }
        self.accounts.look_at_machine(&mut *self.host, now);
        self.report_targets();
        self.note_capacity();
        self.report_leaving();
        let limits_digest = self.membership.settings().quotas.digest();
        let own = self.exchange.own_mut();
        (own.jobs, own.load) = (self.accounts.jobs().reports(uses), self.accounts.machine_load());
        own.quotas = QuotaReport { limits_digest, ..self.namespace.files_mut().take_quota_news() };
        self.renew_report();
    }
}
