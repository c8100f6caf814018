//! The words of the mount in its log.

/// Writes one line to the mount's log. A log that cannot be written, on a full disk, loses the line and not the mount:
/// the standard library's own macro panics then, and takes a thread that serves along.
macro_rules! notice {
    ($($words:tt)*) => {
        $crate::notices::write(format_args!("weir-mount: {}\n", format_args!($($words)*)))
    };
}

pub(crate) use notice;

/// Writes an error, for the command that started the mount, in the form that it takes apart.
pub(crate) fn complain(error: &dyn std::fmt::Display) {
    write(format_args!("error: {error}\n"));
}

/// Writes all of a line at once, or loses it.
pub(crate) fn write(line: std::fmt::Arguments<'_>) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.to_string().as_bytes());
}
