//! Work that was done for a job, and for all jobs of one user.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use weir_fairshare::Nanos;

/// Users with sums of their own; the work of all later ones is one sum.
const USERS_MAX: usize = 1000;

/// Requests that were served, their bytes, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) operations: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Device time charged at dispatch, as the cost model expected it.
    pub(crate) charged: Nanos,
    /// Device time that the requests took.
    pub(crate) device: Nanos,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, more: Work) {
        self.operations += more.operations;
        self.bytes_read += more.bytes_read;
        self.bytes_written += more.bytes_written;
        self.charged = self.charged + more.charged;
        self.device = self.device + more.device;
    }
}

/// A user as policies know one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) group: String,
    /// Absent for the users without sums of their own.
    pub(crate) uid: Option<u32>,
}

/// The sum of a user's work since the server started; it never falls when jobs are forgotten.
pub(crate) type Sum = Rc<Cell<Work>>;

/// The sums of all users.
#[derive(Default)]
pub(crate) struct Users(HashMap<User, Sum>);

impl Users {
    /// The sum that the work of a user's jobs is added to.
    pub(crate) fn sum(&mut self, user: User) -> Sum {
        let has_own = self.0.len() < USERS_MAX || self.0.contains_key(&user);
        let user = if has_own { user } else { User::default() };
        Rc::clone(self.0.entry(user).or_default())
    }

    /// Every user with the sum.
    pub(crate) fn all(&self) -> Vec<(User, Work)> {
        self.0.iter().map(|(user, sum)| (user.clone(), sum.get())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_users_share_one_sum_and_earlier_ones_keep_theirs() {
        let mut users = Users::default();
        let user = |uid: u32| User { name: format!("user-{uid}"), group: "group".into(), uid: Some(uid) };
        for uid in 0..3000 {
            let sum = users.sum(user(uid));
            sum.set(Work { operations: sum.get().operations + 1, ..Work::default() });
        }
        assert!(Rc::ptr_eq(&users.sum(user(2500)), &users.sum(user(2501))));
        assert!(!Rc::ptr_eq(&users.sum(user(0)), &users.sum(user(1))));
        let all = users.all();
        assert_eq!(all.len(), USERS_MAX + 1);
        assert_eq!(all.iter().map(|(_, work)| work.operations).sum::<u64>(), 3000);
    }
}
