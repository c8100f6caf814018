//! Demands of one stripe size and count are alike, so counts are shared out among classes of them.

use super::levels::Levels;

/// Demands that ask for the same number of stripes of the same size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Class {
    /// Stripes of each.
    pub(super) stripes: u32,
    /// The demands, by number.
    pub(super) demands: Vec<u32>,
}

impl Class {
    /// The number of demands.
    pub(super) fn members(&self) -> u32 {
        self.demands.len() as u32
    }
}

/// Stripes of each size a set of targets can take of some classes: counts and members, most stripes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<(u32, u32)>);

impl Sizes {
    pub(super) fn of(classes: &[Class]) -> Sizes {
        Sizes(classes.iter().map(|class| (class.stripes, class.members())).collect())
    }

    /// Stripes of all.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|&(stripes, members)| u64::from(stripes) * u64::from(members)).sum()
    }

    /// Demands of all: no target takes more stripes.
    pub(super) fn members(&self) -> u32 {
        self.0.iter().map(|&(_, members)| members).sum()
    }

    /// The most stripes of one demand.
    pub(super) fn most(&self) -> u32 {
        self.0.iter().map(|&(stripes, _)| stripes).max().unwrap_or(0)
    }

    /// The most stripes that `targets` targets can take together.
    pub(super) fn within(&self, targets: u32) -> u64 {
        let each =
            self.0.iter().map(|&(stripes, members)| u64::from(stripes.min(targets)) * u64::from(members));
        each.sum()
    }

    /// The stripes that `targets` targets receive when they take all they can, and the stripes that remain for the
    /// other targets.
    pub(super) fn split(&self, targets: u32) -> (Sizes, Sizes) {
        let inside = self.0.iter().map(|&(stripes, members)| (stripes.min(targets), members));
        let outside = self.0.iter().map(|&(stripes, members)| (stripes.saturating_sub(targets), members));
        (Sizes(inside.collect()), Sizes(outside.filter(|&(stripes, _)| stripes > 0).collect()))
    }
}

/// Share `counts` out among the classes: for each class, the stripes that each position takes of it.
///
/// A class takes from the positions with the most left, at most one stripe for each of its demands, and leaves the
/// rest as level as it can; the level rest meets the Gale-Ryser condition of the other classes whenever `counts` meet it
/// for all, as in Havel and Hakimi's construction. `classes` are ordered by falling stripes.
pub(super) fn share_out(classes: &[Class], mut counts: Vec<u32>, levels: &Levels) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..counts.len() as u32).collect();
    order.sort_unstable_by_key(|&position| levels.rank[position as usize]);
    let mut shares = Vec::with_capacity(classes.len());
    for (number, class) in classes.iter().enumerate() {
        if number + 1 == classes.len() {
            shares.push(std::mem::take(&mut counts));
            break;
        }
        let share = take(class, &counts, &order, number * order.len() / classes.len());
        for (count, &part) in counts.iter_mut().zip(&share) {
            *count -= part;
        }
        shares.push(share);
    }
    shares
}

/// The share of one class in `counts`. Where some of equal positions give a stripe less, the first positions from
/// `start` in `order` do.
fn take(class: &Class, counts: &[u32], order: &[u32], start: usize) -> Vec<u32> {
    let members = class.members();
    let need = u64::from(class.stripes) * u64::from(members);
    let part = |count: u32, level: u32| count.saturating_sub(level).min(members);
    let taken = |level: u32| counts.iter().map(|&count| u64::from(part(count, level))).sum::<u64>();
    // The highest level that leaves enough above it.
    let (mut low, mut high) = (0, counts.iter().copied().max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if taken(middle) >= need {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut share: Vec<u32> = counts.iter().map(|&count| part(count, low)).collect();
    let mut spare = share.iter().map(|&part| u64::from(part)).sum::<u64>() - need;
    let (before, after) = order.split_at(start);
    for &position in after.iter().chain(before) {
        if spare == 0 {
            break;
        }
        let count = counts[position as usize];
        if count > low && count - low <= members {
            share[position as usize] -= 1;
            spare -= 1;
        }
    }
    share
}
