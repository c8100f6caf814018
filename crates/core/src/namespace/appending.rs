//! Appends as their requests meet the replies of before, and cuts of files at their ends.

use super::appends::{InlineAppend, NextTurn, TakenTurn, TurnReply};
use super::core::Namespace;
use super::decision::{Caller, Decision, Verdict};
use super::errno::EBADF;
use weir_wire::{Capability, Errno, Ino, Moment, Publication, Sequence};

impl Namespace {
    /// The decision that comes before an append to a file of an earlier start of the server, if it is the first one since: a client
    /// that had the turn then may still write where the next appender would.
    pub fn end_earlier_turn(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        now: Moment,
    ) -> Option<Decision> {
        let is_due = self.appends.must_cut(self.files(), caller, capability);
        is_due.then(|| self.cut_off(capability.ino, now)).flatten()
    }

    /// Asks for the append turn of a file.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EDQUOT; EAGAIN if too many appenders wait.
    pub fn append_begin(&mut self, caller: &Caller<'_>, capability: &Capability) -> Result<TurnReply, Errno> {
        self.appends.ask(self.names.files(), caller, capability)
    }

    /// Decides the end of a turn; after the commit, [`Namespace::next_turn`] follows.
    ///
    /// # Errors
    /// EBADF if the client does not have the turn (a session takes its turns along); otherwise as `Publish`.
    pub fn append_end(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: Option<&Publication>,
        now: Moment,
    ) -> Result<Verdict, Errno> {
        if let Some(recalled) = self.recall(caller) {
            return Ok(Verdict::Done(recalled));
        }
        self.appends.end(self.files(), self.draft(caller, now), capability, turn, publication)
    }

    /// Begins an append in one step if nobody has the turn and one object of this server takes `length` bytes at the end of the
    /// file.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EFBIG; EDQUOT.
    pub fn append_inline(
        &mut self,
        caller: &Caller<'_>,
        capability: &Capability,
        length: u64,
    ) -> Result<InlineAppend, Errno> {
        if let Some(recalled) = self.recall(caller) {
            return Ok(InlineAppend::Done(Box::new(recalled)));
        }
        self.appends.ask_inline(self.names.files(), caller, capability, length)
    }

    /// Decides the reply of an inline append after its bytes were written: `Appended`, or `StaleEpoch` if the file was shortened
    /// meanwhile. After the commit, or after a failed write, [`Namespace::next_turn`] follows.
    ///
    /// # Errors
    /// EBADF if the turn was lost with the client's session.
    pub fn append_written(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
        publication: &Publication,
        now: Moment,
    ) -> Result<Verdict, Errno> {
        self.appends.written(self.files(), self.draft(caller, now), capability, turn, publication)
    }

    /// Ends the turn, if `client` of `caller` still has it, and gives it to the next in the queue.
    pub fn next_turn(&mut self, caller: &Caller<'_>, ino: Ino, turn: Sequence) -> NextTurn {
        if !self.appends.holds(ino, caller.client, turn) {
            return NextTurn::Nobody;
        }
        self.appends.pass(self.names.files(), ino)
    }

    /// Whether a client still has the turn that it renews.
    ///
    /// # Errors
    /// EACCES, EBADF, ESTALE for the capability; EBADF if the turn was lost.
    pub fn append_renew(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
        turn: Sequence,
    ) -> Result<(), Errno> {
        self.files().writable(caller, capability)?;
        match self.appends.holds(capability.ino, caller.client, turn) {
            true => Ok(()),
            false => Err(EBADF),
        }
    }

    /// Takes the append turn of a file from a client that may have stopped in the midst of its writes. `None` while the file is
    /// being cut: the caller tries again later.
    ///
    /// The file is cut at its end, which raises its epoch. Bytes that the late client wrote are gone, its later writes are
    /// answered `StaleEpoch`, and its `AppendEnd` EBADF. So its append has not happened, and the client may begin anew.
    pub fn take_turn(&mut self, ino: Ino, now: Moment) -> Option<TakenTurn> {
        let (decision, cut) = self.files().cut_at_end(ino, now, self.intents.next())?;
        Some(TakenTurn { decision, cut, waiting: self.appends.take(ino) })
    }

    /// The decision that cuts a file at its end; none while another cut of the file is under way.
    pub(crate) fn cut_off(&self, ino: Ino, now: Moment) -> Option<Decision> {
        let (decision, cut) = self.files().cut_at_end(ino, now, self.intents.next())?;
        cut.map(|_| decision)
    }
}
