//! The allocator that a placer uses: one of Weir's by its name, or one of one's own.

use crate::{Allocation, AllocationError, Allocator, AllocatorName, Demand, View};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Makes allocators of one's own: each home server has one, which keeps its state from file to file.
pub trait AllocatorMaker: Send + Sync {
    /// The name of its allocators, in records.
    fn name(&self) -> &str;

    /// An allocator without a past, whose dice begin at `seed`.
    fn make(&self, seed: u64) -> Box<dyn Allocator + Send + Sync>;
}

/// The allocator that a placer was told to use.
#[derive(Clone)]
pub(super) struct By {
    pub(super) name: AllocatorName,
    /// Makes allocators that choose in place of the named one.
    pub(super) own: Option<Arc<dyn AllocatorMaker>>,
}

impl By {
    pub(super) fn named(name: AllocatorName) -> By {
        By { name, own: None }
    }

    pub(super) fn is_balanced(&self) -> bool {
        self.own.is_none() && self.name == AllocatorName::Balanced
    }

    pub(super) fn text(&self) -> Cow<'static, str> {
        match &self.own {
            Some(own) => Cow::Owned(own.name().to_owned()),
            None => Cow::Borrowed(self.name.text()),
        }
    }
}

impl fmt::Debug for By {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// The allocator of one home server, which is made when the first file comes.
pub(super) struct Own {
    maker: Arc<dyn AllocatorMaker>,
    seed: u64,
    made: Option<Box<dyn Allocator + Send + Sync>>,
}

impl Own {
    pub(super) fn new(maker: Arc<dyn AllocatorMaker>, seed: u64) -> Own {
        Own { maker, seed, made: None }
    }

    pub(super) fn allocate(
        &mut self,
        view: &View,
        demand: Demand,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        let Own { maker, seed, made } = self;
        made.get_or_insert_with(|| maker.make(*seed)).allocate(view, &[demand], random)
    }
}

/// A copy has no past: that of a home goes with its seat.
impl Clone for Own {
    fn clone(&self) -> Own {
        Own::new(Arc::clone(&self.maker), self.seed)
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Own").field(&self.maker.name()).finish()
    }
}
