//! Looks at the servers while they work: whatever they count and keep stays within its limits.

use super::agenda::Happening;
use super::extras::Extra;
use super::histories::uses::{Uses, LIMITED_OWNER, LIMITS};
use super::machine::{Input, Machine};
use super::rest;
use super::task::Outcome;
use super::{World, CHECK};
use std::sync::mpsc::sync_channel;
use weir_core::control::question::Question;
use weir_core::events::Event;
use weir_fairshare::Nanos;
use weir_wire::QuotaUse;

/// The pause between two looks at what the servers count.
pub(super) const PAUSE: Nanos = Nanos::from_millis(50);

impl World {
    /// Looks at the servers that live.
    pub(super) fn audit(&mut self) -> Outcome<()> {
        let now = self.agenda.now();
        if now < CHECK {
            self.agenda.add(now + PAUSE, Happening::Audit);
        }
        check_limits(&self.machines)?;
        match self.extra {
            Extra::Quotas => check_quotas(&mut self.machines, &mut self.histories.borrow_mut().uses, false),
            _ => Ok(()),
        }
    }

    /// Checks the store at rest.
    pub(super) fn check(&mut self) -> Outcome<()> {
        self.check_members()?;
        rest::check(&mut self.machines, &self.backups.orphans)?;
        match self.extra {
            Extra::Quotas => check_quotas(&mut self.machines, &mut self.histories.borrow_mut().uses, true),
            _ => Ok(()),
        }
    }
}

/// Sets the limits of the user that has some, unless the server is known to keep them.
pub(super) fn limit(machine: &mut Machine, server: usize, uses: &Uses) {
    if server == 0 && !uses.is_limited(server) {
        // The limits are seen where they are in force; nobody waits for the word that they are.
        let (unheard, _) = sync_channel(1);
        let question = Question::SetQuota(LIMITED_OWNER, Some(LIMITS), unheard);
        machine.put(machine.life(), Input::Event(Event::Control(question)));
    }
}

/// Compares what the servers count for the user that has limits with what it has.
///
/// # Errors
/// Its files have more than they may, or, once nothing fails any more, not what they count.
pub(super) fn check_quotas(machines: &mut [Machine], uses: &mut Uses, is_settled: bool) -> Outcome<()> {
    let mut sum = QuotaUse::default();
    for (server, machine) in machines.iter_mut().enumerate() {
        if machine.accepts().is_none() {
            continue;
        }
        let quotas = machine.ask(Question::Quotas)?;
        uses.told(server, quotas.table.set_for(LIMITED_OWNER), LIMITS)?;
        for line in quotas.lines.iter().filter(|line| line.owner == LIMITED_OWNER) {
            let published_bytes = line.here.bytes - line.unpublished_bytes;
            (sum.bytes, sum.inodes) = (sum.bytes + published_bytes, sum.inodes + line.here.inodes);
        }
    }
    uses.counted(sum, LIMITS, is_settled)
}

/// Checks that no server keeps more for its clients than its limits allow.
///
/// # Errors
/// It does.
pub(super) fn check_limits(machines: &[Machine]) -> Outcome<()> {
    for (server, machine) in machines.iter().enumerate() {
        if let Some((what, much, most)) =
            machine.held().chain(machine.memory()).find(|(_, much, most)| much > most)
        {
            return Err(format!("server {server} has {much} {what}, and may have {most}"));
        }
    }
    Ok(())
}

/// Checks that nobody but root uses anything any more, and that nothing is kept for clients whose calls have ended.
///
/// # Errors
/// Something is still counted.
pub(super) fn check_unused(machines: &mut [Machine]) -> Outcome<()> {
    for (server, machine) in machines.iter_mut().enumerate() {
        if let Some((what, much, _)) = machine.held().find(|(_, much, _)| *much > 0) {
            return Err(format!("server {server} has {much} {what}, and everything was closed"));
        }
        let lines = machine.ask(Question::Quotas)?.lines;
        let is_used = |here: QuotaUse| here.bytes > 0 || here.inodes > 1;
        if let Some(line) = lines.iter().find(|line| is_used(line.here) || line.unpublished_bytes > 0) {
            return Err(format!("server {server} counts {line:?}, and everything was removed"));
        }
    }
    Ok(())
}
