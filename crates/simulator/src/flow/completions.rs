//! The moments at which the variables of a network next have a flow that ends.

use weir_fairshare::Nanos;

/// Children of a node of the heap: four lie in one line of the cache.
const CHILDREN: usize = 4;
/// The place of a variable that has no moment.
const NOWHERE: u32 = u32::MAX;

/// A heap of variables by moment, and at one moment by number; each variable has one moment, which can be changed.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    heap: Vec<(Nanos, u32)>,
    /// The place of each variable in the heap.
    places: Vec<u32>,
}

impl Completions {
    /// The variable with the next moment.
    pub(crate) fn first(&self) -> Option<(Nanos, u32)> {
        self.heap.first().copied()
    }

    /// Sets the moment of a variable, or takes it away.
    pub(crate) fn set(&mut self, variable: u32, at: Option<Nanos>) {
        if self.places.len() <= variable as usize {
            self.places.resize(variable as usize + 1, NOWHERE);
        }
        match (self.places[variable as usize], at) {
            (NOWHERE, None) => {}
            (NOWHERE, Some(at)) => {
                self.heap.push((at, variable));
                self.rise(self.heap.len() - 1);
            }
            (place, Some(at)) => {
                self.heap[place as usize].0 = at;
                let place = self.rise(place as usize);
                self.sink(place);
            }
            (place, None) => {
                self.places[variable as usize] = NOWHERE;
                self.heap.swap_remove(place as usize);
                if (place as usize) < self.heap.len() {
                    let place = self.rise(place as usize);
                    self.sink(place);
                }
            }
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = CHILDREN * place + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { break };
            if self.heap[least] >= entry {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Nanos, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(changes in proptest::collection::vec((0u32..20, proptest::option::of(0u64..50)), 0..200)) {
            let mut completions = Completions::default();
            let mut moments = [None; 20];
            for (variable, at) in changes {
                completions.set(variable, at.map(Nanos));
                moments[variable as usize] = at;
                let all = (0u32..).zip(&moments).filter_map(|(number, at)| Some((Nanos((*at)?), number)));
                prop_assert_eq!(completions.first(), all.min());
            }
        }
    }
}
