//! Publications: a writer tells the home of a file its new size and times.

use super::inode::allocation_of;
use super::inode::RegularFile;
use super::{permission, Files, Inode};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Answer, Caller, Decision, Step, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EBADF, EFBIG, EINVAL};
use crate::namespace::intents::IntentId;
use weir_placement::TargetId;
use weir_wire::{limits, Capability, Errno, Ino, Moment, Publication, Reply};

impl Files {
    /// Publishes a write. The answer is `Written`, or `StaleEpoch` if the file was shortened since. A second publication is
    /// harmless, so the reply is not remembered.
    pub(crate) fn publish(
        &self,
        mut draft: Draft<'_>,
        capability: &Capability,
        publication: &Publication,
    ) -> Step<Decision> {
        let (_, file) = self.writable(draft.caller, capability)?;
        self.await_cut(capability.ino)?;
        if publication.end.max(publication.reserved_end) > limits::FILE_BYTES {
            return Err(EFBIG.into());
        }
        if publication.epoch != file.epoch {
            return Ok(draft.reply(Reply::StaleEpoch { epoch: file.epoch }));
        }
        let (size_bytes, epoch) = (file.size_bytes.max(publication.end), file.epoch);
        if !self.admits(capability, publication)? {
            return Ok(self.refuse_growth(draft, capability.ino)?);
        }
        self.published(&mut draft, capability.ino, publication)?;
        Ok(draft.reply(Reply::Written { size: Some((size_bytes, epoch)) }))
    }

    /// Publishes an append, with its outcome to be remembered.
    pub(crate) fn publish_append(
        &self,
        mut draft: Draft<'_>,
        capability: &Capability,
        publication: &Publication,
        outcome: OutcomeKind,
    ) -> Result<Verdict, Errno> {
        let (_, file) = self.writable(draft.caller, capability)?;
        if let Some(id) = self.cut_of(capability.ino) {
            return Ok(Verdict::Wait(id));
        }
        if publication.end.max(publication.reserved_end) > limits::FILE_BYTES {
            return Err(EFBIG);
        }
        if publication.epoch != file.epoch {
            return Ok(Verdict::Done(draft.reply(Reply::StaleEpoch { epoch: file.epoch })));
        }
        if !self.admits(capability, publication)? {
            return Ok(Verdict::Done(self.refuse_growth(draft, capability.ino)?));
        }
        self.published(&mut draft, capability.ino, publication)?;
        Ok(Verdict::Done(draft.done(outcome)))
    }

    /// The decision that cuts a file at its end, and its intent, which is missing if the file is gone. `None` while the file is
    /// being cut.
    pub(crate) fn cut_at_end(
        &self,
        ino: Ino,
        now: Moment,
        next: IntentId,
    ) -> Option<(Decision, Option<IntentId>)> {
        if self.cuts.contains_key(&ino) {
            return None;
        }
        let mut changes = self.moves.abandonments(|moving, _| moving == ino, next);
        let moves = changes.iter().filter(|change| matches!(change, Change::MoveAbandoned { .. })).count();
        let file = self.regular(ino);
        let cut = file.map(|file| (IntentId(next.0 + moves as u64), file.size_bytes));
        changes.extend(cut.map(|(id, size_bytes)| Change::Resized {
            ino,
            size_bytes,
            permissions: None,
            cut: Some(id),
            at: now,
        }));
        let decision = Decision::of(changes, Answer::Now(Reply::Done, Vec::new()));
        Some((decision, cut.map(|(id, _)| id)))
    }

    /// The file that a capability allows to write.
    pub(crate) fn writable(
        &self,
        caller: &Caller<'_>,
        capability: &Capability,
    ) -> Result<(&Inode, &RegularFile), Errno> {
        self.check_capability(caller, capability)?;
        if !capability.rights.write {
            return Err(EBADF);
        }
        let inode = self.inode(capability.ino)?;
        Ok((inode, inode.regular().ok_or(EINVAL)?))
    }

    /// The target that would take an append of `length` bytes in one step. Its device then serves the append.
    pub(crate) fn append_target(&self, ino: Ino, length: u64) -> Option<TargetId> {
        let file = self.regular(ino)?;
        let piece = file.layout.pieces(file.size_bytes, length).next()?;
        Some(file.layout.targets()[piece.object])
    }

    /// Size and epoch of a regular file of this server, for replies to reads; none while the file is being cut.
    pub(crate) fn size_and_epoch(&self, ino: Ino) -> Option<(u64, u64)> {
        let file = self.regular(ino)?;
        (!self.cuts.contains_key(&ino)).then_some((file.size_bytes, file.epoch))
    }

    /// Whether the quotas of the file's owners have room for a publication.
    pub(crate) fn admits(&self, capability: &Capability, publication: &Publication) -> Result<bool, Errno> {
        let inode = self.inode(capability.ino)?;
        let size_bytes = inode.regular().ok_or(EINVAL)?.size_bytes.max(publication.end);
        let reserved_end = publication.reserved_end;
        Ok(self.admit_growth(capability.uid, (capability.ino, inode), size_bytes, reserved_end).is_ok())
    }

    /// Adds the change of a write that was made under the epoch of the file.
    pub(crate) fn published(
        &self,
        draft: &mut Draft<'_>,
        ino: Ino,
        publication: &Publication,
    ) -> Result<(), Errno> {
        let inode = self.inode(ino)?;
        let file = inode.regular().ok_or(EINVAL)?;
        let size_bytes = file.size_bytes.max(publication.end);
        #[cfg(any(test, feature = "world"))]
        let size_bytes = if mutants::is(Mutant::SizeReplaced) { publication.end } else { size_bytes };
        // Overwritten bytes are counted twice, but no file allocates more than its whole pages.
        let reserved_bytes = file.allocated_bytes.max(allocation_of(publication.reserved_end));
        let written_bytes = file.allocated_bytes.saturating_add(publication.written_bytes);
        let most = allocation_of(size_bytes);
        let beyond_end = Some(reserved_bytes).filter(|bytes| *bytes > most).unwrap_or(0);
        let allocated_bytes = written_bytes.min(most).max(beyond_end);
        let permissions = permission::after_write(draft.who(), inode);
        let punched = publication.end.max(publication.written_bytes).max(publication.reserved_end) == 0;
        draft.push(Change::Published {
            ino,
            size_bytes,
            allocated_bytes,
            punched,
            permissions,
            at: draft.now,
        });
        Ok(())
    }
}
