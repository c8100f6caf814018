//! The fault of a description, with its place.

use std::fmt;

/// A fault of a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DescriptionError {
    /// Line of the fault, from 1; absent where the whole text is at fault.
    pub line: Option<usize>,
    /// The key at fault; absent where no single key is.
    pub key: Option<String>,
    /// The fault, and what is allowed.
    pub message: String,
}

impl DescriptionError {
    /// A fault at a place of the text.
    pub(super) fn at(text: &str, start: usize, message: impl Into<String>) -> DescriptionError {
        DescriptionError {
            line: Some(line_of(text, start)),
            key: key_before(text, start),
            message: message.into(),
        }
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        if let Some(key) = &self.key {
            write!(formatter, "{key}: ")?;
        }
        formatter.write_str(&self.message)
    }
}

/// The number of the line that holds a byte of a text, from 1.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    1 + text.as_bytes()[..position.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// The key whose value begins at a byte of a text.
fn key_before(text: &str, position: usize) -> Option<String> {
    let before = text.get(..position)?.trim_end_matches([' ', '\t']).strip_suffix('=')?.trim_end();
    let is_of_key = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let key = &before[before.trim_end_matches(is_of_key).len()..];
    (!key.is_empty()).then(|| key.to_owned())
}
