use super::*;
use crate::journal::MemoryStorage;
use proptest::prelude::*;

fn asked(kind: &str, uid: u32) -> Asked {
    Asked { role: "administrator".into(), uid: Some(uid), kind: kind.into(), ..Asked::default() }
}

fn opened(storage: &MemoryStorage) -> Audit {
    Audit::open(Arc::new(storage.clone()))
}

/// The storage as a power loss leaves it.
fn after_power_loss(storage: &MemoryStorage) -> MemoryStorage {
    storage.after_power_loss(storage.operations(), |_| 0)
}

fn outcomes(audit: &Audit) -> Vec<(u64, Outcome)> {
    audit.after(0).map(|entry| (entry.number, entry.outcome)).collect()
}

#[test]
fn a_change_has_an_entry_whenever_the_power_goes() {
    let storage = MemoryStorage::new();
    let mut audit = opened(&storage);
    let first = audit.begin(asked("policy", 7), 1.0).unwrap();
    assert_eq!(outcomes(&opened(&after_power_loss(&storage))), [(1, Outcome::Unknown)]);
    audit.end(first, Outcome::Done, None).unwrap();
    let storage = after_power_loss(&storage);
    let mut audit = opened(&storage);
    assert_eq!(outcomes(&audit), [(1, Outcome::Done)]);
    assert_eq!(audit.begin(asked("quota", 7), 2.0).unwrap(), 2, "numbers go on");
}

#[test]
fn a_change_that_cannot_be_noted_is_refused_and_leaves_the_file_whole() {
    let storage = MemoryStorage::new();
    let mut audit = opened(&storage);
    audit.begin(asked("policy", 7), 1.0).unwrap();
    storage.fail_sync(true);
    audit.begin(asked("policy", 8), 2.0).unwrap_err();
    storage.fail_sync(false);
    let third = audit.begin(asked("quota", 9), 3.0).unwrap();
    audit.end(third, Outcome::Done, None).unwrap();
    let again = opened(&after_power_loss(&storage));
    let users: Vec<_> = again.after(0).map(|entry| entry.asked.uid).collect();
    assert_eq!(users, [Some(7), Some(9)]);
}

#[test]
fn a_line_that_was_cut_off_and_a_damaged_one_are_left_out() {
    let storage = MemoryStorage::new();
    let mut audit = opened(&storage);
    audit.begin(asked("policy", 7), 1.0).unwrap();
    let file = storage.open(FILE).unwrap();
    let length = file.length().unwrap();
    file.write_all_at(b"{damaged}\n{\"number\":3,\"at", length).unwrap();
    let mut audit = opened(&storage);
    assert_eq!(outcomes(&audit), [(1, Outcome::Unknown)]);
    audit.begin(asked("quota", 8), 2.0).unwrap();
    assert_eq!(opened(&storage).after(0).count(), 2, "the next line begins at a line's begin");
}

#[test]
fn refusals_and_leases_push_no_change_out() {
    let storage = MemoryStorage::new();
    let mut audit = opened(&storage);
    audit.begin(asked("policy", 7), 0.0).unwrap();
    for uid in 0..2 * CLASS_ENTRIES_MAX as u32 {
        let stranger = Asked { role: "user".into(), ..asked("policy", uid) };
        audit.refuse(stranger, f64::from(uid), None).unwrap();
        audit.note(asked("lease", uid), f64::from(uid), Outcome::Done, None).unwrap();
    }
    let again = opened(&storage);
    for audit in [&audit, &again] {
        assert_eq!(audit.after(0).next().unwrap().asked.uid, Some(7));
        assert_eq!(audit.after(0).count(), 1 + 2 * CLASS_ENTRIES_MAX);
    }
    assert!(storage.open(FILE).unwrap().length().unwrap() <= FILE_BYTES_MAX);
}

#[test]
fn refusals_that_one_caller_repeats_are_one_entry_a_minute() {
    let mut audit = opened(&MemoryStorage::new());
    for second in 0..90 {
        audit.refuse(asked("policy", 7), f64::from(second), None).unwrap();
    }
    audit.refuse(asked("policy", 8), 90.0, None).unwrap();
    let times: Vec<_> = audit.after(0).map(|entry| (entry.asked.uid, entry.times)).collect();
    assert_eq!(times, [(Some(7), 60), (Some(7), 30), (Some(8), 1)]);
}

#[test]
fn the_file_stays_within_its_bound_by_the_longest_entries() {
    let storage = MemoryStorage::new();
    let mut audit = opened(&storage);
    let long = Some("\u{1f30a}".repeat(2000));
    for _ in 0..ENTRIES_MAX {
        let asked = Asked { before: long.clone(), after: long.clone(), ..asked("quota", 7) };
        audit.note(asked, 1.0, Outcome::Failed, long.clone()).unwrap();
        assert!(storage.open(FILE).unwrap().length().unwrap() <= FILE_BYTES_MAX);
    }
    let again = opened(&storage);
    assert!(again.after(0).count() > 100);
    assert_eq!(again.after(0).last(), audit.after(0).last());
}

proptest! {
    #[test]
    fn any_file_is_read_and_goes_on(
        pieces in proptest::collection::vec(
            prop_oneof![
                "[ -~\n]{0,40}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..40),
                any::<u64>().prop_map(|number| line(&Entry::new(number, 1.0, asked("quota", 8), Outcome::Done, None))),
            ],
            0..8,
        ),
    ) {
        let storage = MemoryStorage::new();
        storage.create(FILE).unwrap().write_all_at(&pieces.concat(), 0).unwrap();
        let mut audit = opened(&storage);
        let number = audit.begin(asked("policy", 7), 1.0).unwrap();
        prop_assert!(audit.after(0).eq(opened(&storage).after(0)));
        prop_assert_eq!(audit.after(0).filter(|entry| entry.number == number).count(), 1);
    }
}
