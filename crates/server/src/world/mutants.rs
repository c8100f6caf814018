//! Faults that a world has to find: each takes out one rule of the store.

use std::cell::Cell;

/// A rule that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Changes of bytes that were carried out are not remembered, and carried out again when they are sent again.
    ExecutedForgotten,
    /// Some changes are acknowledged that the journal does not take.
    JournalSkipped,
    /// The replies of changes of names are not remembered, and the changes are decided again when they are sent again.
    RepliesForgotten,
}

thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Whether a rule is taken out.
pub(crate) fn is(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}

/// Takes a rule out on this thread, or puts all rules in force.
pub(super) fn set(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}
