//! The least of many costs, and the first place from any on that has it.

/// A complete binary tree whose leaves are costs by place, and whose other nodes the least below them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// The root is number 1; below node `n` are `2n` and `2n + 1`; the second half are the leaves.
    least: Vec<f64>,
}

impl Tree {
    /// Begin with `length` places that cost infinitely much but for those that `costs` names.
    pub(super) fn fill(&mut self, length: usize, costs: impl Iterator<Item = (usize, f64)>) {
        let leaves = length.next_power_of_two();
        self.least.clear();
        self.least.resize(2 * leaves, f64::INFINITY);
        for (place, cost) in costs {
            self.least[leaves + place] = cost;
        }
        for node in (1..leaves).rev() {
            self.least[node] = self.least_below(node);
        }
    }

    /// Changes the cost of a place.
    pub(super) fn set(&mut self, place: usize, cost: f64) {
        let mut node = self.least.len() / 2 + place;
        let mut least = cost;
        while self.least[node] != least {
            self.least[node] = least;
            node /= 2;
            if node == 0 {
                return;
            }
            least = self.least_below(node);
        }
    }

    /// The first of the places that cost least, beginning with `start` and going around; none where all cost infinitely
    /// much.
    pub(super) fn least_from(&self, start: usize) -> Option<usize> {
        let least = *self.least.get(1).filter(|least| least.is_finite())?;
        let leaves = self.least.len() / 2;
        let mut node = self.first_at_most(leaves + start, least).unwrap_or(1);
        while node < leaves {
            node *= 2;
            if self.least[node] > least {
                node += 1;
            }
        }
        Some(node - leaves)
    }

    /// The first node from `node` to the right, or above one of those, that has something of at most `cost` below it.
    fn first_at_most(&self, mut node: usize, cost: f64) -> Option<usize> {
        while self.least[node] > cost {
            // Goes up from every right child: the right neighbour of the left one lies to the right of everything
            // looked at.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        Some(node)
    }

    fn least_below(&self, node: usize) -> f64 {
        let (left, right) = (self.least[2 * node], self.least[2 * node + 1]);
        if right < left {
            right
        } else {
            left
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(costs: &[f64], start: usize) -> Option<usize> {
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let around = (start..costs.len()).chain(0..start);
        around.into_iter().find(|&place| costs[place] == least && least.is_finite())
    }

    proptest! {
        #[test]
        fn the_first_of_the_least_is_found_from_anywhere(
            costs in prop::collection::vec(prop_oneof![0..4, Just(9)], 1..40),
            changes in prop::collection::vec((0_usize..40, prop_oneof![0..4, Just(9)]), 0..40),
        ) {
            let cost = |&number: &i32| if number == 9 { f64::INFINITY } else { f64::from(number) };
            let mut costs: Vec<f64> = costs.iter().map(cost).collect();
            let mut tree = Tree::default();
            prop_assert_eq!(tree.least_from(0), None);
            tree.fill(costs.len(), costs.iter().copied().enumerate());
            for (place, number) in changes {
                let place = place % costs.len();
                costs[place] = cost(&number);
                tree.set(place, costs[place]);
                for start in 0..costs.len() {
                    prop_assert_eq!(tree.least_from(start), naive(&costs, start), "{:?} from {}", costs, start);
                }
            }
        }
    }
}
