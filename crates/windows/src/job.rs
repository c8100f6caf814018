//! A job on a store: the name of its lines, and their keys.

use crate::format::{hash, key_of, word_of, Device, HEAD_WORDS, JOB_BYTES_MAX, NAME_WORDS};

/// A job on a store, as a recorder knows it.
#[derive(Clone, Debug)]
pub struct Job {
    hash: u64,
    head: [u64; HEAD_WORDS],
}

impl Job {
    pub(crate) fn new(salt: u64, store: u64, uid: u32, name: &str) -> Job {
        let mut length = name.len().min(JOB_BYTES_MAX);
        while !name.is_char_boundary(length) {
            length -= 1;
        }
        let mut head = [0; HEAD_WORDS];
        (head[0], head[1], head[2]) = (store, u64::from(uid) << 32, length as u64);
        for (word, bytes) in head[3..].iter_mut().zip(name.as_bytes()[..length].chunks(8)) {
            *word = word_of(bytes);
        }
        Job { hash: hash(salt, head.into_iter()), head }
    }

    /// The key of the job's line of a device.
    #[inline]
    pub(crate) fn key(&self, device: Device) -> u64 {
        key_of(self.hash, device)
    }

    /// The head of the job's line of a device.
    pub(crate) fn head(&self, device: Device) -> [u64; HEAD_WORDS] {
        let mut head = self.head;
        head[1] |= device.number();
        head
    }

    /// The job and the device of a head, the name of the job, and the key that the line must have.
    pub(crate) fn of_head(salt: u64, head: &[u64; HEAD_WORDS]) -> Option<(u64, u32, String, Device, u64)> {
        let (store, uid, device) =
            (head[0], (head[1] >> 32) as u32, Device::of_number(head[1] & 0xffff_ffff));
        let length = usize::try_from(head[2]).ok().filter(|length| (1..=JOB_BYTES_MAX).contains(length))?;
        let bytes: Vec<u8> = head[3..3 + NAME_WORDS].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = std::str::from_utf8(&bytes[..length]).ok()?;
        let key = key_of(Job::new(salt, store, uid, name).hash, device);
        Some((store, uid, name.to_owned(), device, key))
    }
}
