//! Quotas alone, against sums that are counted anew.

use super::{Charge, KeptMemory, Quotas, Usage, EDQUOT, ENOSPC};
use crate::namespace::tests::runner;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_wire::{QuotaLimits, QuotaOwner, QuotaTable, QuotaUse};

/// An inode, its new charge (owner and bytes; none where it goes), and the bytes that its owner asks for then.
type Step = (u8, Option<(u32, u64)>, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u8..4, prop::option::of((1u32..4, 0u64..5)), 0u64..5), 1..40)
}

#[test]
fn nobody_passes_a_limit_and_the_sums_are_those_of_the_charges() {
    runner(256, 39)
        .run(&steps(), |steps| {
            let (mut usage, mut quotas) = (Usage::default(), Quotas::default());
            let mut table = QuotaTable::default();
            let most = QuotaLimits { bytes: Some(8), inodes: Some(2) };
            table.decide(QuotaOwner::User(1), Some(most), 1, 0).unwrap();
            quotas.set(&table);
            let mut inodes: BTreeMap<u8, Charge> = BTreeMap::new();
            for (inode, charge, growth) in steps {
                let charge = charge.map(|(uid, bytes)| Charge { uid, gid: 9, bytes, kept_bytes: 10 * bytes });
                let before = match charge {
                    Some(charge) => inodes.insert(inode, charge),
                    None => inodes.remove(&inode),
                };
                usage.adjust(before, charge);
                for uid in 1..4 {
                    let own = || inodes.values().filter(|charge| charge.uid == uid);
                    let here =
                        QuotaUse { bytes: own().map(|one| one.bytes).sum(), inodes: own().count() as u64 };
                    prop_assert_eq!(quotas.line(&usage, QuotaOwner::User(uid)).here, here);
                    prop_assert_eq!(usage.kept_by(uid), own().map(|one| one.kept_bytes).sum::<u64>());
                    let more = QuotaUse { bytes: growth, inodes: 0 };
                    let fits = uid != 1 || growth == 0 || here.bytes + growth <= 8;
                    prop_assert_eq!(quotas.admit(&usage, uid, [QuotaOwner::User(uid)], more).is_ok(), fits);
                    prop_assert!(quotas.admit(&usage, super::ROOT, [QuotaOwner::User(uid)], more).is_ok());
                }
                let all = inodes.values().map(|charge| charge.kept_bytes).sum::<u64>();
                prop_assert_eq!(usage.kept_bytes(), all);
            }
            Ok(())
        })
        .unwrap();
}

/// Another server admitted bytes by a sum that was a little old, so with them the user is beyond its limit: its files are not.
#[test]
fn bytes_that_are_charged_already_are_published_within_the_limit_alone() {
    let (mut usage, mut quotas) = (Usage::default(), Quotas::default());
    let mut table = QuotaTable::default();
    table.decide(QuotaOwner::User(1), Some(QuotaLimits { bytes: Some(10), inodes: None }), 1, 0).unwrap();
    quotas.set(&table);
    usage.adjust(None, Some(Charge { uid: 1, gid: 1, bytes: 8, kept_bytes: 0 }));
    let published = |bytes| quotas.admit_published(&usage, 1, [QuotaOwner::User(1)], bytes);
    assert_eq!((published(0), published(2), published(3)), (Ok(()), Ok(()), Err(EDQUOT)));
    assert_eq!(quotas.admit_published(&usage, super::ROOT, [QuotaOwner::User(1)], 3), Ok(()));
}

#[test]
fn one_user_has_half_of_the_memory_and_root_all() {
    let kept = |bytes| KeptMemory { bytes, bytes_max: 100 };
    assert_eq!(kept(0).admit(1, 0, 50), Ok(()));
    assert_eq!(kept(0).admit(1, 0, 51), Err(EDQUOT));
    assert_eq!(kept(50).admit(1, 50, 1), Err(EDQUOT));
    assert_eq!(kept(50).admit(2, 0, 25), Ok(()), "another user finds room");
    assert_eq!(kept(50).admit(super::ROOT, 0, 50), Ok(()));
    assert_eq!(kept(50).admit(super::ROOT, 0, 51), Err(ENOSPC));
}
