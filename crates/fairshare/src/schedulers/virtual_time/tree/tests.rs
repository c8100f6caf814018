//! The share tree against a recursive model that scans every child, and against the fluid ideal.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const CREDIT_MAX: Nanos = Nanos(2_000_000);

/// A node of the model: the same rules as the tree's, found by looking at all children.
#[derive(Clone, Debug)]
struct Model {
    children: Vec<Model>,
    weight: i64,
    start: i64,
    virtual_time: i64,
    before: i64,
    queue: VecDeque<i64>,
    active: bool,
    ready: bool,
    /// Device time served below it, in nanoseconds.
    served: i64,
}

impl Model {
    fn is_active(&self) -> bool {
        self.active || self.children.iter().any(Model::is_active)
    }

    /// Children that had no more than their due; where all had more, the one whose turn comes next.
    fn eligible(&self) -> impl Iterator<Item = &Model> {
        let ready = self.children.iter().filter(|child| child.ready);
        let least = ready.clone().map(|child| child.start).min().unwrap_or(i64::MIN);
        let until = self.virtual_time.max(least);
        ready.filter(move |child| child.start <= until)
    }

    fn finish(&self) -> Option<i64> {
        Some(self.start + self.over_weight(self.first_cost()?))
    }

    fn over_weight(&self, nanoseconds: i64) -> i64 {
        virtual_time(nanoseconds, inverse(self.weight as u64))
    }

    fn first_cost(&self) -> Option<i64> {
        if self.children.is_empty() {
            return self.queue.front().copied();
        }
        self.eligible().min_by_key(|child| child.finish())?.first_cost()
    }

    fn leaf(&mut self, path: &[usize]) -> &mut Model {
        path.iter().fold(self, |node, &child| &mut node.children[child])
    }

    fn activate(&mut self, path: &[usize]) {
        let Some((&child, rest)) = path.split_first() else {
            self.active = true;
            return;
        };
        let was_active = self.children[child].is_active();
        self.children[child].activate(rest);
        if !was_active {
            self.children[child].start = self.children[child].start.max(self.virtual_time);
        }
    }

    /// Brings readiness up to date from the leaves upwards.
    fn update(&mut self) {
        let (virtual_time, before) = (self.virtual_time, self.before);
        for child in &mut self.children {
            child.update();
            let cost = child.first_cost();
            if let Some(cost) = cost.filter(|_| !child.ready) {
                let credit = child.over_weight(nanoseconds(CREDIT_MAX).max(cost));
                child.start = child.start.max((virtual_time - credit).min(before));
            }
            child.ready = cost.is_some();
        }
    }

    /// Charges the leaf at `path` and all above it.
    fn charge(&mut self, path: &[usize], charge: i64) {
        self.served += charge;
        let Some((&child, rest)) = path.split_first() else { return };
        self.virtual_time = self.virtual_time.max(self.children[child].start);
        self.before = self.virtual_time;
        let active = self.children.iter().filter(|child| child.is_active());
        let weight: i64 = active.map(|child| child.weight).sum();
        self.virtual_time += virtual_time(charge, inverse(weight as u64));
        let child = &mut self.children[child];
        child.start += child.over_weight(charge);
        child.charge(rest, charge);
    }

    /// Whether at every node along `path` the child is eligible and no other finishes earlier.
    fn allows(&self, path: &[usize]) -> bool {
        let Some((&chosen, rest)) = path.split_first() else { return true };
        let chosen = &self.children[chosen];
        let earliest = self.eligible().map(Model::finish).min();
        self.eligible().any(|child| std::ptr::eq(child, chosen))
            && Some(chosen.finish()) == earliest
            && chosen.allows(rest)
    }

    /// The most any child was ever away from its share of its node's time, over all nodes, in
    /// nanoseconds. All leaves must have been backlogged throughout.
    fn share_error_max(&self) -> f64 {
        let weight: i64 = self.children.iter().map(|child| child.weight).sum();
        let errors = self.children.iter().map(|child| {
            let due = self.served as f64 * child.weight as f64 / weight as f64;
            (child.served as f64 - due).abs().max(child.share_error_max())
        });
        errors.fold(0.0, f64::max)
    }
}

/// A tree of up to `depth` levels below its root.
fn model(depth: u32) -> impl Strategy<Value = Model> {
    let weight = prop_oneof![Just(1_i64), 1..10_i64, 1..5_000_i64];
    let node = |children: Vec<Model>, weight| Model {
        children,
        weight,
        start: 0,
        virtual_time: 0,
        before: 0,
        queue: VecDeque::new(),
        active: false,
        ready: false,
        served: 0,
    };
    let leaf = weight.prop_map(move |weight| node(Vec::new(), weight));
    let child = leaf.prop_recursive(depth - 1, 40, 6, move |inner| {
        (prop::collection::vec(inner, 1..6), 1..100_i64)
            .prop_map(move |(children, weight)| node(children, weight))
    });
    prop::collection::vec(child, 1..7).prop_map(move |children| node(children, 1))
}

/// The paths of all leaves, as child numbers from the root.
fn leaf_paths(model: &Model, above: &[usize], paths: &mut Vec<Vec<usize>>) {
    if model.children.is_empty() {
        paths.push(above.to_vec());
    }
    for (number, child) in model.children.iter().enumerate() {
        leaf_paths(child, &[above, &[number]].concat(), paths);
    }
}

/// The tree's leaves for the model's, in the same order.
fn attach_all(tree: &mut ShareTree, model: &mut Model, paths: &[Vec<usize>]) -> Vec<NodeId> {
    let branches = |path: &Vec<usize>, model: &mut Model| -> Vec<Branch> {
        let branch = |length: usize| {
            let weight = model.leaf(&path[..length]).weight as u32;
            Branch { entity: Entity::Numbered(path[length - 1] as u32), weight }
        };
        (1..=path.len()).map(branch).collect()
    };
    paths.iter().map(|path| tree.attach(&branches(path, model))).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { leaf: usize, cost: i64 },
    Serve,
    Leave { leaf: usize },
}

fn cost() -> impl Strategy<Value = i64> {
    prop_oneof![1..2_000_i64, 20_000..2_000_000_i64]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (any::<usize>(), cost()).prop_map(|(leaf, cost)| Step::Arrive { leaf, cost }),
        4 => Just(Step::Serve),
        1 => any::<usize>().prop_map(|leaf| Step::Leave { leaf }),
    ];
    prop::collection::vec(step, 1..400)
}

/// The start of a child and its finish.
fn key() -> impl Strategy<Value = (i64, i64)> {
    (0..40_i64, 1..20_i64).prop_map(|(start, length)| (start, start + length))
}

proptest! {
    /// Random trees, arrivals and departures: each leaf served is one the model would serve. A
    /// failure prints the seed that repeats it.
    #[test]
    fn every_choice_is_one_the_model_allows(mut model in model(4), steps in steps()) {
        let mut paths = Vec::new();
        leaf_paths(&model, &[], &mut paths);
        let mut tree = ShareTree::new(CREDIT_MAX);
        let leaves = attach_all(&mut tree, &mut model, &paths);
        for step in steps {
            match step {
                Step::Arrive { leaf, cost } => {
                    let leaf = leaf % leaves.len();
                    let path = &paths[leaf];
                    if !model.leaf(path).active {
                        tree.activate(leaves[leaf]);
                        model.activate(path);
                    }
                    let queue = &mut model.leaf(path).queue;
                    queue.push_back(cost);
                    if queue.len() == 1 {
                        tree.offer(leaves[leaf], Some(Nanos(cost as u64)));
                    }
                }
                Step::Serve => {
                    let Some(first) = tree.first() else {
                        prop_assert!(model.first_cost().is_none());
                        continue;
                    };
                    let leaf = leaves.iter().position(|&leaf| leaf == first).unwrap();
                    let path = &paths[leaf];
                    prop_assert!(model.allows(path), "{path:?} served out of order");
                    let queue = &mut model.leaf(path).queue;
                    let cost = queue.pop_front().unwrap();
                    let next = queue.front().map(|&cost| Nanos(cost as u64));
                    model.charge(path, cost);
                    tree.serve(first, cost, next);
                }
                Step::Leave { leaf } => {
                    let leaf = leaf % leaves.len();
                    let model = model.leaf(&paths[leaf]);
                    if model.active && model.queue.is_empty() {
                        model.active = false;
                        tree.deactivate(leaves[leaf]);
                    }
                }
            }
            model.update();
        }
    }

    /// A few children, with many equal keys: the choice is the first child that looking at one after the other finds.
    #[test]
    fn the_choice_among_a_few_is_that_of_looking_at_each(
        mut keys in prop::collection::vec(key(), 1..=64),
        moves in prop::collection::vec((any::<usize>(), key(), 0..50_i64), 1..100),
    ) {
        let mut tree = ShareTree::new(CREDIT_MAX);
        let mut order = Order::new();
        let cost = Cost::of(Nanos(1)).unwrap();
        let mut leaves = Vec::new();
        for (number, &(start, finish)) in keys.iter().enumerate() {
            let leaf = tree.add_node(Some((NodeId::ROOT, Entity::Numbered(number as u32))), 1);
            let node = &mut tree.nodes[leaf.index()];
            (node.start, node.finish, node.first) = (start, finish, Some(First { cost, leaf }));
            order.put(&mut tree.nodes, &mut tree.links, leaf.item(), 0);
            leaves.push(leaf);
        }
        for (pick, moved, virtual_time) in moves {
            let place = pick % keys.len();
            keys[place] = moved;
            let node = &mut tree.nodes[leaves[place].index()];
            (node.start, node.finish) = moved;
            let until = virtual_time.max(keys.iter().map(|&(start, _)| start).min().unwrap());
            let eligible = (0..keys.len()).filter(|&place| keys[place].0 <= until);
            let expected = leaves[eligible.min_by_key(|&place| keys[place].1).unwrap()];
            let chosen = order.replace(node, virtual_time).unwrap();
            prop_assert_eq!(chosen.leaf, expected);
            let selected = order.select(&mut tree.nodes, &mut tree.links, virtual_time).unwrap();
            prop_assert_eq!(selected.leaf, expected);
        }
    }

    /// With every leaf backlogged, every child of every node stays within the largest request of
    /// its share of that node's time, at any moment.
    #[test]
    fn no_node_is_more_than_one_request_off(
        mut model in model(4),
        costs in prop::collection::vec(cost(), 1..20),
        turns in 1..2_000_usize,
    ) {
        let mut paths = Vec::new();
        leaf_paths(&model, &[], &mut paths);
        let mut tree = ShareTree::new(CREDIT_MAX);
        let leaves = attach_all(&mut tree, &mut model, &paths);
        for &leaf in &leaves {
            tree.activate(leaf);
        }
        let largest = costs.iter().copied().max().unwrap() as f64;
        let mut costs = costs.iter().copied().cycle();
        let mut offered = HashMap::new();
        for &leaf in &leaves {
            let cost = costs.next().unwrap();
            offered.insert(leaf, cost);
            tree.offer(leaf, Some(Nanos(cost as u64)));
        }
        for path in &paths {
            model.activate(path);
        }
        for _ in 0..turns {
            let first = tree.first().unwrap();
            let leaf = leaves.iter().position(|&leaf| leaf == first).unwrap();
            let next = costs.next().unwrap();
            let cost = offered.insert(first, next).unwrap();
            tree.serve(first, cost, Some(Nanos(next as u64)));
            model.charge(&paths[leaf], cost);
            let error = model.share_error_max();
            // One nanosecond for the division that gives the ideal.
            prop_assert!(error <= largest + 1.0, "{error} ns off, largest request {largest}");
        }
    }
}

#[test]
fn a_detached_branch_leaves_nothing_behind() {
    let mut tree = ShareTree::new(CREDIT_MAX);
    let branch = |number, weight| Branch { entity: Entity::Numbered(number), weight };
    let kept = tree.attach(&[branch(1, 1), branch(1, 1)]);
    let nodes = tree.nodes.len();
    for round in 0..100 {
        let leaf = tree.attach(&[branch(2, 1), branch(round, 1), branch(3, 7)]);
        tree.activate(leaf);
        tree.offer(leaf, Some(Nanos(10)));
        assert_eq!(tree.first(), Some(leaf));
        tree.offer(leaf, None);
        tree.deactivate(leaf);
        tree.detach(leaf);
    }
    assert_eq!(tree.nodes.len(), nodes + 3);
    assert_eq!(tree.arbiters.len(), 4);
    assert_eq!(tree.by_entity.len(), 2);
    assert_eq!(tree.owed([kept].into_iter())[kept.index()], 1.0);
}

#[test]
fn new_weights_hold_at_once() {
    let mut tree = ShareTree::new(CREDIT_MAX);
    let path = |number, weight| [Branch { entity: Entity::Numbered(number), weight }];
    let leaves = [tree.attach(&path(1, 1)), tree.attach(&path(2, 1))];
    for leaf in leaves {
        tree.activate(leaf);
        tree.offer(leaf, Some(Nanos(1_000)));
    }
    let mut served = [0_i32; 2];
    for turn in 0..800 {
        if turn == 400 {
            assert!((served[0] - served[1]).abs() <= 1);
            tree.attach(&path(2, 3));
            served = [0; 2];
        }
        let first = tree.first().unwrap();
        served[usize::from(first == leaves[1])] += 1;
        tree.serve(first, 1_000, Some(Nanos(1_000)));
    }
    assert!((served[1] - 300).abs() <= 1, "{served:?}");
}
