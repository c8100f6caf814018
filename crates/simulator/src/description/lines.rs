//! Lines of the keys of a TOML text, for readers of documents that serde does not know.

use super::error::line_of;
use super::DescriptionError;
use toml::de::{DeTable, DeValue};

/// One step from a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The value of a key.
    Key(String),
    /// An entry of an array.
    Index(usize),
}

/// The line of each key of a document and of each entry of its arrays, with the way to it from the document.
///
/// # Errors
/// The text is not TOML.
pub fn key_lines(text: &str) -> Result<Vec<(Vec<Part>, usize)>, DescriptionError> {
    let document = DeTable::parse(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        match error.span() {
            Some(span) => DescriptionError { line: Some(line_of(text, span.start)), key: None, message },
            None => DescriptionError { line: None, key: None, message },
        }
    })?;
    let mut found = Vec::new();
    gather_table(text, document.get_ref(), &mut Vec::new(), &mut found);
    Ok(found)
}

fn gather_table(text: &str, table: &DeTable<'_>, way: &mut Vec<Part>, found: &mut Vec<(Vec<Part>, usize)>) {
    for (key, value) in table {
        way.push(Part::Key(key.get_ref().to_string()));
        found.push((way.clone(), line_of(text, key.span().start)));
        gather(text, value.get_ref(), way, found);
        way.pop();
    }
}

fn gather(text: &str, value: &DeValue<'_>, way: &mut Vec<Part>, found: &mut Vec<(Vec<Part>, usize)>) {
    match value {
        DeValue::Table(table) => gather_table(text, table, way, found),
        DeValue::Array(array) => {
            for (index, entry) in array.iter().enumerate() {
                way.push(Part::Index(index));
                found.push((way.clone(), line_of(text, entry.span().start)));
                gather(text, entry.get_ref(), way, found);
                way.pop();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_have_their_lines() {
        let text = "a = 1\n\n[[jobs]]\nname = \"x\"\n[jobs.layout]\nsize = [\n 1,\n 2]\n[[jobs]]\nb.c = 2\n";
        let lines = key_lines(text).unwrap();
        let line = |way: &[Part]| lines.iter().find(|(found, _)| found == way).map(|&(_, line)| line);
        let key = |name: &str| Part::Key(name.into());
        assert_eq!(line(&[key("a")]), Some(1));
        assert_eq!(line(&[key("jobs"), Part::Index(0)]), Some(3));
        assert_eq!(line(&[key("jobs"), Part::Index(0), key("name")]), Some(4));
        assert_eq!(line(&[key("jobs"), Part::Index(0), key("layout"), key("size"), Part::Index(1)]), Some(8));
        assert_eq!(line(&[key("jobs"), Part::Index(1)]), Some(9));
        assert_eq!(line(&[key("jobs"), Part::Index(1), key("b"), key("c")]), Some(10));
    }

    #[test]
    fn a_text_that_is_not_toml_names_its_line() {
        assert_eq!(key_lines("a = 1\nb = \n").unwrap_err().line, Some(2));
    }
}
