//! One value that all tasks write and read.

use super::super::task::{Outcome, Task};
use weir_wire::{At, Ino};

const OPERATIONS: u64 = 30;
const REGISTER: &str = "register";

/// A task that writes and reads the register.
pub(crate) struct Registering {
    task: Task,
    writes: u64,
}

impl Registering {
    pub(crate) fn new(task: Task) -> Registering {
        Registering { task, writes: 0 }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        for _ in 0..OPERATIONS {
            let mut file = self.task.open_or_make(At::new(Ino::ROOT, REGISTER)).await?;
            for _ in 0..=self.task.agenda.below(3) {
                let began = self.task.now();
                if self.task.agenda.by_chance(40) {
                    self.writes += 1;
                    // No other write has this value.
                    let value = (self.task.number as u64 + 1) << 32 | self.writes;
                    self.task.write_bytes(&mut file, 0, &value.to_le_bytes()).await?;
                    self.task.histories.borrow_mut().register.wrote(value, began, self.task.now());
                } else {
                    let bytes = self.task.read_bytes(&mut file, 8).await?;
                    let value = u64::from_le_bytes(bytes.try_into().map_err(|_| "a short read")?);
                    self.task.histories.borrow_mut().register.read(value, began, self.task.now());
                }
            }
            self.task.close(file.ino, file.handle).await;
        }
        Ok(())
    }
}
