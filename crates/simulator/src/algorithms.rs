//! Algorithms of one's own, in place of those that a scenario names.

use std::fmt;
use std::sync::Arc;
use weir_fairshare::Chooser;
use weir_placement::online::AllocatorMaker;

/// Makes the chooser of a device, of the start of its dice.
pub type ChooserMaker = Arc<dyn Fn(u64) -> Box<dyn Chooser> + Send + Sync>;

/// Algorithms of one's own: none, unless they are set.
#[derive(Clone, Default)]
pub struct Algorithms {
    /// Orders the requests of each device, targets and metadata alike.
    pub chooser: Option<ChooserMaker>,
    /// Chooses the targets of the files of each home server.
    pub allocator: Option<Arc<dyn AllocatorMaker>>,
}

impl fmt::Debug for Algorithms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Algorithms");
        shown.field("chooser", &self.chooser.is_some()).field("allocator", &self.allocator.is_some()).finish()
    }
}
