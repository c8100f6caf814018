//! The number of creations that the database foresaw, which is reported at the end for the next prediction.

use crate::host::kernel::{self, system_call};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

/// The fate of a creation.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// The file was made as the database says.
    Placed,
    /// The database has the file, but the file existed already and keeps its layout.
    Present,
    /// The database has the file, but its layout was refused: the file system chose the place.
    Refused,
    /// The database lacks the file.
    Missed,
}

const FATES: [&str; 4] = ["placed", "present", "refused", "missed"];
/// Durations are counted in buckets of an eighth of their octave: a percentile is at most 12.5 % too long.
const EIGHTHS: usize = 8;
const BUCKETS: usize = 64 * EIGHTHS;
/// Most reported names of missed files, and most bytes of all names: a line of a report stays short.
const NAMES_MAX: usize = 64;
const NAMES_BYTES_MAX: usize = 16 << 10;

/// Largest report: it holds the lines of a hundred thousand processes, and a report that nobody reads stops growing.
const FILE_BYTES_MAX: u64 = 32 << 20;

static COUNTS: [AtomicU64; FATES.len()] = [const { AtomicU64::new(0) }; FATES.len()];
static DURATIONS: [AtomicU64; BUCKETS] = [const { AtomicU64::new(0) }; BUCKETS];
static WRITTEN: AtomicBool = AtomicBool::new(false);
static NAMES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Counts a creation.
pub(crate) fn count(fate: Fate, path: &[u8]) {
    COUNTS[fate as usize].fetch_add(1, Ordering::Relaxed);
    if !matches!(fate, Fate::Missed | Fate::Refused) {
        return;
    }
    // The names are a sample. A name is left out while another thread notes one, and in the child of a fork in its midst.
    if let Ok(mut names) = NAMES.try_lock() {
        let bytes: usize = names.iter().map(Vec::len).sum();
        if names.len() < NAMES_MAX && bytes + path.len() <= NAMES_BYTES_MAX {
            names.push(path.to_vec());
        }
    }
}

/// Notes how long a look-up took.
pub(crate) fn note_duration(nanoseconds: u64) {
    DURATIONS[bucket(nanoseconds)].fetch_add(1, Ordering::Relaxed);
}

fn bucket(nanoseconds: u64) -> usize {
    let octave = nanoseconds.max(1).ilog2();
    let eighth = if octave < 3 { 0 } else { (nanoseconds >> (octave - 3)) as usize % EIGHTHS };
    octave as usize * EIGHTHS + eighth
}

/// The duration in nanoseconds that the part `share` of the look-ups did not exceed, 0 without look-ups.
fn percentile(durations: &[u64; BUCKETS], share: f64) -> u64 {
    let wanted = (durations.iter().sum::<u64>() as f64 * share).ceil() as u64;
    let mut seen = 0;
    let found = durations.iter().position(|count| {
        seen += count;
        wanted > 0 && seen >= wanted
    });
    found.map_or(0, |index| {
        let (octave, eighth) = (index / EIGHTHS, (index % EIGHTHS) as u128);
        (((EIGHTHS as u128 + eighth + 1) << octave) / EIGHTHS as u128 - 1) as u64
    })
}

/// The counts, each with its name.
pub(crate) fn counts() -> [(&'static str, u64); FATES.len()] {
    std::array::from_fn(|index| (FATES[index], COUNTS[index].load(Ordering::Relaxed)))
}

/// Clears all counts, in the child of a fork.
pub(crate) fn reset() {
    for counter in COUNTS.iter().chain(&DURATIONS) {
        counter.store(0, Ordering::Relaxed);
    }
    if let Ok(mut names) = NAMES.try_lock() {
        names.clear();
    }
    WRITTEN.store(false, Ordering::Relaxed);
}

/// Adds one line of JSON to `file`, once, if a creation was counted.
pub(crate) fn write(file: &std::ffi::CStr, database: &[u8]) {
    let counts = counts();
    if counts.iter().all(|(_, count)| *count == 0) || WRITTEN.swap(true, Ordering::AcqRel) {
        return;
    }
    let durations = std::array::from_fn(|index| DURATIONS[index].load(Ordering::Relaxed));
    let text = line(&counts, &durations, database);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NONBLOCK;
    // SAFETY: the name ends with a zero byte, and the text lives through the write.
    unsafe {
        if let Ok(descriptor) = kernel::open(file.as_ptr(), flags) {
            let size = kernel::identify(descriptor, c"", libc::STATX_SIZE).map_or(0, |found| found.stx_size);
            if size < FILE_BYTES_MAX {
                let _ = system_call!(libc::SYS_write, descriptor, text.as_ptr(), text.len());
            }
            kernel::close(descriptor);
        }
    }
}

/// Lets the report be written again, because `exec` failed.
pub(crate) fn rearm() {
    WRITTEN.store(false, Ordering::Release);
}

fn line(counts: &[(&str, u64)], durations: &[u64; BUCKETS], database: &[u8]) -> String {
    let mut text = format!("{{\"version\":1,\"process\":{}", kernel::process_id());
    for (name, count) in counts {
        // Writing into a String cannot fail.
        let _ = write!(text, ",\"{name}\":{count}");
    }
    let [middle, late] = [0.5, 0.99].map(|share| percentile(durations, share));
    let _ = write!(text, ",\"lookup_nanoseconds_p50\":{middle},\"lookup_nanoseconds_p99\":{late}");
    text.push_str(",\"database\":");
    push_string(&mut text, database);
    text.push_str(",\"names\":[");
    if let Ok(names) = NAMES.try_lock() {
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            push_string(&mut text, name);
        }
    }
    text.push_str("]}\n");
    text
}

/// Appends a string of JSON. Bytes that are no UTF-8 become U+FFFD.
fn push_string(text: &mut String, bytes: &[u8]) {
    text.push('"');
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", control as u32);
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_an_eighth_too_long() {
        let mut durations = [0; BUCKETS];
        for nanoseconds in 1..=10_000 {
            durations[bucket(nanoseconds)] += 1;
        }
        for (share, exact) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = percentile(&durations, share) as f64;
            assert!(found >= exact && found <= exact * 1.125, "{share}: {found}");
        }
        assert_eq!(percentile(&[0; BUCKETS], 0.99), 0);
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn strings_are_those_of_json() {
        let mut text = String::new();
        push_string(&mut text, b"a\"b\\c\nd\xff");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "a\"b\\c\nd\u{fffd}");
    }
}
