//! The check of a world at rest, by the questions of `weir fsck`.

use super::machine::Machine;
use super::task::Outcome;
use std::collections::BTreeSet;
use weir_core::control::question::{Objects, Part, Question};
use weir_wire::Ino;

/// All inodes, as one part.
fn all() -> Part {
    Part::of_path("0/1", "").expect("a part")
}

/// The inodes of all servers.
///
/// # Errors
/// A server is down.
pub(super) fn known(machines: &mut [Machine]) -> Outcome<BTreeSet<Ino>> {
    let mut files = BTreeSet::new();
    for machine in machines {
        files.extend(machine.ask(|answer| Question::Numbers(all(), answer))?);
    }
    Ok(files)
}

/// Checks the servers, which nobody uses at the moment. Objects of `orphans` may be there, whose files no server knows.
///
/// # Errors
/// A finding.
pub(super) fn check(machines: &mut [Machine], orphans: &BTreeSet<Ino>) -> Outcome<()> {
    let files = known(machines)?;
    for (server, machine) in machines.iter_mut().enumerate() {
        let inos = machine.ask(|answer| Question::Numbers(all(), answer))?;
        let (mut first, mut after) = (0, 0);
        while first < inos.len() {
            let rest = inos[first..].to_vec();
            let examined = machine.ask(|answer| Question::Examine(rest, after, answer))?;
            if let Some(fault) = examined.faults.first() {
                return Err(format!("the tree of server {server} has a fault: {fault:?}"));
            }
            (first, after) = (first + examined.done, examined.after);
        }
        let (count, counted) = machine.ask(Question::BeginRecount)?;
        machine.ask(|answer| Question::GoOnRecount(count, counted, answer))?;
        let faults = machine.ask(|answer| Question::EndRecount(count, answer))?;
        if let Some(fault) = faults.unwrap_or_default().first() {
            return Err(format!("server {server} has another sum of use than its inodes: {fault:?}"));
        }
    }
    let is_stray = |ino: &Ino| !files.contains(ino) && !orphans.contains(ino);
    match objects(machines)?.into_iter().find(|(_, ino)| is_stray(ino)) {
        Some((server, ino)) => Err(format!("server {server} keeps an object of {ino:?}, which is not there")),
        None => Ok(()),
    }
}

/// Checks that nothing is left of what the clients made.
///
/// # Errors
/// Something that is left.
pub(super) fn check_empty(machines: &mut [Machine], orphans: &BTreeSet<Ino>) -> Outcome<()> {
    check(machines, orphans)?;
    for (server, machine) in machines.iter_mut().enumerate() {
        let inos = machine.ask(|answer| Question::Numbers(all(), answer))?;
        if let Some(ino) = inos.iter().find(|ino| **ino != Ino::ROOT) {
            return Err(format!("server {server} keeps {ino:?}, and everything was removed"));
        }
    }
    match objects(machines)?.iter().find(|(_, ino)| !orphans.contains(ino)) {
        Some((server, ino)) => Err(format!("server {server} keeps an object of {ino:?}")),
        None => Ok(()),
    }
}

/// The files of all objects, with the servers that keep them.
///
/// # Errors
/// A server is down, or cannot list a target.
pub(super) fn objects(machines: &mut [Machine]) -> Outcome<Vec<(usize, Ino)>> {
    let mut objects = Vec::new();
    for (server, machine) in machines.iter_mut().enumerate() {
        for (_, of_target) in machine.ask(Question::Objects)? {
            let here = match of_target {
                Objects::Here(here) => here,
                Objects::In(dir) => dir.listed().map_err(|error| format!("server {server}: {error}"))?,
            };
            let with_bytes = here.into_iter().filter(|(_, bytes)| *bytes > 0);
            objects.extend(with_bytes.map(|(object, _)| (server, object.file())));
        }
    }
    Ok(objects)
}
