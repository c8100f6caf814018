//! A priority queue of tree nodes by virtual time: an exact calendar queue.
//!
//! Keys near the front fall into a ring of buckets, each a list in key order, found by a two-level
//! bitmap (find first set); keys beyond the ring wait in a search tree. The bucket width follows
//! the keys (R. Brown, "Calendar queues", CACM 31(10), 1988), which changes the speed, never the
//! order: least key first, among equal keys the first inserted.

use std::collections::BTreeSet;

/// The least number of buckets of a ring, one bitmap word.
const BUCKETS_MIN: usize = 64;
/// The most: with ten thousand nodes a bucket then holds one or two, and the ring (128 KiB) still
/// fits the L2 cache.
const BUCKETS_MAX: usize = 16_384;
/// Steps an insertion may take on average before the bucket width is looked at again.
const STEPS_MEAN_MAX: usize = 2;
/// Steps for which an insertion beyond the ring counts.
const FAR_STEPS: usize = 8;
/// Insertions and steps after which the width is looked at, at the least.
const PATIENCE_MIN: usize = 64;

const NONE: u32 = u32::MAX;

/// The place of an item in the one wheel that holds it. Items share one array of links over many wheels, because a node
/// of the share tree is in one wheel at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    key: i64,
    previous: u32,
    next: u32,
    /// The bucket's place in the ring, or `NONE` beyond the ring.
    bucket: u32,
}

/// Items ordered by key; the items' links are passed to each call.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The item with the least key, or `NONE`.
    first: u32,
    buckets: Vec<Bucket>,
    /// One bit a bucket: it is in use.
    words: Vec<u64>,
    /// One bit a word: it is not zero.
    summary: Vec<u64>,
    /// Number of the first bucket the ring covers: a key's bucket number is `key >> shift`.
    base: i64,
    shift: u32,
    floor: i64,
    near: usize,
    far: BTreeSet<(i64, u32)>,
    insertions: usize,
    steps: usize,
    patience: usize,
}

/// The ends of one list in key order.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
}

impl Link {
    pub(crate) const UNLINKED: Link = Link { key: 0, previous: NONE, next: NONE, bucket: NONE };

    pub(crate) fn key(&self) -> i64 {
        self.key
    }
}

impl Wheel {
    /// An empty wheel with buckets `2^shift` wide until it has seen enough keys to choose.
    pub(crate) fn new(shift: u32) -> Wheel {
        let mut wheel = Wheel {
            first: NONE,
            buckets: Vec::new(),
            words: Vec::new(),
            summary: Vec::new(),
            base: 0,
            shift,
            floor: 0,
            near: 0,
            far: BTreeSet::new(),
            insertions: 0,
            steps: 0,
            patience: PATIENCE_MIN,
        };
        wheel.clear(BUCKETS_MIN);
        wheel
    }

    /// The item with the least key.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Tells that keys below `floor` are rare from now on, so that the ring may begin there.
    pub(crate) fn advance(&mut self, links: &mut [Link], floor: i64) {
        self.floor = floor;
        let mut base = floor >> self.shift;
        if base <= self.base {
            return;
        }
        if self.near > 0 {
            let bucket = links[self.first as usize].bucket as usize;
            let ahead = bucket.wrapping_sub(self.place(self.base)) & (self.buckets.len() - 1);
            base = base.min(self.base + ahead as i64);
        }
        self.base = base;
        let end = base + self.buckets.len() as i64;
        while let Some(&(key, item)) = self.far.first().filter(|&&(key, _)| key >> self.shift < end) {
            self.far.pop_first();
            self.link(links, item, key);
        }
    }

    pub(crate) fn insert(&mut self, links: &mut [Link], item: u32, key: i64) {
        self.link(links, item, key);
        if self.first == NONE || key < links[self.first as usize].key {
            self.first = item;
        }
        self.insertions += 1;
        if self.insertions + self.steps >= self.patience {
            self.review(links);
        }
    }

    /// Takes out `item`, which must be in this wheel.
    pub(crate) fn remove(&mut self, links: &mut [Link], item: u32) {
        self.unlink(links, item);
        if item == self.first {
            self.first = match self.first_bucket() {
                Some(bucket) => self.buckets[bucket].head,
                None => self.far.first().map_or(NONE, |&(_, item)| item),
            };
        }
    }

    fn unlink(&mut self, links: &mut [Link], item: u32) {
        let Link { key, previous, next, bucket } = links[item as usize];
        if bucket == NONE {
            self.far.remove(&(key, item));
            return;
        }
        self.near -= 1;
        let bucket = bucket as usize;
        match previous {
            NONE => self.buckets[bucket].head = next,
            _ => links[previous as usize].next = next,
        }
        match next {
            NONE => self.buckets[bucket].tail = previous,
            _ => links[next as usize].previous = previous,
        }
        if self.buckets[bucket].head == NONE {
            self.words[bucket / 64] &= !(1 << (bucket % 64));
            if self.words[bucket / 64] == 0 {
                self.summary[bucket / 4_096] &= !(1 << (bucket / 64 % 64));
            }
        }
    }

    fn clear(&mut self, buckets: usize) {
        self.buckets = vec![Bucket { head: NONE, tail: NONE }; buckets];
        self.words = vec![0; buckets / 64];
        self.summary = vec![0; buckets.div_ceil(4_096)];
        self.near = 0;
        self.far.clear();
        self.base = self.floor >> self.shift;
    }

    fn place(&self, number: i64) -> usize {
        number as usize & (self.buckets.len() - 1)
    }

    /// Puts `item` into its bucket, behind all keys not greater. A key before the ring goes into
    /// the ring's first bucket, which keeps the order because that list is in key order too.
    fn link(&mut self, links: &mut [Link], item: u32, key: i64) {
        let number = (key >> self.shift).max(self.base);
        if number - self.base >= self.buckets.len() as i64 {
            links[item as usize] = Link { key, previous: NONE, next: NONE, bucket: NONE };
            self.far.insert((key, item));
            self.steps += FAR_STEPS;
            return;
        }
        let bucket = self.place(number);
        let mut previous = self.buckets[bucket].tail;
        let mut next = NONE;
        while previous != NONE && links[previous as usize].key > key {
            next = previous;
            previous = links[previous as usize].previous;
            self.steps += 1;
        }
        links[item as usize] = Link { key, previous, next, bucket: bucket as u32 };
        match previous {
            NONE => self.buckets[bucket].head = item,
            _ => links[previous as usize].next = item,
        }
        match next {
            NONE => self.buckets[bucket].tail = item,
            _ => links[next as usize].previous = item,
        }
        self.near += 1;
        self.words[bucket / 64] |= 1 << (bucket % 64);
        self.summary[bucket / 4_096] |= 1 << (bucket / 64 % 64);
    }

    /// The first bucket in use, in ring order from the base.
    fn first_bucket(&self) -> Option<usize> {
        if self.near == 0 {
            return None;
        }
        let start = self.place(self.base);
        let (word, bit) = (start / 64, start % 64);
        let in_word = |word: usize, bits: u64| Some(word * 64 + bits.trailing_zeros() as usize);
        let here = self.words[word] & (u64::MAX << bit);
        if here != 0 {
            return in_word(word, here);
        }
        let (group, bit) = (word / 64, word % 64);
        let later = self.summary[group] & (u64::MAX << bit) & !(1 << bit);
        let groups = self.summary.len();
        let (group, bits) = match later {
            0 => (1..=groups)
                .map(|ahead| (group + ahead) & (groups - 1))
                .map(|group| (group, self.summary[group]))
                .find(|&(_, bits)| bits != 0)?,
            _ => (group, later),
        };
        let word = group * 64 + bits.trailing_zeros() as usize;
        in_word(word, self.words[word])
    }

    /// Chooses the ring anew if insertions had become slow; done so rarely that its cost, linear
    /// in the items, is a constant for each insertion.
    fn review(&mut self, links: &mut [Link]) {
        let slow = self.steps > STEPS_MEAN_MAX * self.insertions;
        let items = self.near + self.far.len();
        self.patience = PATIENCE_MIN.max(4 * items);
        (self.insertions, self.steps) = (0, 0);
        let buckets = (2 * items).next_power_of_two().clamp(BUCKETS_MIN, BUCKETS_MAX);
        if !slow && buckets <= self.buckets.len() {
            return;
        }
        let mut keyed = self.items(links);
        let shift = self.fitting_shift(&mut keyed, buckets);
        if shift == self.shift && buckets == self.buckets.len() {
            return;
        }
        // Equal keys keep their order, because the sort is stable over `items`' order.
        keyed.sort_by_key(|&(key, _)| key);
        self.shift = shift;
        self.clear(buckets);
        for (key, item) in keyed {
            self.link(links, item, key);
        }
        self.steps = 0;
    }

    /// The width that spreads the nearer half of the items over a quarter of the ring, which
    /// leaves room for those inserted while the ring turns.
    fn fitting_shift(&self, keyed: &mut [(i64, u32)], buckets: usize) -> u32 {
        let mut keys: Vec<i64> = keyed.iter().map(|&(key, _)| key).collect();
        let Some(least) = keys.iter().copied().min() else { return self.shift };
        let middle = keys.len() / 2;
        let (_, &mut median, _) = keys.select_nth_unstable(middle);
        let width = (median - least) / (buckets as i64 / 4);
        match width {
            0 => self.shift,
            _ => width.ilog2(),
        }
    }

    /// All items with their keys; equal keys in their order of insertion.
    fn items(&self, links: &[Link]) -> Vec<(i64, u32)> {
        let mut items = Vec::with_capacity(self.near + self.far.len());
        for bucket in &self.buckets {
            let mut item = bucket.head;
            while item != NONE {
                items.push((links[item as usize].key, item));
                item = links[item as usize].next;
            }
        }
        items.extend(self.far.iter().copied());
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert { ahead: i64 },
        RemoveFirst,
        RemoveAny { pick: usize },
        Advance { by: u32 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let ahead = prop_oneof![0..40_i64, -50..2_000_i64, 0..50_000_000_i64];
        let step = prop_oneof![
            4 => ahead.prop_map(|ahead| Step::Insert { ahead }),
            2 => Just(Step::RemoveFirst),
            1 => any::<usize>().prop_map(|pick| Step::RemoveAny { pick }),
            2 => (0..3_000_u32).prop_map(|by| Step::Advance { by }),
        ];
        prop::collection::vec(step, 1..600)
    }

    proptest! {
        /// Against a sorted list: the least key always comes first, whatever the ring covers.
        #[test]
        fn the_least_key_comes_first(steps in steps(), shift in 0..12_u32) {
            let mut wheel = Wheel::new(shift);
            let mut links = Vec::new();
            let mut model: Vec<(i64, u32)> = Vec::new();
            let mut floor = 0_i64;
            for step in steps {
                match step {
                    Step::Insert { ahead } => {
                        let item = links.len() as u32;
                        links.push(Link::UNLINKED);
                        let key = floor + ahead;
                        wheel.insert(&mut links, item, key);
                        model.push((key, item));
                    }
                    Step::RemoveFirst => {
                        if let Some(item) = wheel.first() {
                            wheel.remove(&mut links, item);
                            model.retain(|&(_, other)| other != item);
                        }
                    }
                    Step::RemoveAny { pick } if !model.is_empty() => {
                        let (_, item) = model.swap_remove(pick % model.len());
                        wheel.remove(&mut links, item);
                    }
                    Step::RemoveAny { .. } => {}
                    Step::Advance { by } => {
                        floor += i64::from(by);
                        wheel.advance(&mut links, floor);
                    }
                }
                let first = wheel.first().map(|item| links[item as usize].key());
                prop_assert_eq!(first, model.iter().map(|&(key, _)| key).min());
            }
        }
    }

    #[test]
    fn equal_keys_leave_in_the_order_they_came() {
        let mut wheel = Wheel::new(4);
        let mut links = vec![Link::UNLINKED; 1_000];
        for item in 0..1_000 {
            wheel.insert(&mut links, item, 77);
        }
        for expected in 0..1_000 {
            let item = wheel.first().unwrap();
            assert_eq!(item, expected);
            wheel.remove(&mut links, item);
        }
        assert_eq!(wheel.first(), None);
    }
}
