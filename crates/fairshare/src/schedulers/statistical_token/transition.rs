//! Transition matrices of a policy (ThemisIO, SC'23, section 3, equation 1 and figure 4).
//!
//! Each row of a matrix stands for an entity of one level, each column for one of the next; an entry is the
//! column's share within its row. A row sums to one, and a column has one entry that is not zero, so a column
//! is stored as that entry. The product of the chain is the share of each job in the whole.

use std::collections::HashMap;

use crate::branch::Branch;

/// One level of the chain: a sparse matrix with one entry in each column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transition {
    pub(crate) columns: Vec<Column>,
}

/// The one entry of a column that is not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) row: usize,
    pub(crate) share: f64,
}

impl Transition {
    /// The matrix product of this level and the `next`, which has a row for each column of this one.
    pub(crate) fn times(&self, next: &Transition) -> Transition {
        let through = |column: &Column| {
            let above = self.columns[column.row];
            Column { row: above.row, share: above.share * column.share }
        };
        Transition { columns: next.columns.iter().map(through).collect() }
    }
}

/// The matrices of the tree that `paths` make, outermost first; empty without paths.
///
/// Paths are distinct and equally long. The columns of the last matrix are in their order.
pub(crate) fn chain(paths: &[Vec<Branch>]) -> Vec<Transition> {
    let depth_max = paths.first().map_or(0, Vec::len);
    let mut rows: HashMap<&[Branch], usize> = paths.iter().map(|path| (&path[..0], 0)).collect();
    let mut levels = Vec::with_capacity(depth_max);
    for depth in 1..=depth_max {
        let mut known: HashMap<&[Branch], usize> = HashMap::with_capacity(paths.len());
        let mut columns = Vec::new();
        let mut row_weights = vec![0.0; rows.len()];
        for path in paths {
            let node = &path[..depth];
            if known.contains_key(node) {
                continue;
            }
            known.insert(node, columns.len());
            let weight = f64::from(node[depth - 1].weight);
            let row = rows[&path[..depth - 1]];
            row_weights[row] += weight;
            columns.push(Column { row, share: weight });
        }
        for column in &mut columns {
            column.share /= row_weights[column.row];
        }
        levels.push(Transition { columns });
        rows = known;
    }
    levels
}

/// The statistical token assignment: the share of the job at the end of each of `paths`, in their order.
pub(crate) fn assignment(paths: &[Vec<Branch>]) -> Vec<f64> {
    let product = chain(paths).into_iter().reduce(|above, below| above.times(&below));
    product.map_or_else(Vec::new, |product| product.columns.iter().map(|column| column.share).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::JobAttributes;
    use crate::sharing::Sharing;

    fn sharing(policy: &str) -> Sharing {
        Sharing::of(policy.parse().unwrap())
    }

    fn paths(policy: &str, jobs: &[JobAttributes]) -> Vec<Vec<Branch>> {
        jobs.iter().map(|job| sharing(policy).path(job, &[])).collect()
    }

    /// The matrix in full, row by row.
    fn dense(transition: &Transition) -> Vec<Vec<f64>> {
        let rows = 1 + transition.columns.iter().map(|column| column.row).max().unwrap();
        let entry = |row: usize, column: &Column| if column.row == row { column.share } else { 0.0 };
        let row = |row| transition.columns.iter().map(|column| entry(row, column)).collect();
        (0..rows).map(row).collect()
    }

    /// Figures 2(a) and 3(a): two jobs, each half.
    #[test]
    fn job_fair_gives_two_jobs_half_each() {
        let paths = paths(
            "job-fair",
            &[JobAttributes::numbered(1, 1, 1, 1, 1), JobAttributes::numbered(2, 2, 1, 1, 1)],
        );
        assert_eq!(chain(&paths).iter().map(dense).collect::<Vec<_>>(), [[[0.5, 0.5]]]);
        assert_eq!(assignment(&paths), [0.5, 0.5]);
    }

    /// Figures 2(b), 3(b) and 4: two users, one with two jobs and the other with four.
    #[test]
    fn user_then_job_fair_multiplies_the_matrices_of_figure_4() {
        let owner = |id| if id <= 2 { 1 } else { 2 };
        let jobs: Vec<JobAttributes> =
            (1..=6).map(|id| JobAttributes::numbered(id, owner(id), 1, 1, 1)).collect();
        let paths = paths("user-then-job-fair", &jobs);
        let chain = chain(&paths);
        assert_eq!(dense(&chain[0]), [[0.5, 0.5]]);
        assert_eq!(dense(&chain[1]), [[0.5, 0.5, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.25, 0.25, 0.25, 0.25]]);
        assert_eq!(chain.len(), 2);
        assert_eq!(dense(&chain[0].times(&chain[1])), [[0.25, 0.25, 0.125, 0.125, 0.125, 0.125]]);
        assert_eq!(assignment(&paths), [0.25, 0.25, 0.125, 0.125, 0.125, 0.125]);
    }

    #[test]
    fn nobody_is_assigned_nothing() {
        assert_eq!(assignment(&[]), Vec::<f64>::new());
    }

    fn jobs() -> impl Strategy<Value = Vec<JobAttributes>> {
        let attributes = (0..4_u64, 0..3_u64, 0..900_u32, 0..5_u32);
        prop::collection::vec(attributes, 1..40).prop_map(|all| {
            let numbered = all.into_iter().enumerate();
            numbered
                .map(|(id, (user, group, nodes, priority))| {
                    JobAttributes::numbered(id as u64, user, group, nodes, priority)
                })
                .collect()
        })
    }

    proptest! {
        /// Equation 1 and the share tree are two ways to say the same; each row of each matrix sums to one.
        #[test]
        fn the_product_is_what_the_policy_owes(
            jobs in jobs(),
            policy in prop::sample::select(vec![
                "job-fair", "size-fair", "group-then-user-fair", "user-then-size-fair",
                "priority-then-size-then-job-fair", "group-then-user-then-priority-then-size-fair",
            ]),
        ) {
            let paths = paths(policy, &jobs);
            for transition in chain(&paths) {
                for row in dense(&transition) {
                    prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                }
            }
            let whole: Vec<(&JobAttributes, &[f64])> = jobs.iter().map(|job| (job, &[][..])).collect();
            for (assigned, owed) in assignment(&paths).into_iter().zip(sharing(policy).owed(&whole)) {
                prop_assert!((assigned - owed).abs() < 1e-12, "{assigned} assigned, {owed} owed");
            }
        }
    }
}
