//! One step of a job's path through the share tree.

use crate::policy::Entity;

/// One child of a node of the share tree, before it has a place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Branch {
    pub(crate) entity: Entity,
    /// In 1/1024, at least 1.
    pub(crate) weight: u32,
}
