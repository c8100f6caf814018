//! From how many stripes each target takes to which demand's they are.
//!
//! McNaughton's wrap-around rule (Management Science 6, 1959): lay the stripes of all targets in one line and deal them
//! out to the demands in turn. No target has more stripes than there are demands, so none meets a demand twice; and the
//! targets of a server lie side by side, so its stripes differ by at most one between demands.

use super::classes::Class;
use super::levels::Levels;

/// Deals the stripes of `share`, the part of `class` on each position, out into `targets`.
///
/// `starts` holds the first stripe of each demand. A demand with several targets of one server has other servers
/// between them.
pub(super) fn deal(
    class: &Class,
    share: &[u32],
    levels: &Levels,
    servers: &[u32],
    starts: &[usize],
    targets: &mut [u32],
) {
    let members = class.demands.len();
    let stripes = class.stripes as usize;
    let mut line = vec![0_u32; members * stripes];
    let (mut member, mut slot) = (0, 0);
    for (position, &count) in share.iter().enumerate() {
        for _ in 0..count {
            line[member * stripes + slot] = position as u32;
            member += 1;
            if member == members {
                (member, slot) = (0, slot + 1);
            }
        }
    }
    let mut scratch = Vec::new();
    for (demand, own) in class.demands.iter().zip(line.chunks_exact_mut(stripes)) {
        alternate(own, servers, &mut scratch);
        let start = starts[*demand as usize];
        for (target, &position) in targets[start..start + stripes].iter_mut().zip(own.iter()) {
            *target = levels.index[position as usize];
        }
    }
}

/// Order positions that lie server by server so that those of a server are evenly apart, also around the end.
fn alternate(positions: &mut [u32], servers: &[u32], scratch: &mut Vec<(f64, u32)>) {
    let is_same = |one: &u32, other: &u32| servers[*one as usize] == servers[*other as usize];
    let count = positions.chunk_by(is_same).count();
    if count == positions.len() {
        return;
    }
    scratch.clear();
    for (number, own) in positions.chunk_by(is_same).enumerate() {
        let first = number as f64 / count as f64;
        let place = |turn: usize| (turn as f64 + first) / own.len() as f64;
        scratch.extend(own.iter().enumerate().map(|(turn, &position)| (place(turn), position)));
    }
    scratch.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (position, &(_, ordered)) in positions.iter_mut().zip(scratch.iter()) {
        *position = ordered;
    }
}
