//! Patterns of names with random parts, such as those of `mkstemp`.
//!
//! A pattern is a few last parts of a path, separated by `/`. `?` is one random letter, digit or underscore, `#` is a number
//! without a rule (of a process, or a time), and `*`, once in a part, is anything. `\\` takes the meaning from the next byte. The
//! name of a path by a pattern is the path with `?` and `#` in place of its random parts.

/// Longest pattern: a path of Linux.
const BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    Random,
    Number,
    Anything,
}

/// A pattern of names.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The pieces of each part of the path, the last part first.
    parts: Vec<Vec<Piece>>,
}

impl Pattern {
    /// Reads a pattern. `None` for a text that is no pattern.
    pub(super) fn new(text: &[u8]) -> Option<Pattern> {
        if text.is_empty() || text.len() > BYTES_MAX {
            return None;
        }
        let mut parts = vec![Vec::new()];
        let mut bytes = text.iter();
        while let Some(&byte) = bytes.next() {
            let piece = match byte {
                b'/' => {
                    parts.push(Vec::new());
                    continue;
                }
                b'?' => Piece::Random,
                b'#' => Piece::Number,
                b'*' => Piece::Anything,
                b'\\' => Piece::Byte(*bytes.next()?),
                other => Piece::Byte(other),
            };
            parts.last_mut()?.push(piece);
        }
        let is_once = |part: &Vec<Piece>| part.iter().filter(|piece| **piece == Piece::Anything).count() <= 1;
        if !parts.iter().all(is_once) {
            return None;
        }
        parts.reverse();
        Some(Pattern { parts })
    }

    /// The name of `path` with marks in place of its random parts. `None` for a path that does not match.
    pub(super) fn name(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut rest = path;
        let mut found = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let slash = rest.iter().rposition(|byte| *byte == b'/')?;
            found.push(marked(part, &rest[slash + 1..])?);
            rest = &rest[..slash];
        }
        let mut name = rest.to_vec();
        for part in found.iter().rev() {
            name.push(b'/');
            name.extend_from_slice(part);
        }
        Some(name)
    }
}

/// One part of a path with marks in place of its random pieces.
fn marked(pieces: &[Piece], text: &[u8]) -> Option<Vec<u8>> {
    let split = pieces.iter().position(|piece| *piece == Piece::Anything);
    let (before, after) = match split {
        Some(at) => (&pieces[..at], &pieces[at + 1..]),
        None => (pieces, &[][..]),
    };
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    for piece in before {
        let taken = taken(*piece, rest)?;
        name.push(mark(*piece));
        rest = &rest[taken..];
    }
    let mut end = Vec::new();
    for piece in after.iter().rev() {
        let taken = taken_from_end(*piece, rest)?;
        end.push(mark(*piece));
        rest = &rest[..rest.len() - taken];
    }
    if split.is_none() && !rest.is_empty() {
        return None;
    }
    name.extend_from_slice(rest);
    name.extend(end.into_iter().rev());
    Some(name)
}

/// The bytes at the start of `text` that a piece matches.
fn taken(piece: Piece, text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    match piece {
        Piece::Byte(byte) => (byte == first).then_some(1),
        Piece::Random => is_random(first).then_some(1),
        Piece::Number => {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (digits > 0).then_some(digits)
        }
        Piece::Anything => None,
    }
}

fn taken_from_end(piece: Piece, text: &[u8]) -> Option<usize> {
    match piece {
        Piece::Number => {
            let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            (digits > 0).then_some(digits)
        }
        single => taken(single, &text[text.len().checked_sub(1)?..]),
    }
}

fn is_random(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn mark(piece: Piece) -> u8 {
    match piece {
        Piece::Byte(byte) => byte,
        Piece::Random => b'?',
        Piece::Number => b'#',
        Piece::Anything => b'*',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str, path: &str) -> Option<String> {
        let found = Pattern::new(pattern.as_bytes()).expect("a pattern").name(path.as_bytes())?;
        Some(String::from_utf8(found).expect("text"))
    }

    #[test]
    fn random_parts_become_marks_and_the_rest_stays() {
        for (pattern, path, expected) in [
            ("tmp????????", "/out/tmpa_3kq0z9", Some("/out/tmp????????")),
            ("tmp????????", "/out/tmpa_3kq0z", None),
            ("tmp????????", "/out/tmpa_3kq0z91", None),
            ("tmp????????", "/out/tmpa-3kq0z9", None),
            (".*.??????", "/out/.ckpt.0001.Xa3f9Z", Some("/out/.ckpt.0001.??????")),
            (".*.??????", "/out/ckpt.0001.Xa3f9Z", None),
            ("*.#.tmp", "/out/ckpt.0001.4242.tmp", Some("/out/ckpt.0001.#.tmp")),
            ("*.#.tmp", "/out/ckpt.tmp", None),
            ("#", "/out/4711", Some("/out/#")),
            ("work-??????/*", "/out/work-aB3dE6/part.7", Some("/out/work-??????/part.7")),
            ("work-??????/*", "/out/other/part.7", None),
            ("a\\?\\*\\\\-??????", "/out/a?*\\-aB3dE6", Some("/out/a?*\\-??????")),
            ("??????", "aB3dE6", None),
        ] {
            assert_eq!(name(pattern, path).as_deref(), expected, "{path} by {pattern}");
        }
    }

    #[test]
    fn a_text_that_is_no_pattern_is_refused() {
        for text in ["", "a**b", "*a*", "end\\"] {
            assert!(Pattern::new(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Pattern::new(&vec![b'a'; BYTES_MAX + 1]).is_none());
    }
}
