use super::*;
use std::collections::BTreeMap;

/// A `lov_user_md` in the documented form, with numbers of our own.
fn plain(magic: u32, pattern: u32, stripe: u32, targets: &[u32]) -> Vec<u8> {
    let mut made = [magic.to_ne_bytes(), pattern.to_ne_bytes()].concat();
    made.extend([7; 16]);
    made.extend(stripe.to_ne_bytes());
    made.extend((targets.len() as u16).to_ne_bytes());
    made.extend(1_u16.to_ne_bytes());
    if magic == MAGIC_V3 {
        made.extend(*b"flash\0\0\0\0\0\0\0\0\0\0\0");
    }
    for target in targets {
        made.extend([9; AT_TARGET]);
        made.extend(target.to_ne_bytes());
    }
    made
}

/// A `lov_comp_md_v1` of components: flags, extent and own attribute.
fn composite(parts: &[(u32, u64, u64, Vec<u8>)]) -> Vec<u8> {
    let mut made = MAGIC_COMPOSITE.to_ne_bytes().to_vec();
    made.resize(14, 0);
    made.extend((parts.len() as u16).to_ne_bytes());
    made.resize(COMPOSITE_BYTES, 0);
    let mut offset = COMPOSITE_BYTES + parts.len() * ENTRY_BYTES;
    for (number, (flags, begin, end, own)) in parts.iter().enumerate() {
        let start = made.len();
        made.extend((number as u32 + 1).to_ne_bytes());
        made.extend(flags.to_ne_bytes());
        made.extend(begin.to_ne_bytes());
        made.extend(end.to_ne_bytes());
        made.extend((offset as u32).to_ne_bytes());
        made.extend((own.len() as u32).to_ne_bytes());
        made.resize(start + ENTRY_BYTES, 0);
        offset += own.len();
    }
    parts.iter().for_each(|part| made.extend(&part.3));
    made
}

fn divided(layout: &Layout, start: u64, bytes: u64) -> BTreeMap<Device, u64> {
    let mut found = BTreeMap::new();
    layout.divide(start, bytes, |device, part| *found.entry(device).or_default() += part);
    found
}

#[test]
fn a_striped_file_has_its_targets_in_order() {
    for magic in [MAGIC_V1, MAGIC_V3] {
        let layout = decode(&plain(magic, 1, 100, &[5, 2, 9])).expect("a layout");
        assert_eq!(layout.only(), None);
        let target = |number| Device::target(0, number);
        assert_eq!(divided(&layout, 50, 100), BTreeMap::from([(target(5), 50), (target(2), 50)]));
        assert_eq!(
            divided(&layout, 250, 1000),
            BTreeMap::from([(target(5), 350), (target(2), 300), (target(9), 350)])
        );
        assert_eq!(decode(&plain(magic, 1, 100, &[7])).expect("a layout").only(), Some(target(7)));
    }
}

#[test]
fn components_follow_each_other_and_mirrors_do_not_count_twice() {
    let one = |target| plain(MAGIC_V1, 1, 64, &[target]);
    let value = composite(&[
        (INITIALISED, 0, 128, plain(MAGIC_V1, ON_METADATA, 64, &[])),
        (INITIALISED, 128, 256, one(3)),
        (0, 256, u64::MAX, plain(MAGIC_V3, 1, 64, &[1, 2])),
        (INITIALISED, 0, u64::MAX, one(8)),
    ]);
    let layout = decode(&value).expect("a layout");
    assert_eq!(
        divided(&layout, 100, 100),
        BTreeMap::from([(Device::metadata(0), 28), (Device::target(0, 3), 72)])
    );
    // Lustre has not chosen the targets of the last component.
    assert!(!layout.divide(200, 100, |_, _| ()));
    assert_eq!(divided(&layout, 200, 100), BTreeMap::from([(Device::target(0, 3), 56), (ALONE, 44)]));
    assert!(layout.divide(0, 256, |_, _| ()));
}

#[test]
fn bytes_are_divided_as_a_walk_over_each_byte_divides_them() {
    let layout = decode(&composite(&[
        (INITIALISED, 0, 40, plain(MAGIC_V1, 1, 8, &[4])),
        (INITIALISED, 40, 200, plain(MAGIC_V1, 1, 16, &[0, 1, 2])),
        (INITIALISED, 200, u64::MAX, plain(MAGIC_V3, 1, 5, &[6, 4, 2, 0])),
    ]))
    .expect("a layout");
    for start in (0..260).step_by(7) {
        for bytes in [1, 3, 16, 50, 131] {
            let mut expected: BTreeMap<Device, u64> = BTreeMap::new();
            for byte in start..start + bytes {
                let target = match byte {
                    0..40 => 4,
                    40..200 => [0, 1, 2][(byte / 16 % 3) as usize],
                    _ => [6, 4, 2, 0][(byte / 5 % 4) as usize],
                };
                *expected.entry(Device::target(0, target)).or_default() += 1;
            }
            assert_eq!(divided(&layout, start, bytes), expected, "{bytes} bytes from {start}");
        }
    }
    assert_eq!(divided(&Layout::alone(), 10, 0), BTreeMap::from([(ALONE, 0)]));
}

#[test]
fn an_attribute_that_is_cut_or_changed_never_harms() {
    let value = composite(&[
        (INITIALISED, 0, 40, plain(MAGIC_V1, 1, 8, &[4, 5])),
        (INITIALISED, 40, u64::MAX, plain(MAGIC_V3, 1, 5, &[6, 4])),
    ]);
    for length in 0..value.len() {
        if let Some(layout) = decode(&value[..length]) {
            divided(&layout, 0, u64::MAX);
        }
    }
    for place in 0..value.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = value.clone();
            changed[place] = byte;
            if let Some(layout) = decode(&changed) {
                divided(&layout, u64::MAX - 5, 100);
                divided(&layout, 3, 1000);
            }
        }
    }
}
