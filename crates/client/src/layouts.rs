//! The layouts that an open file has had: each holds from its epoch on, and the last layout counts.
//!
//! A file that moves while it is open gets another layout. The former layouts stay until the file is dropped. So a call
//! goes on with the layout that it has (servers refuse its epoch where that matters), and no reader takes a lock.

use std::sync::OnceLock;
use weir_placement::{Layout, ServerId};

/// A chain of layouts in the order of their epochs. Each move that this open file meets adds one.
#[derive(Debug)]
pub(crate) struct Layouts {
    layout: Layout,
    epoch: u64,
    next: OnceLock<Box<Layouts>>,
}

impl Layouts {
    pub(crate) fn new(layout: Layout, epoch: u64) -> Layouts {
        Layouts { layout, epoch, next: OnceLock::new() }
    }

    /// The last layout, with its epoch.
    pub(crate) fn latest(&self) -> (&Layout, u64) {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        (&last.layout, last.epoch)
    }

    /// Adds a layout, unless the chain has one of this epoch or a later one.
    pub(crate) fn push(&self, layout: Layout, epoch: u64) {
        let mut last = self;
        // The layout is made outside of the cell, so that a signal handler hardly ever meets a cell that is being filled.
        let mut fresh = Box::new(Layouts::new(layout, epoch));
        while last.epoch < epoch {
            match last.next.get() {
                Some(next) => last = next,
                None => match last.next.set(fresh) {
                    Ok(()) => return,
                    // Another thread was faster.
                    Err(refused) => fresh = refused,
                },
            }
        }
    }

    /// The servers of all layouts, each once.
    pub(crate) fn servers(&self) -> Vec<ServerId> {
        let all = std::iter::successors(Some(self), |one| one.next.get().map(|next| &**next));
        let mut servers: Vec<ServerId> = all.flat_map(|one| one.layout.servers()).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_placement::TargetId;

    fn layout(server: u16) -> Layout {
        Layout::striped(4096, vec![TargetId { server: ServerId(server), index: 0 }]).expect("well formed")
    }

    #[test]
    fn the_latest_epoch_counts_whatever_order_it_is_learned_in() {
        let layouts = Layouts::new(layout(0), 0);
        layouts.push(layout(1), 5);
        layouts.push(layout(2), 3);
        layouts.push(layout(3), 5);
        assert_eq!(layouts.latest(), (&layout(1), 5));
        layouts.push(layout(4), 7);
        assert_eq!(layouts.latest(), (&layout(4), 7));
        assert_eq!(layouts.servers(), [ServerId(0), ServerId(1), ServerId(4)]);
    }

    #[test]
    fn threads_that_learn_at_once_agree() {
        let layouts = Layouts::new(layout(0), 0);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let layouts = &layouts;
                scope.spawn(move || {
                    let mut seen = 0;
                    for epoch in 1..200 {
                        layouts.push(layout((epoch % 50) as u16), epoch * 4 + thread);
                        let (_, latest) = layouts.latest();
                        assert!(latest >= seen && latest >= epoch * 4 + thread);
                        seen = latest;
                    }
                });
            }
        });
    }
}
