//! LightGBM's trees, decoded from its text form.
//!
//! The text may be harmed: a tree is taken only if each child comes after its parent and each number has its place, so a walk
//! ends within the number of nodes.

use crate::checks::{is_number, ModelError};
use crate::logistic::softmax;
use std::collections::HashMap;

/// Most trees of a forest, and leaves of a tree; LightGBM's own limit of leaves is 131,072.
const TREES_MAX: usize = 100_000;
const LEAVES_MAX: usize = 1 << 17;
/// Bits of a decision's type (`include/LightGBM/tree.h`).
const IS_CATEGORICAL: u8 = 1;
const DEFAULTS_LEFT: u8 = 2;
const MISSING_SHIFT: u8 = 2;
/// Values as small as this are zero to LightGBM.
const ZERO: f64 = 1e-35;

/// The trees of all classes: that of each class in turn, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    classes: usize,
    trees: Vec<Tree>,
}

#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<Node>,
    leaves: Vec<f64>,
    /// The mean value of the training below each node.
    means: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    feature: u32,
    missing: Missing,
    defaults_left: bool,
    threshold: f64,
    left: Child,
    right: Child,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    None,
    Zero,
    NotANumber,
}

#[derive(Clone, Copy, Debug)]
enum Child {
    Node(u32),
    Leaf(u32),
}

impl Trees {
    /// Decodes a forest of `classes` classes on `features` features.
    pub(crate) fn decode(text: &str, classes: usize, features: usize) -> Result<Trees, ModelError> {
        let mut sections = text.split("\nTree=");
        let head = fields(sections.next().unwrap_or_default());
        if !text.starts_with("tree\n") || head.get("version") != Some(&"v4") {
            return Err(harmed("its trees are not in LightGBM's text form of version 4"));
        }
        let number = |name: &str| head.get(name).and_then(|text| text.parse::<usize>().ok());
        let is_multiclass =
            head.get("objective").is_some_and(|text| text.split(' ').next() == Some("multiclass"));
        if !is_multiclass
            || number("num_class") != Some(classes)
            || number("num_tree_per_iteration") != Some(classes)
            || number("max_feature_idx").is_none_or(|last| last >= features)
            || text.lines().take(32).any(|line| line == "average_output")
        {
            return Err(harmed("its trees are not for its classes and features"));
        }
        let mut trees = Vec::new();
        for (place, section) in sections.enumerate() {
            if trees.len() >= TREES_MAX {
                return Err(harmed("it has too many trees"));
            }
            let (section, is_last) = match section.split_once("\nend of trees") {
                Some((section, _)) => (section, true),
                None => (section, false),
            };
            let tree = Tree::decode(section, features);
            trees.push(tree.ok_or_else(|| harmed(&format!("its tree {place} is harmed")))?);
            if is_last {
                return match trees.len().is_multiple_of(classes) {
                    true => Ok(Trees { classes, trees }),
                    false => Err(harmed("it has not as many trees for each class")),
                };
            }
        }
        Err(harmed("its trees have no end"))
    }

    /// The probabilities of the classes.
    pub(crate) fn probabilities(&self, features: &[f64]) -> Vec<f64> {
        let mut scores = vec![0.0; self.classes];
        for (place, tree) in self.trees.iter().enumerate() {
            scores[place % self.classes] += tree.value(features);
        }
        softmax(&scores)
    }

    /// How much each feature speaks for a class: the steps of the mean value along the way through each tree.
    pub(crate) fn parts(&self, features: &[f64], class: usize) -> Vec<f64> {
        let mut parts = vec![0.0; features.len()];
        for tree in self.trees.iter().skip(class).step_by(self.classes) {
            tree.add_parts(features, &mut parts);
        }
        parts
    }
}

impl Tree {
    fn decode(section: &str, features: usize) -> Option<Tree> {
        let fields = fields(section);
        let leaves: usize = fields.get("num_leaves")?.parse().ok()?;
        let is_plain =
            fields.get("num_cat") == Some(&"0") && fields.get("is_linear").is_none_or(|text| *text == "0");
        if leaves == 0 || leaves > LEAVES_MAX || !is_plain {
            return None;
        }
        let values: Vec<f64> = numbers(fields.get("leaf_value")?, leaves)?;
        if !values.iter().all(|value| is_number(*value)) {
            return None;
        }
        if leaves == 1 {
            return Some(Tree { nodes: Vec::new(), leaves: values, means: Vec::new() });
        }
        let inner = leaves - 1;
        let column = |name: &str| numbers::<i64>(fields.get(name)?, inner);
        let (split, kinds) = (column("split_feature")?, column("decision_type")?);
        let (left, right) = (column("left_child")?, column("right_child")?);
        let thresholds: Vec<f64> = numbers(fields.get("threshold")?, inner)?;
        let counts: Vec<f64> = numbers(fields.get("leaf_count")?, leaves)?;
        let child = |parent: usize, child: i64| match usize::try_from(child) {
            Ok(node) => (node > parent && node < inner).then_some(Child::Node(node as u32)),
            Err(_) => {
                let leaf = usize::try_from(-(child + 1)).ok()?;
                (leaf < leaves).then_some(Child::Leaf(leaf as u32))
            }
        };
        let node = |place: usize| {
            let kind = u8::try_from(kinds[place]).ok()?;
            let missing = match kind >> MISSING_SHIFT {
                0 => Missing::None,
                1 => Missing::Zero,
                2 => Missing::NotANumber,
                _ => return None,
            };
            let feature = usize::try_from(split[place]).ok().filter(|&feature| feature < features)?;
            let is_taken = kind & IS_CATEGORICAL == 0 && !thresholds[place].is_nan();
            is_taken.then_some(Node {
                feature: feature as u32,
                missing,
                defaults_left: kind & DEFAULTS_LEFT != 0,
                threshold: thresholds[place],
                left: child(place, left[place])?,
                right: child(place, right[place])?,
            })
        };
        let nodes: Vec<Node> = (0..inner).map(node).collect::<Option<_>>()?;
        let means = means(&nodes, &values, &counts)?;
        Some(Tree { nodes, leaves: values, means })
    }

    fn value(&self, features: &[f64]) -> f64 {
        let Some(mut node) = self.nodes.first() else { return self.leaves[0] };
        loop {
            match node.next(features) {
                Child::Node(next) => node = &self.nodes[next as usize],
                Child::Leaf(leaf) => return self.leaves[leaf as usize],
            }
        }
    }

    fn add_parts(&self, features: &[f64], parts: &mut [f64]) {
        let mut place = 0;
        while let Some(node) = self.nodes.get(place) {
            let (mean, next) = match node.next(features) {
                Child::Node(next) => (self.means[next as usize], next as usize),
                Child::Leaf(leaf) => (self.leaves[leaf as usize], usize::MAX),
            };
            parts[node.feature as usize] += mean - self.means[place];
            place = next;
        }
    }
}

impl Node {
    fn next(&self, features: &[f64]) -> Child {
        let mut value = features[self.feature as usize];
        if value.is_nan() && self.missing != Missing::NotANumber {
            value = 0.0;
        }
        let is_missing = match self.missing {
            Missing::None => false,
            Missing::Zero => value.abs() <= ZERO,
            Missing::NotANumber => value.is_nan(),
        };
        match if is_missing { self.defaults_left } else { value <= self.threshold } {
            true => self.left,
            false => self.right,
        }
    }
}

/// The mean value below each node, weighted by the windows of the training. Children come after their parents, so the last
/// node is first.
fn means(nodes: &[Node], leaves: &[f64], counts: &[f64]) -> Option<Vec<f64>> {
    let mut sums = vec![(0.0, 0.0); nodes.len()];
    for (place, node) in nodes.iter().enumerate().rev() {
        let of = |child: Child, sums: &[(f64, f64)]| match child {
            Child::Node(node) => sums[node as usize],
            Child::Leaf(leaf) => (leaves[leaf as usize] * counts[leaf as usize], counts[leaf as usize]),
        };
        let (left, right) = (of(node.left, &sums), of(node.right, &sums));
        sums[place] = (left.0 + right.0, left.1 + right.1);
    }
    let means: Vec<f64> = sums.iter().map(|(sum, count)| sum / count).collect();
    means.iter().all(|mean| mean.is_finite()).then_some(means)
}

/// The lines `name=value` of a section.
fn fields(section: &str) -> HashMap<&str, &str> {
    section.lines().filter_map(|line| line.split_once('=')).collect()
}

/// As many numbers as are wanted, with spaces between.
fn numbers<T: std::str::FromStr>(text: &str, wanted: usize) -> Option<Vec<T>> {
    let numbers: Option<Vec<T>> =
        text.split_ascii_whitespace().take(wanted + 1).map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == wanted)
}

fn harmed(what: &str) -> ModelError {
    ModelError::Harmed(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "tree\nversion=v4\nnum_class=2\nnum_tree_per_iteration=2\nlabel_index=0\nmax_feature_idx=1\n\
        objective=multiclass num_class:2\nfeature_names=a b\ntree_sizes=1 1\n\n\
        Tree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\nthreshold=0.5 2\ndecision_type=2 10\nleft_child=1 -1\n\
        right_child=-3 -2\nleaf_value=1 2 4\nleaf_count=1 1 2\nis_linear=0\nshrinkage=1\n\n\n\
        Tree=1\nnum_leaves=1\nnum_cat=0\nleaf_value=0.5\nis_linear=0\nshrinkage=1\n\n\nend of trees\n\nparameters:\n";

    #[test]
    fn a_walk_ends_at_the_leaf_of_its_values() {
        let trees = Trees::decode(TEXT, 2, 2).unwrap();
        let tree = &trees.trees[0];
        assert_eq!(tree.value(&[0.5, 2.0]), 1.0);
        assert_eq!(tree.value(&[0.5, 2.1]), 2.0);
        assert_eq!(tree.value(&[0.6, 0.0]), 4.0);
        assert_eq!(
            tree.value(&[f64::NAN, f64::NAN]),
            1.0,
            "missing is 0 in the first decision, and left in the second"
        );
        assert_eq!(trees.trees[1].value(&[0.0, 0.0]), 0.5);
        let probabilities = trees.probabilities(&[0.6, 0.0]);
        assert!((probabilities[0] - 1.0 / (1.0 + (-3.5_f64).exp())).abs() < 1e-15);
    }

    #[test]
    fn the_parts_of_features_sum_to_the_way_from_the_mean_to_the_leaf() {
        let trees = Trees::decode(TEXT, 2, 2).unwrap();
        let mean = (1.0 + 2.0 + 2.0 * 4.0) / 4.0;
        let parts = trees.parts(&[0.5, 2.1], 0);
        assert!((parts.iter().sum::<f64>() - (2.0 - mean)).abs() < 1e-12);
        assert_eq!(parts[1], 0.5);
        assert_eq!(trees.parts(&[0.5, 2.1], 1), [0.0, 0.0]);
    }

    #[test]
    fn a_tree_that_would_not_end_is_refused() {
        for (before, after) in [
            ("left_child=1 -1", "left_child=0 -1"),
            ("left_child=1 -1", "left_child=2 -1"),
            ("left_child=1 -1", "left_child=1 -4"),
            ("left_child=1 -1", "left_child=1 -9223372036854775808"),
            ("split_feature=0 1", "split_feature=0 2"),
            ("num_leaves=3", "num_leaves=4"),
            ("num_leaves=3", "num_leaves=99999999999"),
            ("decision_type=2 10", "decision_type=2 3"),
            ("num_class=2", "num_class=3"),
            ("end of trees", "end"),
            ("leaf_value=1 2 4", "leaf_value=1 2 inf"),
            ("leaf_count=1 1 2", "leaf_count=0 0 0"),
            ("version=v4", "version=v3"),
        ] {
            let text = TEXT.replacen(before, after, 1);
            assert!(Trees::decode(&text, 2, 2).is_err(), "{after}");
        }
    }

    proptest! {
        /// A harmed text is refused, or its trees answer probabilities; nothing else happens.
        #[test]
        fn any_harm_to_the_text_leaves_trees_that_answer(
            harms in proptest::collection::vec((0..TEXT.len(), any::<u8>()), 1..4),
            values in (any::<f64>(), any::<f64>()),
        ) {
            let mut bytes = TEXT.as_bytes().to_vec();
            for (place, byte) in harms {
                bytes[place] = if byte & 1 == 0 { b"0123456789-=. \ne"[usize::from(byte >> 1) % 16] } else { byte };
            }
            if let Ok(trees) = Trees::decode(&String::from_utf8_lossy(&bytes), 2, 2) {
                let answer = trees.probabilities(&[values.0, values.1]);
                prop_assert_eq!(answer.len(), 2);
                prop_assert!((answer.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert_eq!(trees.parts(&[values.0, values.1], 1).len(), 2);
            }
        }

        /// Any text at all.
        #[test]
        fn no_text_makes_the_decoder_panic(text in "\\PC{0,400}", cut in 0..TEXT.len()) {
            let _ = Trees::decode(&text, 2, 2);
            let _ = Trees::decode(&format!("{}{text}", &TEXT[..cut]), 2, 2);
        }
    }
}
