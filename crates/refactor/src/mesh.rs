//! The order in which values on the nodes of a mesh are coded: near in space is near in the array.
//!
//! With coordinates the nodes become a grid of as many axes: cut along the last coordinate into layers of as many nodes
//! each, those along the one before into rows, and each row is sorted along the first. So a transform of that many axes
//! finds neighbours in all directions, which a curve through the nodes would not give it. Without coordinates the nodes
//! are numbered by the connectivity (Cuthill and McKee 1969), breadth first from an end of the mesh.

use std::collections::VecDeque;

/// An order of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOrder {
    /// The node that stands at each place.
    pub nodes: Vec<u64>,
    /// The array that the places fill; its last places are filled again with the last node.
    pub shape: Vec<usize>,
}

/// The order by coordinates: `axes` numbers a node, 1 to 3.
pub fn order_by_coordinates(coordinates: &[f64], axes: usize) -> NodeOrder {
    let axes = axes.clamp(1, 3);
    let count = coordinates.len() / axes;
    let mut nodes: Vec<u64> = (0..count as u64).collect();
    let edge = (count as f64).powf(1.0 / axes as f64).round().max(1.0) as usize;
    let mut shape = vec![edge; axes];
    let inner: usize = shape[1..].iter().product();
    shape[0] = count.div_ceil(inner);
    sort_boxes(&mut nodes, &shape, coordinates, axes);
    NodeOrder { nodes, shape }
}

/// Sort along the axis that the first length of the shape stands for, then each slice along the others.
fn sort_boxes(nodes: &mut [u64], shape: &[usize], coordinates: &[f64], axes: usize) {
    let axis = shape.len() - 1;
    let along = |node: &u64| coordinates[*node as usize * axes + axis];
    nodes.sort_unstable_by(|one, other| along(one).total_cmp(&along(other)).then(one.cmp(other)));
    let slice: usize = shape[1..].iter().product();
    if axis > 0 {
        nodes.chunks_mut(slice.max(1)).for_each(|part| sort_boxes(part, &shape[1..], coordinates, axes));
    }
}

/// The order by connectivity: `corners` nodes a cell. Nodes of no cell come last; cells that name nodes beyond `count`
/// are left out.
pub fn order_by_connectivity(cells: &[u64], corners: usize, count: usize) -> NodeOrder {
    let (starts, neighbours) = adjacency(cells, corners.max(1), count);
    let near = |node: usize| &neighbours[starts[node]..starts[node + 1]];
    let mut by_degree: Vec<usize> = (0..count).collect();
    by_degree.sort_by_key(|node| (near(*node).is_empty(), near(*node).len()));
    let mut nodes = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    let mut queue = VecDeque::new();
    for first in by_degree {
        if !std::mem::replace(&mut seen[first], true) {
            queue.push_back(first);
        }
        while let Some(node) = queue.pop_front() {
            nodes.push(node as u64);
            let start = queue.len();
            for next in near(node) {
                if !std::mem::replace(&mut seen[*next], true) {
                    queue.push_back(*next);
                }
            }
            queue.make_contiguous()[start..].sort_by_key(|next| (near(*next).len(), *next));
        }
    }
    NodeOrder { shape: vec![nodes.len()], nodes }
}

/// Neighbours of all nodes, one after the other, and where each one's begin.
fn adjacency(cells: &[u64], corners: usize, count: usize) -> (Vec<usize>, Vec<usize>) {
    let mut pairs = Vec::new();
    for cell in cells.chunks_exact(corners) {
        if cell.iter().any(|node| *node >= count as u64) {
            continue;
        }
        for one in cell {
            pairs.extend(
                cell.iter().filter(|other| *other != one).map(|other| (*one as usize, *other as usize)),
            );
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let starts = (0..=count).map(|node| pairs.partition_point(|(one, _)| *one < node)).collect();
    (starts, pairs.into_iter().map(|(_, other)| other).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_permutation(nodes: &[u64]) -> bool {
        let mut sorted = nodes.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..nodes.len() as u64)
    }

    proptest! {
        #[test]
        fn every_node_has_one_place(
            coordinates in proptest::collection::vec(any::<f64>(), 0..200),
            cells in proptest::collection::vec(0_u64..50, 0..120),
            axes in 1_usize..=3,
        ) {
            let order = order_by_coordinates(&coordinates, axes);
            prop_assert!(is_permutation(&order.nodes));
            prop_assert_eq!(order.nodes.len(), coordinates.len() / axes);
            let places: usize = order.shape.iter().product();
            prop_assert!(places >= order.nodes.len());
            let order = order_by_connectivity(&cells, 3, 45);
            prop_assert!(is_permutation(&order.nodes));
            prop_assert_eq!(order.nodes.len(), 45);
        }
    }

    #[test]
    fn a_shuffled_grid_is_found_again() {
        let nodes: Vec<(usize, usize)> =
            (0..400).map(|n: usize| (n * 77 % 400 / 20, n * 77 % 400 % 20)).collect();
        let coordinates: Vec<f64> =
            nodes.iter().flat_map(|(row, column)| [*column as f64, *row as f64]).collect();
        let order = order_by_coordinates(&coordinates, 2);
        assert_eq!(order.shape, [20, 20]);
        let found: Vec<(usize, usize)> = order.nodes.iter().map(|node| nodes[*node as usize]).collect();
        assert!(found.into_iter().eq((0..400).map(|n| (n / 20, n % 20))));
    }

    #[test]
    fn a_shuffled_chain_is_walked_from_an_end() {
        let place = |n: u64| n * 7 % 30;
        let cells: Vec<u64> = (0..29).flat_map(|n| [place(n), place(n + 1)]).collect();
        let order = order_by_connectivity(&cells, 2, 30);
        let walked: Vec<u64> = (0..30).map(place).collect();
        let mut back = walked.clone();
        back.reverse();
        assert!(order.nodes == walked || order.nodes == back, "{:?}", order.nodes);
    }
}
