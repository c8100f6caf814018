//! The fences that servers told: no two starts of a server have the same ones, although a loss of power may take what the first one wrote.
//! A lock that was lost with the first start could else be written under beside its next holder.

use std::collections::BTreeMap;
use weir_wire::Fence;

/// The starts that clients know by the fences that they were told.
#[derive(Default)]
pub(crate) struct Starts {
    /// The life of a server that told the fences of a start first.
    lives: BTreeMap<(usize, u32), u64>,
}

impl Starts {
    /// A client was told a fence in this life of a server.
    ///
    /// # Errors
    /// An earlier life told fences of the same start.
    pub(crate) fn told(&mut self, server: usize, life: u64, fence: Fence) -> Result<(), String> {
        let first = *self.lives.entry((server, fence.start())).or_insert(life);
        match first == life {
            true => Ok(()),
            false => {
                Err(format!("server {server} tells {fence:?} in life {life}, as it did in life {first}"))
            }
        }
    }
}
