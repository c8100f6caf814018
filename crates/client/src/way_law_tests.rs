//! Random trees over several homes: a path leads, from home to home, to the node that it has in the tree as a whole, also where
//! names of the root are stale, and leaves the store where it would on the host.

use crate::place::{Anchors, Final};
use crate::ClientError;
use std::collections::BTreeMap;
use weir_session::{trim_start, Place, Way};
use weir_testing::Choices;
use weir_wire::{limits, At, Errno, Ino, Reply};

const CASES: u64 = 2_000;
const PATHS: u64 = 20;
const HOMES: u64 = 3;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Node {
    Directory { parent: u64, names: BTreeMap<String, u64> },
    Link(String),
}

/// A tree, whose nodes have their homes in their numbers as inodes of the product do.
struct Tree {
    nodes: BTreeMap<u64, Node>,
    made: u64,
}

/// The end of a path.
#[derive(Debug, PartialEq)]
enum End {
    Node(u64),
    Outside(String),
    Failed(i32),
}

impl Tree {
    fn new(choices: &mut Choices) -> Tree {
        let root = Node::Directory { parent: Ino::ROOT.0, names: BTreeMap::new() };
        let mut tree = Tree { nodes: BTreeMap::from([(Ino::ROOT.0, root)]), made: 10 };
        for _ in 0..2 + choices.below(14) {
            let directories: Vec<u64> = tree
                .nodes
                .iter()
                .filter(|(_, node)| matches!(node, Node::Directory { .. }))
                .map(|(ino, _)| *ino)
                .collect();
            let parent = *choices.one_of(&directories);
            let node = match choices.below(3) {
                0 => Node::Link(Tree::any_path(choices, true)),
                _ => Node::Directory { parent, names: BTreeMap::new() },
            };
            tree.add(choices, parent, node);
        }
        tree
    }

    /// Adds a node, or puts it in the place of another one.
    fn add(&mut self, choices: &mut Choices, parent: u64, node: Node) {
        let home = if parent == Ino::ROOT.0 { choices.below(HOMES) } else { u64::from(Ino(parent).home().0) };
        // Links stand where their directory is.
        let home = if matches!(node, Node::Link(_)) { u64::from(Ino(parent).home().0) } else { home };
        self.made += 1;
        let ino = home << 48 | self.made;
        let name = choices.one_of(&NAMES).to_string();
        self.nodes.insert(ino, node);
        let Some(Node::Directory { names, .. }) = self.nodes.get_mut(&parent) else {
            unreachable!("a directory")
        };
        names.insert(name, ino);
    }

    fn any_path(choices: &mut Choices, may_be_absolute: bool) -> String {
        let parts: Vec<&str> = (0..1 + choices.below(5))
            .map(|_| if choices.below(5) == 0 { ".." } else { *choices.one_of(&NAMES) })
            .collect();
        match if may_be_absolute { choices.below(4) } else { 3 } {
            0 => format!("/mnt/weir/{}", parts.join("/")),
            1 => format!("/elsewhere/{}", parts.join("//")),
            _ => parts.join("/"),
        }
    }

    /// The answer of the home of `at`, which walks as far as its own part of the tree reaches.
    fn answer(&self, at: &At) -> Reply {
        let home = at.ino.home();
        if let Some(name) = &at.anchor {
            let Some(Node::Directory { names, .. }) = self.nodes.get(&Ino::ROOT.0) else { unreachable!() };
            if names.get(&*String::from_utf8_lossy(name)) != Some(&at.ino.0) {
                return Reply::Stale;
            }
        }
        let (mut ino, mut hops) = (at.ino.0, at.hops);
        let mut rest = String::from_utf8(at.path.clone()).expect("plain names");
        loop {
            let path = rest.trim_start_matches('/').to_owned();
            if path.is_empty() {
                return Reply::Position(Some(ino));
            }
            let (name, behind) = path.split_once('/').unwrap_or((&path, ""));
            let Some(Node::Directory { parent, names }) = self.nodes.get(&ino) else {
                return Reply::Failed(Errno(libc::ENOTDIR as u16));
            };
            let (next, anchor) = match name {
                ".." if ino == Ino::ROOT.0 => {
                    return Reply::Redirect { at: At { hops, ..At::new(Ino::ROOT, path.as_str()) } };
                }
                ".." => (*parent, None),
                name => match names.get(name) {
                    None => return Reply::Failed(Errno(libc::ENOENT as u16)),
                    Some(next) => (*next, (ino == Ino::ROOT.0).then(|| name.as_bytes().to_vec().into())),
                },
            };
            if let Some(Node::Link(target)) = self.nodes.get(&next) {
                hops += 1;
                if hops > limits::SYMLINK_HOPS {
                    return Reply::Failed(Errno(libc::ELOOP as u16));
                }
                let path = format!("{target}/{behind}");
                if target.starts_with('/') {
                    return Reply::Escape { path: path.into_bytes(), hops };
                }
                rest = path;
                continue;
            }
            if Ino(next).home() != home {
                return Reply::Redirect {
                    at: At { anchor, hops, ..At::new(Ino(next), trim_start(behind.as_bytes())) },
                };
            }
            (ino, rest) = (next, behind.to_owned());
        }
    }

    /// The end of a path from the root, which knows the whole tree.
    fn resolve(&self, path: &str) -> End {
        let (mut ino, mut rest, mut hops) = (Ino::ROOT.0, path.to_owned(), 0);
        loop {
            let path = rest.trim_start_matches('/').to_owned();
            if path.is_empty() {
                return End::Node(ino);
            }
            let (name, behind) = path.split_once('/').unwrap_or((&path, ""));
            let Some(Node::Directory { parent, names }) = self.nodes.get(&ino) else {
                return End::Failed(libc::ENOTDIR);
            };
            if name == ".." {
                if ino == Ino::ROOT.0 {
                    return End::Outside(plain(&format!("/mnt/{behind}")));
                }
                (ino, rest) = (*parent, behind.to_owned());
                continue;
            }
            match names.get(name).map(|next| (*next, &self.nodes[next])) {
                None => return End::Failed(libc::ENOENT),
                Some((next, Node::Directory { .. })) => (ino, rest) = (next, behind.to_owned()),
                Some((_, Node::Link(target))) => {
                    hops += 1;
                    if hops > limits::SYMLINK_HOPS {
                        return End::Failed(libc::ELOOP);
                    }
                    let whole = format!("{target}/{behind}");
                    match whole.strip_prefix("/mnt/weir").map(str::to_owned) {
                        Some(inside) if !climbs_out(&inside) => (ino, rest) = (Ino::ROOT.0, inside),
                        _ if whole.starts_with('/') => return End::Outside(plain(&whole)),
                        _ => rest = whole,
                    }
                }
            }
        }
    }
}

/// Whether a path names a place outside of where it starts, by its words alone.
fn climbs_out(path: &str) -> bool {
    let steps = path.split('/').scan(0i32, |depth, name| {
        *depth += match name {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        Some(*depth)
    });
    steps.min().unwrap_or(0) < 0
}

/// A path without empty names.
fn plain(path: &str) -> String {
    path.split('/').filter(|name| !name.is_empty()).map(|name| format!("/{name}")).collect()
}

fn walk(tree: &Tree, anchors: &Anchors, path: &str) -> End {
    let place = Place::root(path.as_bytes());
    let mut way = Way::new(Some(b"/mnt/weir"), place, anchors.start(place, Final::Node).expect("short"));
    loop {
        let reply = tree.answer(way.at());
        let note = |name: &[u8], ino| match ino {
            Some(ino) => anchors.learn(name, ino),
            None => anchors.forget(name),
        };
        match way.take(reply, note) {
            Ok(None) => {}
            Ok(Some(Reply::Position(Some(ino)))) => return End::Node(ino),
            Ok(Some(Reply::Failed(errno))) => return End::Failed(errno.0.into()),
            Ok(Some(other)) => panic!("{other:?}"),
            Err(ClientError::Outside { path, .. }) => {
                return End::Outside(plain(&String::from_utf8_lossy(&path)))
            }
            Err(error) => return End::Failed(error.errno()),
        }
    }
}

#[test]
fn a_path_leads_from_home_to_home_to_the_node_that_it_has_in_the_whole_tree() {
    let mut choices = Choices::new();
    let (mut found, mut outside, mut looped) = (0, 0, 0);
    for case in 0..CASES {
        let mut choices = choices.branch();
        let mut tree = Tree::new(&mut choices);
        let anchors = Anchors::default();
        for _ in 0..PATHS {
            if choices.below(4) == 0 {
                let node = Node::Directory { parent: Ino::ROOT.0, names: BTreeMap::new() };
                tree.add(&mut choices, Ino::ROOT.0, node);
            }
            let path = Tree::any_path(&mut choices, false);
            let (end, expected) = (walk(&tree, &anchors, &path), tree.resolve(&path));
            assert_eq!(end, expected, "case {case}: {path} in {:?}", tree.nodes);
            match end {
                End::Node(_) => found += 1,
                End::Outside(_) => outside += 1,
                End::Failed(errno) => looped += u64::from(errno == libc::ELOOP),
            }
        }
    }
    assert!(
        found > CASES && outside > CASES && looped > 0,
        "{found} found, {outside} outside, {looped} loops"
    );
}
