//! The targets of new files. The journal has each choice, so the placer needs no record itself.

use super::{BirthNode, Inode};
use crate::namespace::change::Change;
use std::collections::HashMap;
use weir_placement::online::Placer;
use weir_placement::{LayoutDefaults, TargetId};
use weir_wire::{JobId, Moment};

/// Chooses the targets of new files.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    placer: Placer,
    /// Defaults for layouts that set nothing.
    defaults: LayoutDefaults,
    /// Targets that new files of jobs avoid.
    avoided: HashMap<JobId, Vec<TargetId>>,
}

impl Places {
    pub(crate) fn new(placer: Placer, defaults: LayoutDefaults) -> Places {
        Places { placer, defaults, avoided: HashMap::new() }
    }

    pub(crate) fn placer(&self) -> &Placer {
        &self.placer
    }

    pub(crate) fn placer_mut(&mut self) -> &mut Placer {
        &mut self.placer
    }

    pub(crate) fn defaults(&self) -> LayoutDefaults {
        self.defaults
    }

    /// Has new files of jobs avoid targets from now on, and those of no other jobs.
    pub(crate) fn avoid(&mut self, avoided: HashMap<JobId, Vec<TargetId>>) {
        self.avoided = avoided;
    }

    /// The targets that new files of a job avoid.
    pub(crate) fn avoided_by(&self, job: JobId) -> &[TargetId] {
        self.avoided.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Tells the placer of files that are made, written and removed, as these change the work of targets; `before` is the inode that the
    /// change is about.
    pub(crate) fn count(&mut self, change: &Change, before: Option<&Inode>) {
        match change {
            Change::Created { ino, birth, at, .. } | Change::CreatedUnnamed { ino, birth, at, .. } => {
                if let BirthNode::Regular { layout, .. } = &birth.node {
                    self.placer.placed(layout, at.seconds);
                    self.placer.awaits(ino.0, layout, unix_seconds(*at));
                }
            }
            Change::Published { ino, at, .. } => self.placer.written(ino.0, unix_seconds(*at)),
            Change::LaidOut { layout, at, .. } | Change::Detoured { layout, at, .. } => {
                self.count_removed(before);
                self.placer.placed(layout, at.seconds);
            }
            Change::Disposed { .. } => self.count_removed(before),
            _ => {}
        }
    }

    fn count_removed(&mut self, inode: Option<&Inode>) {
        if let Some((inode, file)) = inode.and_then(|inode| Some((inode, inode.regular()?))) {
            self.placer.removed(&file.layout, inode.created.seconds);
        }
    }
}

/// A moment as seconds of Unix time.
fn unix_seconds(at: Moment) -> f64 {
    at.seconds as f64 + f64::from(at.nanoseconds) / 1e9
}
