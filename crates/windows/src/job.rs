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
}

/// A job and a device, as the head of a line names them.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) store: u64,
    pub(crate) uid: u32,
    pub(crate) job: String,
    pub(crate) device: Device,
}

impl Head {
    /// The job and the device of a line with a key. Absent for an unused line, and for a head that is half written, which has
    /// another key.
    pub(crate) fn of(salt: u64, key: u64, head: &[u64; HEAD_WORDS]) -> Option<Head> {
        let (store, uid, device) =
            (head[0], (head[1] >> 32) as u32, Device::of_number(head[1] & 0xffff_ffff));
        let length = usize::try_from(head[2]).ok().filter(|length| (1..=JOB_BYTES_MAX).contains(length))?;
        let bytes: Vec<u8> = head[3..3 + NAME_WORDS].iter().flat_map(|word| word.to_le_bytes()).collect();
        let job = std::str::from_utf8(&bytes[..length]).ok()?;
        let is_whole = key != 0 && Job::new(salt, store, uid, job).key(device) == key;
        is_whole.then(|| Head { store, uid, job: job.to_owned(), device })
    }
}
