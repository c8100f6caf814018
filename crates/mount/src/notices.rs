//! The words of the mount in its log.

/// Writes one line to the mount's log.
macro_rules! notice {
    ($($words:tt)*) => {
        weir_log::write(weir_log::Level::Warning, "weir-mount", format_args!($($words)*))
    };
}

pub(crate) use notice;

/// Writes an error, for the command that started the mount, in a form that it takes apart.
pub(crate) fn complain(error: &dyn std::fmt::Display) {
    weir_log::complain("weir-mount", format_args!("{error}"));
}
