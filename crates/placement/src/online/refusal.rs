//! The reasons for which a file gets no targets.

/// The reason why a file gets no targets. Its caller chooses the error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// The layout that was asked for is none, or none that this store can have.
    #[error("the layout is none that this store can have")]
    Layout,
    /// A target that was named does not exist.
    #[error("a target that was named does not exist")]
    Unknown,
    /// The server of a target that was named does not report, or no server does.
    #[error("no server of a target that may be used reports")]
    Dead,
    /// A target that was named is full, or all are.
    #[error("every target that may be used is full")]
    Full,
}

impl Refusal {
    /// The name under which refusals are counted.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Layout => "layout",
            Refusal::Unknown => "unknown",
            Refusal::Dead => "dead",
            Refusal::Full => "full",
        }
    }
}
