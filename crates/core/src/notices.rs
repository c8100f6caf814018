//! Lines of the server's log about the deeds of strangers: escaped, cut, and a few of each kind in a while.

use weir_fairshare::Nanos;

/// Writes a line to the server's log. In tests of the crate that writes it, the line is shown if its test fails.
#[macro_export]
macro_rules! log_line {
    ($level:ident, $($words:tt)*) => {{
        #[cfg(not(test))]
        weir_log::write(weir_log::Level::$level, "weir-server", format_args!($($words)*));
        #[cfg(test)]
        eprintln!("{:?} weir-server: {}", weir_log::Level::$level, format_args!($($words)*));
    }};
}

/// Writes a line to the server's log.
#[macro_export]
macro_rules! notice {
    ($($words:tt)*) => { $crate::log_line!(Info, $($words)*) };
}

/// Writes a line about a fault to the server's log.
#[macro_export]
macro_rules! warning {
    ($($words:tt)*) => { $crate::log_line!(Warning, $($words)*) };
}

pub use {notice, warning};

/// Lines of one kind in one interval.
const LINES: u32 = 20;
const INTERVAL: Nanos = Nanos::from_millis(10_000);
/// Longest line: the names of a credential within their limits, and why it was refused.
const LINE_BYTES: usize = 640;

/// A kind of line, each limited by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A credential was refused.
    Refused,
    /// A connection found no room.
    TurnedAway,
    /// No connection can be taken now.
    NoDescriptor,
    /// An append turn was taken from its client.
    TurnTaken,
    /// A client claimed a lock that others may have had.
    LockLost,
    /// A connection was closed that kept memory from others.
    MemoryKept,
}

impl Notice {
    const ALL: [Notice; 6] = [
        Notice::Refused,
        Notice::TurnedAway,
        Notice::NoDescriptor,
        Notice::TurnTaken,
        Notice::LockLost,
        Notice::MemoryKept,
    ];

    /// The things that lines of the kind tell of.
    fn name(self) -> &'static str {
        match self {
            Notice::Refused => "refused credentials",
            Notice::TurnedAway => "connections without room",
            Notice::NoDescriptor => "times without a descriptor",
            Notice::TurnTaken => "append turns taken",
            Notice::LockLost => "lost locks",
            Notice::MemoryKept => "connections that kept memory",
        }
    }
}

/// The lines of each kind that were said lately.
#[derive(Default)]
pub struct Notices([Lately; Notice::ALL.len()]);

#[derive(Clone, Copy, Default)]
struct Lately {
    began: Nanos,
    said: u32,
    withheld: u64,
}

impl Notices {
    /// Writes a line to the log, unless there were enough of its kind lately.
    pub fn tell(&mut self, notice: Notice, now: Nanos, text: impl FnOnce() -> String) {
        self.end_intervals(now);
        if let Some(line) = self.line(notice, now, text) {
            warning!("{line}");
        }
    }

    /// Says how many lines were withheld in the intervals that are over.
    pub(crate) fn end_intervals(&mut self, now: Nanos) {
        for notice in Notice::ALL {
            let lately = &mut self.0[notice as usize];
            if lately.said > 0 && now.saturating_since(lately.began) >= INTERVAL {
                if lately.withheld > 0 {
                    warning!("{} more {}", lately.withheld, notice.name());
                }
                *lately = Lately::default();
            }
        }
    }

    fn line(&mut self, notice: Notice, now: Nanos, text: impl FnOnce() -> String) -> Option<String> {
        let lately = &mut self.0[notice as usize];
        if lately.said == 0 {
            lately.began = now;
        }
        if lately.said >= LINES {
            lately.withheld += 1;
            return None;
        }
        lately.said += 1;
        Some(clean(&text()))
    }
}

/// One line of printable text, of bounded length.
fn clean(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if line.len() > LINE_BYTES {
            line.push('…');
            break;
        }
        match character {
            // Quotes are no danger to a terminal.
            '\'' | '"' => line.push(character),
            _ => line.extend(character.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_short_whatever_is_in_it() {
        assert_eq!(clean("job \"a\nb\x1b[2J\" of uid 7"), "job \"a\\nb\\u{1b}[2J\" of uid 7");
        let long = clean(&"\u{1b}".repeat(75_000));
        assert!(long.len() < LINE_BYTES + 16 && long.ends_with('…'), "{}", long.len());
    }

    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other() {
        let mut notices = Notices::default();
        let mut said = |notice, seconds: u64| {
            let now = Nanos::from_millis(seconds * 1000);
            notices.end_intervals(now);
            notices.line(notice, now, || "x".into()).is_some()
        };
        let count = (0..1_000).filter(|_| said(Notice::Refused, 1)).count();
        assert_eq!(count, LINES as usize);
        assert!(said(Notice::TurnedAway, 2));
        assert!(!said(Notice::Refused, 10) && said(Notice::Refused, 11));
        assert_eq!(notices.0[Notice::Refused as usize].withheld, 0, "a new interval has begun");
    }
}
