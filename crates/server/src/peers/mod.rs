//! The other servers of the store: the lines to them, their last reports, and the questions that were put to them.

pub(crate) mod agreement;
pub(crate) mod confirmations;
pub(crate) mod fairness;
pub(crate) mod line;
pub(crate) mod objects;
pub(crate) mod threads;

use crate::clock::seconds;
use crate::control::status::PeerStatus;
use crate::error::ServerError;
use crate::namespace::{Continuation, Effect};
use crate::peers::agreement::Agreement;
use crate::requests::request::Token;
use confirmations::Confirmations;
use fairness::portions;
use line::{Ask, Lines, PeerAccess};
use objects::{News, ObjectsElsewhere};
use slab::Slab;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;
use weir_device::{Origin, Reports};
use weir_fairshare::{division_pause, Nanos, Portions, Sharing};
use weir_placement::ServerId;
use weir_wire::{
    encode_body, Capability, JobReport, LeavingReport, MachineLoad, PeerRequest, PlacedReport, QuotaReport,
    ServerAddress, ServerReport, TargetReport,
};

/// A full target is told of once in this time: writes are refused meanwhile too, and go elsewhere.
const FULL_TOLD_PAUSE: Nanos = Nanos::from_millis(10);

/// The other servers, and this server's report to them.
pub(crate) struct Peers {
    lines: Box<dyn Lines>,
    /// The peers with an open line.
    known: BTreeSet<ServerId>,
    /// The addresses of all servers that are known, this one's among them.
    addresses: HashMap<ServerId, ServerAddress>,
    /// The last report of each other server, and that of this one.
    reports: Reports<ServerReport>,
    report: ServerReport,
    agreement: Agreement,
    /// Peers whose answer to the last exchange is outstanding.
    exchanging: HashSet<ServerId>,
    asked: Slab<Asked>,
    confirmations: Confirmations,
    objects: ObjectsElsewhere,
    lambda: Nanos,
    next_exchange: Nanos,
    /// Devices are not divided anew before then.
    next_division: Nanos,
    /// The last moment at which the other servers were told at once that a target here is full.
    told_full: Nanos,
    /// Whether another server has other limits of users and groups than this one, or may have.
    tells_limits: bool,
}

/// A question to a peer, by the purpose of its answer.
pub(crate) enum Asked {
    /// The lambda exchange.
    Exchange(ServerId),
    /// An effect of a decision.
    Effect(Box<Effect>),
    /// The worth of capabilities of the peer's files.
    Confirm(ServerId, Vec<Capability>),
    /// The paid ends of objects here.
    ObjectsHeld(ServerId, Box<News>),
    /// Whether removals decided there are about to give room here, by the number of the question.
    Room(u64),
    /// The room on all targets there, and whether removals decided there are about to give more, by the number of the question.
    Vacancy(u64),
    /// A request that depends on the answer.
    Request(Token, Box<Continuation>),
}

impl Peers {
    /// No peer is known yet to server `server`, whose start of this number began at `started` in milliseconds of Unix time.
    pub(crate) fn new(
        (server, boot): (ServerId, u64),
        started: u64,
        lambda: Nanos,
        agreement: Agreement,
        lines: Box<dyn Lines>,
    ) -> Peers {
        Peers {
            lines,
            known: BTreeSet::new(),
            addresses: HashMap::new(),
            reports: Reports::every(lambda),
            report: ServerReport {
                server,
                boot,
                started,
                sequence: 0,
                load: MachineLoad::default(),
                jobs: Vec::new(),
                targets: Vec::new(),
                placed: Vec::new(),
                settings: agreement.settings().clone(),
                leaving: Vec::new(),
                quotas: QuotaReport::default(),
            },
            tells_limits: true,
            agreement,
            exchanging: HashSet::new(),
            asked: Slab::new(),
            confirmations: Confirmations::default(),
            objects: ObjectsElsewhere::default(),
            lambda,
            next_exchange: Nanos::ZERO,
            next_division: Nanos::ZERO,
            told_full: Nanos::ZERO,
        }
    }

    /// Opens the line to a peer.
    ///
    /// # Errors
    /// As [`Lines::open`].
    pub(crate) fn open(&mut self, server: ServerId, access: PeerAccess) -> Result<(), ServerError> {
        self.lines.open(server, access)?;
        self.known.insert(server);
        Ok(())
    }

    /// A server is at another address.
    pub(crate) fn redirect(&mut self, server: ServerId, address: ServerAddress) {
        self.lines.redirect(server, address.tcp.clone());
        self.addresses.insert(server, address);
    }

    /// Notes where a server listens.
    pub(crate) fn note_address(&mut self, server: ServerId, address: ServerAddress) {
        self.addresses.insert(server, address);
    }

    /// The addresses of all servers that are known, by their numbers.
    pub(crate) fn addresses(&self) -> Vec<ServerAddress> {
        let mut servers: Vec<_> = self.addresses.values().cloned().collect();
        servers.sort_by_key(|address| address.server);
        servers
    }

    /// Sends a request to a peer; the answer, or the absence of one, comes back as an event for `asked`.
    pub(crate) fn ask(
        &mut self,
        (server, request, payload): (ServerId, PeerRequest, Vec<u8>),
        patience: Duration,
        asked: Asked,
    ) {
        let question = self.asked.insert(asked) as u64;
        self.lines.ask(server, Ask { question, request, payload, patience });
    }

    /// The purpose of a question that is answered.
    pub(crate) fn take_asked(&mut self, question: u64) -> Option<Asked> {
        self.asked.try_remove(question as usize)
    }

    /// Questions whose answers are awaited.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().map(|(_, asked)| asked)
    }

    /// The capabilities of files with other homes.
    pub(crate) fn confirmations(&mut self) -> &mut Confirmations {
        &mut self.confirmations
    }

    /// The objects here of files with other homes.
    pub(crate) fn objects(&mut self) -> &mut ObjectsElsewhere {
        &mut self.objects
    }

    /// The objects here of files with other homes, to look at.
    pub(crate) fn objects_here(&self) -> &ObjectsElsewhere {
        &self.objects
    }

    /// The targets here, as they were reported last.
    pub(crate) fn own_targets(&self) -> &[TargetReport] {
        &self.report.targets
    }

    /// Whether the exchange is due, which is then due again an interval later.
    pub(crate) fn take_exchange(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.next_exchange;
        if is_due {
            self.next_exchange = now + self.lambda;
        }
        is_due
    }

    /// The interval between exchanges.
    pub(crate) fn lambda(&self) -> Nanos {
        self.lambda
    }

    /// The moment of the next exchange.
    pub(crate) fn next_exchange(&self) -> Nanos {
        self.next_exchange
    }

    /// Whether the other servers are to be told at `now` that a target here is full.
    pub(crate) fn take_full(&mut self, now: Nanos) -> bool {
        let is_due = now.saturating_since(self.told_full) >= FULL_TOLD_PAUSE;
        if is_due {
            self.told_full = now;
        }
        is_due
    }

    /// The peers that are to have this server's report now. The address of each is looked up again.
    pub(crate) fn begin_exchange(&mut self) -> Vec<ServerId> {
        let idle = self.known.iter().copied().filter(|server| !self.exchanging.contains(server));
        let idle: Vec<ServerId> = idle.collect();
        for &server in &idle {
            self.exchanging.insert(server);
            if let Some(address) = self.lines.announced(server) {
                self.addresses.insert(server, address);
            }
        }
        idle
    }

    /// A peer has answered this server's report, or has not in time.
    pub(crate) fn end_exchange(&mut self, server: ServerId) {
        self.exchanging.remove(&server);
    }

    /// Takes the report of another server.
    pub(crate) fn take_report(&mut self, report: ServerReport, now: Nanos) {
        self.reports.take(origin(&report), report, now);
    }

    /// The reports of the other servers that were heard of lately.
    pub(crate) fn fresh(&self, now: Nanos) -> impl Iterator<Item = &ServerReport> {
        self.reports.fresh(now)
    }

    /// The last reports of the other servers that are silent, and may only be held up.
    pub(crate) fn late(&self, now: Nanos) -> impl Iterator<Item = &ServerReport> {
        self.reports.late(now)
    }

    /// The reports of all servers that were heard of lately, this one's the last.
    pub(crate) fn all_reports(&self, now: Nanos) -> Vec<&ServerReport> {
        self.reports.fresh(now).chain(std::iter::once(&self.report)).collect()
    }

    /// Whether a server that is up may not have been heard of yet.
    pub(crate) fn is_within_age(&self, now: Nanos) -> bool {
        self.reports.is_within_age(now)
    }

    /// This server's report as it is sent.
    pub(crate) fn encoded_report(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        encode_body(&self.report, &mut payload);
        payload
    }

    /// Sets the part of this server's report about its jobs and the machine.
    pub(crate) fn report_jobs(&mut self, jobs: Vec<JobReport>, load: MachineLoad) {
        (self.report.jobs, self.report.load) = (jobs, load);
    }

    /// Sets the part of this server's report about its targets and its placements.
    pub(crate) fn report_targets(&mut self, targets: Vec<TargetReport>, placed: Vec<PlacedReport>) {
        (self.report.targets, self.report.placed) = (targets, placed);
    }

    /// Sets the part of this server's report about its objects on targets that retire.
    pub(crate) fn report_leaving(&mut self, leaving: Vec<LeavingReport>) {
        self.report.leaving = leaving;
    }

    /// This server's objects on targets that retire, as it reports them.
    pub(crate) fn leaving(&self) -> &[LeavingReport] {
        &self.report.leaving
    }

    /// Sets the part of this server's report about the use of its inodes. The limits go along while a server that was heard of
    /// lately has others.
    pub(crate) fn report_quotas(&mut self, quotas: QuotaReport, now: Nanos) {
        let limits_digest = self.agreement.settings().quotas.digest();
        let has_others = self.fresh(now).any(|other| other.quotas.limits_digest != limits_digest);
        self.tells_limits = has_others;
        self.report.quotas = QuotaReport { limits_digest, ..quotas };
    }

    /// The settings that all servers share.
    pub(crate) fn agreement(&mut self) -> &mut Agreement {
        &mut self.agreement
    }

    /// The report is newer than the one before.
    pub(crate) fn renew_report(&mut self) {
        self.report.sequence += 1;
        let agreed = self.agreement.settings();
        self.report.settings = if self.tells_limits { agreed.clone() } else { agreed.without_quotas() };
    }

    /// The division of this server's devices by the last reports of all servers; none where the last one is too new.
    pub(crate) fn division(
        &self,
        sharing: &Sharing,
        own: ServerId,
        now: Nanos,
    ) -> Option<HashMap<u8, Portions>> {
        (now >= self.next_division).then(|| portions(sharing, own, &self.all_reports(now)))
    }

    /// A division took from `began` to `ended`.
    pub(crate) fn note_division(&mut self, began: Nanos, ended: Nanos) {
        self.next_division = began + division_pause(ended.saturating_since(began));
    }

    /// Servers that may be up, late ones among them: a dead one frees nothing, and nobody waits for it.
    pub(crate) fn maybe_up(&self, now: Nanos) -> Vec<ServerId> {
        if self.reports.is_within_age(now) {
            return self.known.iter().copied().collect();
        }
        let heard = self.reports.fresh(now).chain(self.reports.late(now)).map(|report| report.server);
        heard.filter(|server| self.known.contains(server)).collect()
    }

    /// The peers in `/v1/status`.
    pub(crate) fn status(&self, now: Nanos) -> Vec<PeerStatus> {
        let age = |server: &ServerId| {
            let heard = self.reports.heard_at(server.0);
            heard.map(|heard| seconds(now.saturating_since(heard)))
        };
        let status = |server: &ServerId| PeerStatus { server: server.0, age_seconds: age(server) };
        self.known.iter().map(status).collect()
    }

    /// Reports that came late or twice.
    pub(crate) fn reports_ignored(&self) -> u64 {
        self.reports.ignored()
    }
}

/// The place of a report among all.
fn origin(report: &ServerReport) -> Origin {
    let &ServerReport { server, boot, started, sequence, .. } = report;
    Origin { server: server.0, boot, started, sequence }
}
