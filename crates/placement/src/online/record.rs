//! The reason for a file's place: a small record that is made with the file and kept with it.

use crate::TargetId;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::borrow::Cow;

/// Targets named of each kind that was left out: a usual record stays under a hundred bytes, the largest under 245.
const NAMED_MAX: usize = 4;
/// Stripes whose figures are kept.
pub(crate) const STRIPES_MAX: usize = 8;
/// The bytes of `avoided` and `taken` where nothing was avoided.
const AVOIDED_BYTES: usize = 3;
/// No record takes more.
const BYTES_MAX: usize = 256;

/// The rule that chose a file's targets, and its figures at the moment at which the file was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The allocator, or `explicit`: the client named the targets.
    pub by: Cow<'static, str>,
    /// Targets that could take stripes.
    pub considered: u16,
    /// The targets that had no room.
    pub full: LeftOut,
    /// The targets whose server did not report.
    pub dead: LeftOut,
    /// The targets that were avoided for their speed.
    pub slow: LeftOut,
    /// The mean load of the targets that could take stripes, in bytes.
    pub mean_load_bytes: f32,
    /// The targets of the first stripes, the load of each before, in bytes, and its speed in percent of the usual.
    pub chosen: Vec<(TargetId, f32, u8)>,
    /// The targets that got nothing because a lease has the job's new files avoid them.
    pub avoided: LeftOut,
    /// Stripes on targets that the lease names all the same, because nothing else was left or the layout names them.
    pub taken: u16,
}

/// Targets that got nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The number of targets.
    pub count: u16,
    /// The first of them.
    pub targets: Vec<TargetId>,
}

impl LeftOut {
    /// The record of `targets`, which are `count`.
    pub fn of(targets: impl Iterator<Item = TargetId>, count: usize) -> LeftOut {
        LeftOut { count: count as u16, targets: targets.take(NAMED_MAX).collect() }
    }

    fn told(&self) -> Value {
        let targets: Vec<String> = self.targets.iter().map(TargetId::to_string).collect();
        json!({ "count": self.count, "targets": targets })
    }
}

impl Record {
    /// Adds the figures of a chosen target, while there is room for them.
    pub fn choose(&mut self, target: TargetId, load_bytes: f64, speed: f64) {
        if self.chosen.len() < STRIPES_MAX {
            let percent = (speed * 100.0).round().clamp(0.0, 255.0) as u8;
            self.chosen.push((target, load_bytes as f32, percent));
        }
    }

    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [0; BYTES_MAX];
        postcard::to_slice(self, &mut bytes).map(|bytes| bytes.to_vec()).unwrap_or_default()
    }

    /// Reads kept bytes; none where they are no record.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        if bytes.is_empty() {
            return None;
        }
        let read = |bytes: &[u8]| postcard::from_bytes(bytes).ok();
        // Records of earlier servers end before `avoided`: nothing was avoided then.
        read(bytes).or_else(|| read(&[bytes, &[0; AVOIDED_BYTES]].concat()))
    }

    /// The text of `weir.placement`: JSON.
    pub fn told(&self) -> String {
        let chosen = self.chosen.iter().map(|&(target, load_bytes, percent)| {
            json!({ "target": target.to_string(), "load_bytes": load_bytes, "speed": f64::from(percent) / 100.0 })
        });
        let chosen: Vec<Value> = chosen.collect();
        json!({
            "by": self.by,
            "considered": self.considered,
            "full": self.full.told(),
            "dead": self.dead.told(),
            "slow": self.slow.told(),
            "mean_load_bytes": self.mean_load_bytes,
            "chosen": chosen,
            "avoided": self.avoided.told(),
            "taken": self.taken,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerId;
    use proptest::prelude::*;

    fn target(number: u16) -> TargetId {
        TargetId { server: ServerId(number), index: number }
    }

    /// The largest there is: every kind names as many as it may, with the highest numbers.
    #[test]
    fn a_record_is_small_and_is_read_as_it_was_written() {
        let left_out = || LeftOut::of((0..300).map(|number| target(u16::MAX - number)), 300);
        let mut record = Record {
            by: "lustre-standard".into(),
            considered: u16::MAX,
            full: left_out(),
            dead: left_out(),
            slow: left_out(),
            mean_load_bytes: f32::MAX,
            avoided: left_out(),
            taken: u16::MAX,
            ..Record::default()
        };
        for stripe in 0..20u16 {
            record.choose(target(u16::MAX - stripe), f64::from(stripe), 3.0);
        }
        let bytes = record.encode();
        assert!(bytes.len() <= 245, "{}", bytes.len());
        assert_eq!(Record::decode(&bytes), Some(record));
    }

    #[test]
    fn a_record_of_a_server_that_knew_no_avoided_targets_is_read() {
        let mut record = Record { by: "balanced".into(), considered: 35, ..Record::default() };
        record.choose(target(7), 1e6, 1.0);
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes[..bytes.len() - AVOIDED_BYTES]), Some(record));
        assert_eq!(Record::decode(&[]), None);
    }

    #[test]
    fn a_usual_record_takes_under_a_hundred_bytes() {
        let mut record = Record { by: "balanced".into(), considered: 35, ..Record::default() };
        record.slow = LeftOut::of([target(3)].into_iter(), 1);
        (0..8).for_each(|stripe| record.choose(target(stripe), 1e9, 1.0));
        assert!(record.encode().len() < 100, "{}", record.encode().len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(record) = Record::decode(&bytes) {
                let told: Value = serde_json::from_str(&record.told()).unwrap();
                prop_assert!(told.is_object());
            }
        }
    }
}
