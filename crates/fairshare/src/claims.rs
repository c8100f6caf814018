//! The claims of jobs: their paths through the share tree brought together, and the part of the time that each is owed.

use std::collections::HashMap;

use crate::branch::Branch;

/// The root of the tree, above all paths.
const ROOT: usize = 0;

/// The nodes of the share tree that have a job below them, parents before their children.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    nodes: Vec<Node>,
    /// The node of each job.
    leaves: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: usize,
    weight: f64,
    children_weight: f64,
}

impl Claims {
    /// The claims of distinct jobs, by their paths, outermost branch first.
    pub(crate) fn of(paths: impl Iterator<Item = Vec<Branch>>) -> Claims {
        let root = Node { parent: ROOT, weight: 1.0, children_weight: 0.0 };
        let mut claims = Claims { nodes: vec![root], leaves: Vec::new() };
        let mut inner: HashMap<(usize, Branch), usize> = HashMap::new();
        for path in paths {
            let mut node = ROOT;
            if let Some((leaf, classes)) = path.split_last() {
                for &class in classes {
                    let child = inner.entry((node, class)).or_insert_with(|| claims.add(node, class.weight));
                    node = *child;
                }
                node = claims.add(node, leaf.weight);
            }
            claims.leaves.push(node);
        }
        claims
    }

    fn add(&mut self, parent: usize, weight: u32) -> usize {
        let weight = f64::from(weight);
        self.nodes[parent].children_weight += weight;
        self.nodes.push(Node { parent, weight, children_weight: 0.0 });
        self.nodes.len() - 1
    }

    /// The fraction of the time that each job is owed while exactly these want more than theirs: the product of its
    /// branches' shares of their nodes. In the order of the paths.
    pub(crate) fn owed(&self) -> Vec<f64> {
        let mut owed = vec![1.0; self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate().skip(1) {
            owed[number] = owed[node.parent] * (node.weight / self.nodes[node.parent].children_weight);
        }
        self.leaves.iter().map(|&leaf| owed[leaf]).collect()
    }

    /// The same where the tree has `whole` of the time to divide, and no job may have more than its part of `most`: the
    /// others divide by weight what it leaves.
    pub(crate) fn owed_within(&self, whole: f64, most: &[f64]) -> Vec<f64> {
        let mut caps = vec![0.0; self.nodes.len()];
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (&leaf, &most) in self.leaves.iter().zip(most) {
            caps[leaf] = most;
        }
        for (number, node) in self.nodes.iter().enumerate().skip(1).rev() {
            caps[node.parent] += caps[number];
            children[node.parent].push(number);
        }
        let mut owed = vec![whole.min(caps[ROOT]); self.nodes.len()];
        for (number, mut below) in children.into_iter().enumerate() {
            // Those that are capped first leave the most to the others.
            if below.iter().any(|&child| caps[child].is_finite()) {
                let turn = |&child: &usize| caps[child] / self.nodes[child].weight;
                below.sort_by(|left, right| turn(left).total_cmp(&turn(right)));
            }
            let (mut left, mut weight) = (owed[number], self.nodes[number].children_weight);
            for child in below {
                owed[child] = (left * self.nodes[child].weight / weight).min(caps[child]);
                left -= owed[child];
                weight -= self.nodes[child].weight;
            }
        }
        self.leaves.iter().map(|&leaf| owed[leaf]).collect()
    }

    /// One more than the greatest number of a node.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes from a job's leaf up to below the root.
    pub(crate) fn upwards(&self, job: usize) -> impl Iterator<Item = usize> + '_ {
        let above = |&node: &usize| Some(self.nodes[node].parent).filter(|&parent| parent != ROOT);
        std::iter::successors(Some(self.leaves[job]), above)
    }
}
