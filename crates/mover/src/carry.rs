//! Carrying out a plan, file by file.

use crate::arguments::Arguments;
use crate::error::MoverError;
use crate::events::{tell, Event};
use crate::find::{Found, Search};
use crate::pace::Pace;
use crate::stop::Stop;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_client::wire::ObjectMove;
use weir_client::{Caller, ClientError, Place, Store};
use weir_placement::rebalance::{Plan, PlannedMove};

/// Objects of a file that move together: as many as have these bytes, so that little is done in vain where a move ends
/// early, and a file of small objects keeps others waiting once.
const TOGETHER_BYTES: u64 = 1 << 30;
/// The error number of a move that was ended.
const ENDED: i32 = libc::EINTR;
/// The error number of a move of a file that another mover moves.
const BUSY: i32 = libc::EBUSY;
/// The error numbers of a file that was removed.
const GONE: [i32; 2] = [libc::ENOENT, libc::ESTALE];
/// Time for which a file that another mover moves is tried again: the end of a killed mover is known within a few
/// seconds.
const BUSY_TIME: Duration = Duration::from_secs(15);
/// Between two such attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Exit code of a run that SIGINT ended, as a shell counts.
const INTERRUPTED: u8 = 130;

/// Carries out the planned moves, until all are done or the run ends.
///
/// # Errors
///
/// The first look alone can fail. A file that cannot be moved is reported and left as it is.
pub(crate) fn out(
    store: &Store,
    arguments: &Arguments,
    search: &Search,
    plan: &Plan,
    stop: &Stop,
) -> Result<ExitCode, MoverError> {
    let found = &search.found;
    if arguments.dry_run {
        for one in &plan.moves {
            let (path, from, to) = told(found, one);
            tell(&Event::Would { path, from, to, bytes: one.bytes });
        }
        return Ok(if search.left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut pace = Pace::new(arguments.rate, Instant::now());
    let (mut objects, mut bytes, mut copied_bytes, mut left) = (0, 0, 0, search.left);
    let mut ended = false;
    let mut queue: VecDeque<_> = batches(&plan.moves).into_iter().map(|batch| (batch, None)).collect();
    while let Some((together, busy_since)) = queue.pop_front() {
        if busy_since.is_some() {
            std::thread::sleep(BUSY_PAUSE);
        }
        if stop.is_asked() {
            ended = true;
            break;
        }
        let file = &found[together[0].file];
        let moves: Vec<ObjectMove> =
            together.iter().map(|one| ObjectMove { from: one.from, to: one.to }).collect();
        let mut waits = |bytes| pace.wait(bytes, || stop.is_urgent());
        match store.move_objects(&Caller::own(), Place::inode(file.ino), &moves, &mut waits) {
            Ok(moved) => {
                copied_bytes += moved.copied_bytes;
                for one in &together {
                    let (path, from, to) = told(found, one);
                    (objects, bytes) = (objects + 1, bytes + one.bytes);
                    tell(&Event::Moved { path, from, to, bytes: one.bytes });
                }
            }
            Err(error) if error.errno() == ENDED && stop.is_urgent() => {
                ended = true;
                break;
            }
            Err(error) => {
                let busy_since = busy_since.or_else(|| Some(Instant::now()));
                let wanted = wanted(store, file, &together);
                let is_over = wanted.len() < together.len();
                if is_over || error.errno() == BUSY && busy_since.is_some_and(is_recent) {
                    queue.extend((!wanted.is_empty()).then_some((wanted, busy_since)));
                } else {
                    left += together.len();
                    tell(&Event::Left { path: file.path.clone(), error: words(&error) });
                }
            }
        }
    }
    tell(&Event::Done { objects, bytes, copied_bytes, left, interrupted: ended });
    Ok(match (ended, left + plan.stuck) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

/// The moves that another one has not made meanwhile; none of a file that was removed.
fn wanted(store: &Store, file: &Found, moves: &[PlannedMove]) -> Vec<PlannedMove> {
    let now = store.layout_of(&Caller::own(), file.ino);
    if now.as_ref().is_err_and(|error| GONE.contains(&error.errno())) {
        return Vec::new();
    }
    let is_wanted =
        |one: &&PlannedMove| now.as_ref().map_or(true, |(layout, _)| layout.targets().contains(&one.from));
    moves.iter().filter(is_wanted).copied().collect()
}

/// An error in words, without its number.
fn words(error: &ClientError) -> String {
    let whole = error.to_string();
    let number = format!(" (os error {})", error.errno());
    whole.strip_suffix(&number).unwrap_or(&whole).to_owned()
}

fn is_recent(since: Instant) -> bool {
    since.elapsed() < BUSY_TIME
}

fn told(found: &[Found], one: &PlannedMove) -> (String, String, String) {
    (found[one.file].path.clone(), one.from.to_string(), one.to.to_string())
}

/// The moves of each file together, files in the order of their first one.
fn batches(moves: &[PlannedMove]) -> Vec<Vec<PlannedMove>> {
    let mut batches: Vec<(u64, Vec<PlannedMove>)> = Vec::new();
    let mut last = std::collections::HashMap::new();
    for one in moves {
        let index = last.get(&one.file).copied();
        match index.map(|index: usize| &mut batches[index]) {
            Some((bytes, batch)) if *bytes + one.bytes <= TOGETHER_BYTES => {
                *bytes += one.bytes;
                batch.push(*one);
            }
            _ => {
                last.insert(one.file, batches.len());
                batches.push((one.bytes, vec![*one]));
            }
        }
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_of_a_file_move_together() {
        let target = |text: &str| text.parse().expect("a target");
        let one = |file, bytes| PlannedMove { file, from: target("0.0"), to: target("1.0"), bytes };
        let moves = [one(7, TOGETHER_BYTES), one(3, 10), one(7, 5), one(3, 10), one(7, 5)];
        let found: Vec<Vec<usize>> =
            batches(&moves).iter().map(|batch| batch.iter().map(|one| one.file).collect()).collect();
        assert_eq!(found, [vec![7], vec![3, 3], vec![7, 7]]);
    }
}
