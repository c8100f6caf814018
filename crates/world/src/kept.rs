//! The model of a directory whose servers lose power: the names and bytes that may be left.
//!
//! The home of the directory journals the changes of its names and sizes in their order. After a power loss they are as they were after
//! one of the changes since the last sync. Each byte of a file is one that it was since the last sync of the file.

use super::task::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use weir_wire::Ino;

/// The number of a file that a call makes which is not answered.
pub(super) const UNKNOWN: Ino = Ino(0);

/// Names with their files and the sizes of these.
pub(super) type Names = BTreeMap<String, (Ino, u64)>;
/// Names with their files and the bytes of these.
pub(super) type Found = BTreeMap<String, (Ino, Vec<u8>)>;

/// One change of the names, in one record of the journal.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The file is [`UNKNOWN`] until the call is answered.
    Make(String, Ino),
    Rename(String, String),
    Remove(String),
    /// A publication: the file ends no earlier.
    Grow(Ino, u64),
    /// The cut is of whatever file has the name: a loss may have left the name to another one.
    Cut(String, u64),
}

/// A directory, and the operation on it that is under way.
#[derive(Clone)]
pub(super) struct Kept {
    /// The first one is how the names were when they were synced, the last one how they are, without the operation.
    names: Vec<Names>,
    /// The changes of the operation.
    changes: Vec<Change>,
    /// The contents of each file since its sync.
    bytes: BTreeMap<Ino, Vec<Vec<u8>>>,
    /// How many contents there were before the operation.
    before: BTreeMap<Ino, usize>,
    /// Contents behind the end that a file came back with. Until the home has cut them off they are seen where the file grows by a hole.
    behind: BTreeMap<Ino, Vec<Vec<u8>>>,
    /// Every file that ever was.
    files: BTreeSet<Ino>,
    /// The directory as a backup of its home has it, with the contents of files since.
    backup: Option<Box<Kept>>,
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Change::Make(name, ino) => _ = names.entry(name.clone()).or_insert((*ino, 0)),
            Change::Rename(from, to) => {
                let file = names.remove(from);
                names.extend(file.map(|file| (to.clone(), file)));
            }
            Change::Remove(name) => _ = names.remove(name),
            Change::Grow(ino, end) => {
                names.values_mut().filter(|file| file.0 == *ino).for_each(|file| file.1 = file.1.max(*end));
            }
            Change::Cut(name, size) => _ = names.get_mut(name).map(|file| file.1 = *size),
        }
    }
}

fn byte(content: &[u8], at: usize) -> u8 {
    content.get(at).copied().unwrap_or(0)
}

impl Kept {
    /// An empty directory.
    pub(super) fn new() -> Kept {
        Kept {
            names: vec![Names::new()],
            changes: Vec::new(),
            bytes: BTreeMap::new(),
            before: BTreeMap::new(),
            behind: BTreeMap::new(),
            files: BTreeSet::new(),
            backup: None,
        }
    }

    /// The home of the directory is backed up.
    pub(super) fn back_up(&mut self) {
        let mut backup = Kept { names: self.names.last().cloned().into_iter().collect(), ..self.clone() };
        for (ino, contents) in &mut backup.bytes {
            contents.drain(..self.before.get(ino).copied().unwrap_or(0));
        }
        self.backup = Some(Box::new(backup));
    }

    /// The directory as it may be once the backup was brought back: names and sizes are those of the backup. A file that was changed since
    /// has any of its bytes since, and one that was removed has lost some.
    pub(super) fn restored(&self) -> Option<Kept> {
        let left: BTreeSet<Ino> = self.now().into_values().map(|(ino, _)| ino).collect();
        let mut restored = Kept::clone(self.backup.as_ref()?);
        for (ino, contents) in &mut restored.bytes {
            if !left.contains(ino) {
                contents.push(Vec::new());
            }
        }
        Some(restored)
    }

    /// The names as they are after the operation.
    pub(super) fn now(&self) -> Names {
        let mut names = self.names.last().expect("a state").clone();
        self.changes.iter().for_each(|change| change.apply(&mut names));
        names
    }

    /// The bytes of a file as they are.
    pub(super) fn content(&self, ino: Ino) -> &[u8] {
        self.bytes.get(&ino).and_then(|contents| contents.last()).map_or(&[], Vec::as_slice)
    }

    /// The operation is about to change the names.
    pub(super) fn change(&mut self, change: Change) {
        if let Change::Cut(name, size) = &change {
            let cut = self.now().get(name).and_then(|(ino, _)| self.behind.get_mut(ino));
            cut.into_iter().flatten().for_each(|content| content.truncate(*size as usize));
        }
        self.changes.push(change);
    }

    /// A file was made.
    ///
    /// # Errors
    /// It had its number before.
    pub(super) fn made(&mut self, name: &str, ino: Ino) -> Outcome<()> {
        if !self.files.insert(ino) {
            return Err(format!("{name} is new, and {ino:?} was another file before"));
        }
        self.bytes.insert(ino, vec![Vec::new()]);
        if let Some(Change::Make(_, made)) = self.changes.first_mut() {
            *made = ino;
        }
        Ok(())
    }

    /// The operation is about to change the bytes of a file.
    pub(super) fn write(&mut self, ino: Ino, content: Vec<u8>) {
        if let Some(backup) = &mut self.backup {
            backup.bytes.entry(ino).or_default().push(content.clone());
        }
        self.bytes.entry(ino).or_default().push(content);
    }

    /// Everything of the operation so far was answered.
    pub(super) fn end(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            let mut names = self.now();
            change.apply(&mut names);
            self.names.push(names);
        }
        self.before = self.bytes.iter().map(|(&ino, contents)| (ino, contents.len() - 1)).collect();
    }

    /// The directory was synced, and a file of it.
    pub(super) fn synced(&mut self, file: Option<Ino>) {
        self.end();
        self.names.drain(..self.names.len() - 1);
        if let Some(contents) = file.and_then(|ino| self.bytes.get_mut(&ino)) {
            contents.drain(..contents.len() - 1);
        }
        self.end();
    }

    /// Whether a byte of a file may be found.
    fn may_be(&self, ino: Ino, at: usize, found: u8, contents: &[Vec<u8>]) -> bool {
        let may_be_left =
            || self.behind.get(&ino).is_some_and(|left| left.iter().any(|left| byte(left, at) == found));
        contents.iter().any(|content| byte(content, at) == found || byte(content, at) == 0 && may_be_left())
    }

    /// A file was read, and is as it was.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check(&self, (name, ino): (&str, Ino), found: &[u8]) -> Outcome<()> {
        let contents = &self.bytes[&ino];
        self.check_bytes((name, ino), found, &contents[contents.len() - 1..])
    }

    fn check_bytes(&self, (name, ino): (&str, Ino), found: &[u8], contents: &[Vec<u8>]) -> Outcome<()> {
        match found.iter().enumerate().find(|&(at, &found)| !self.may_be(ino, at, found, contents)) {
            None => Ok(()),
            Some((at, found)) => {
                let known: Vec<u8> = contents.iter().map(|content| byte(content, at)).collect();
                Err(format!("byte {at} of {name} ({ino:?}) is {found}, and may be one of {known:?}"))
            }
        }
    }

    /// The directory was found so. Names may have been lost at their home, and bytes on any server, since they were synced. Whatever was
    /// not lost is as it was before the operation, or after a part of it.
    ///
    /// # Errors
    /// It can not be so.
    pub(super) fn take(&mut self, found: &Found, are_names_lost: bool, are_bytes_lost: bool) -> Outcome<()> {
        let sizes: Names =
            found.iter().map(|(name, (ino, bytes))| (name.clone(), (*ino, bytes.len() as u64))).collect();
        self.take_names(sizes, are_names_lost)?;
        for (name, (ino, content)) in found {
            self.files.insert(*ino);
            let first = self.before.get(ino).copied().filter(|_| !are_bytes_lost).unwrap_or(0);
            let contents = self.bytes.entry(*ino).or_insert_with(|| vec![Vec::new()]).clone();
            self.check_bytes((name, *ino), content, &contents[first..])?;
            let behind = contents.into_iter().filter(|other| other.len() > content.len());
            self.behind.entry(*ino).or_default().extend(behind);
            self.write(*ino, content.clone());
        }
        let is_named =
            |ino: &Ino| self.names.iter().any(|names| names.values().any(|(named, _)| named == ino));
        self.bytes.retain(|ino, _| is_named(ino));
        self.end();
        Ok(())
    }

    fn take_names(&mut self, found: Names, are_lost: bool) -> Outcome<()> {
        let is_it = |names: &Names| {
            names.len() == found.len()
                && names.iter().zip(&found).all(|((name, &(ino, size)), (other, &(found, length)))| {
                    let is_new = ino == UNKNOWN && !self.files.contains(&found);
                    (name, size) == (other, length) && (ino == found || is_new)
                })
        };
        let first = if are_lost { 0 } else { self.names.len() - 1 };
        // The home went on with a part of the operation from one of the states that the loss may have left.
        let mut left: Vec<Names> = self.names[..first].to_vec();
        let mut is_possible = false;
        for state in &self.names[first..] {
            for begin in 0..=self.changes.len() {
                let mut states = vec![state.clone()];
                for change in &self.changes[begin..] {
                    let mut next = states[states.len() - 1].clone();
                    change.apply(&mut next);
                    states.push(next);
                }
                if let Some(at) = states.iter().position(is_it) {
                    is_possible = true;
                    let is_known = |names: &Names| names.values().all(|&(ino, _)| ino != UNKNOWN);
                    left.extend(states.drain(..=at).filter(is_known));
                }
            }
        }
        if !is_possible {
            let states = &self.names[first..];
            return Err(format!(
                "the directory has {found:?}, and may have one of {states:?}, with {:?}",
                self.changes
            ));
        }
        left.push(found);
        left.dedup();
        (self.names, self.changes) = (left, Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    /// Names with their files and bytes, and whether they may be found after a loss of names and bytes, of bytes, and of nothing.
    type Case = (&'static [(&'static str, u64, &'static [u8])], [bool; 3]);

    fn found(names: &[(&str, u64, &[u8])]) -> Found {
        names.iter().map(|&(name, ino, bytes)| (name.into(), (Ino(ino), bytes.to_vec()))).collect()
    }

    /// A file of three bytes that was synced, then overwritten, and is just shortened and renamed.
    fn directory() -> Kept {
        let mut kept = Kept::new();
        kept.change(Change::Make("old".into(), UNKNOWN));
        kept.made("old", FILE).unwrap();
        kept.write(FILE, vec![1, 1, 1]);
        kept.change(Change::Grow(FILE, 3));
        kept.synced(Some(FILE));
        kept.write(FILE, vec![2, 1, 1]);
        kept.end();
        kept.write(FILE, vec![2, 1]);
        kept.change(Change::Cut("old".into(), 2));
        kept.change(Change::Rename("old".into(), "new".into()));
        kept
    }

    #[test]
    fn a_loss_leaves_one_state_of_names_and_each_byte_since_its_sync() {
        let cases: [Case; 9] = [
            (&[("new", 7, &[2, 1])], [true, true, true]),
            (&[("old", 7, &[2, 1])], [true, true, true]),
            (&[("old", 7, &[2, 1, 1])], [true, true, true]),
            (&[("new", 7, &[1, 1])], [true, true, false]),
            (&[("old", 7, &[1, 1, 1])], [true, true, false]),
            (&[("new", 7, &[3, 1])], [false, false, false]),
            (&[("new", 7, &[2])], [false, false, false]),
            (&[("new", 8, &[2, 1])], [false, false, false]),
            (&[], [false, false, false]),
        ];
        for (names, expected) in cases {
            let losses = [(true, true), (false, true), (false, false)];
            for ((are_names_lost, are_bytes_lost), is_right) in losses.into_iter().zip(expected) {
                let taken = directory().take(&found(names), are_names_lost, are_bytes_lost);
                assert_eq!(taken.is_ok(), is_right, "{names:?} {are_names_lost} {are_bytes_lost}: {taken:?}");
            }
        }
    }

    #[test]
    fn a_loss_takes_the_last_names_and_an_operation_goes_on_from_those_before() {
        let mut kept = directory();
        kept.end();
        kept.change(Change::Remove("other".into()));
        kept.end();
        for (is_lost, name) in [(false, "new"), (true, "old")] {
            kept.take(&found(&[(name, 7, &[2, 1])]), is_lost, false).unwrap();
        }
        assert!(
            kept.take(&found(&[("new", 7, &[2, 1])]), true, false).is_err(),
            "a second loss brings nothing back"
        );
    }

    #[test]
    fn a_backup_brings_names_back_and_any_bytes_that_files_had_since() {
        let mut kept = directory();
        kept.end();
        kept.back_up();
        kept.change(Change::Remove("new".into()));
        kept.end();
        kept.change(Change::Make("other".into(), UNKNOWN));
        kept.made("other", Ino(9)).unwrap();
        kept.end();
        let is_right =
            |names: &[(&str, u64, &[u8])]| kept.restored().unwrap().take(&found(names), false, true).is_ok();
        assert!(is_right(&[("new", 7, &[2, 1])]) && is_right(&[("new", 7, &[0, 1])]));
        assert!(!is_right(&[("new", 7, &[3, 1])]), "nobody wrote that");
        assert!(!is_right(&[("new", 7, &[2, 1]), ("other", 9, &[])]), "it was made since");
        assert!(!is_right(&[]), "it was there");
    }

    #[test]
    fn a_call_without_an_answer_may_have_made_a_file_that_never_was() {
        let mut kept = directory();
        kept.end();
        kept.change(Change::Make("other".into(), UNKNOWN));
        assert!(kept.take(&found(&[("new", 7, &[2, 1]), ("other", 7, &[])]), false, false).is_err());
        kept.take(&found(&[("new", 7, &[2, 1]), ("other", 9, &[])]), false, false).unwrap();
        assert_eq!(kept.now()["other"], (Ino(9), 0));
    }

    #[test]
    fn bytes_behind_the_end_that_came_back_are_seen_in_a_hole_until_a_cut() {
        for (size, is_seen) in [(3, true), (2, false)] {
            let mut kept = directory();
            kept.take(&found(&[("new", 7, &[2, 1])]), true, true).unwrap();
            kept.change(Change::Cut("new".into(), size));
            kept.write(FILE, vec![2, 1, 0, 0]);
            kept.change(Change::Grow(FILE, 4));
            kept.end();
            assert!(kept.check(("new", FILE), &[2, 1, 0, 0]).is_ok());
            assert_eq!(kept.check(("new", FILE), &[2, 1, 1, 0]).is_ok(), is_seen);
        }
    }
}
