//! Which targets a new file gets, and layouts as text.

use super::errno::{EINVAL, ENOSPC};
use weir_placement::{Layout, LayoutRequest, ServerId, TargetId};
use weir_wire::{limits, Errno};

/// Bytes of one stripe where neither the directory nor the configuration says.
const STRIPE_BYTES: u32 = 1024 * 1024;

/// The targets of the cluster, as this server hands them out.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    /// Of this server.
    home: Vec<TargetId>,
    /// Of the others, a target of each server in turn.
    others: Vec<TargetId>,
}

impl Targets {
    pub(super) fn new(server: ServerId, targets: &[TargetId]) -> Targets {
        let (mut home, mut others): (Vec<_>, Vec<_>) =
            targets.iter().partition(|target| target.server == server);
        home.sort_unstable();
        others.sort_unstable_by_key(|target: &TargetId| (target.index, target.server));
        Targets { home, others }
    }

    /// The layout of the file with inode number `sequence`: its first stripe on this server, so that a small file
    /// is read and written where its size is kept; the rest on the others in turn.
    pub(super) fn layout(&self, sequence: u64, request: LayoutRequest) -> Result<Layout, Errno> {
        let all = self.home.len() + self.others.len();
        if all == 0 {
            return Err(ENOSPC);
        }
        let asked = usize::from(request.stripe_count.unwrap_or(0));
        let count = if asked == 0 { all } else { asked.min(all) }.min(limits::STRIPES);
        let home = rotated(&self.home, sequence);
        let others = rotated(&self.others, sequence.wrapping_mul(count.max(2) as u64 - 1));
        let (first, rest) = home.split_at(self.home.len().min(1));
        let targets = first.iter().chain(&others).chain(rest).copied().take(count).collect();
        Ok(Layout { stripe_bytes: request.stripe_bytes.unwrap_or(STRIPE_BYTES), targets })
    }
}

/// `targets`, beginning with number `start` modulo their count.
fn rotated(targets: &[TargetId], start: u64) -> Vec<TargetId> {
    let mut rotated = targets.to_vec();
    if !rotated.is_empty() {
        rotated.rotate_left((start % targets.len() as u64) as usize);
    }
    rotated
}

/// The text of `weir.layout` on a directory.
pub(super) fn directory_text(request: LayoutRequest) -> String {
    format!(
        "stripe_size={} stripe_count={} spread={}",
        request.stripe_bytes.unwrap_or(STRIPE_BYTES),
        request.stripe_count.unwrap_or(0),
        if request.spread == Some(true) { "yes" } else { "no" },
    )
}

/// The text of `weir.layout` on a file.
pub(super) fn file_text(layout: &Layout) -> String {
    let targets: Vec<String> = layout.targets.iter().map(TargetId::to_string).collect();
    format!(
        "stripe_size={} stripe_count={} targets={}",
        layout.stripe_bytes,
        layout.targets.len(),
        targets.join(",")
    )
}

/// Reads what `weir.layout` is set to: any of the keys of [`directory_text`].
pub(super) fn parse(text: &[u8]) -> Result<LayoutRequest, Errno> {
    let text = std::str::from_utf8(text).map_err(|_| EINVAL)?;
    let mut request = LayoutRequest::default();
    for setting in text.trim_end_matches('\0').split_ascii_whitespace() {
        let (key, value) = setting.split_once('=').ok_or(EINVAL)?;
        match key {
            "stripe_size" => request.stripe_bytes = Some(stripe_bytes(value)?),
            "stripe_count" => {
                let count: u16 = value.parse().map_err(|_| EINVAL)?;
                request.stripe_count = Some(count).filter(|&count| usize::from(count) <= limits::STRIPES);
                request.stripe_count.ok_or(EINVAL)?;
            }
            "spread" => request.spread = Some(yes_or_no(value)?),
            _ => return Err(EINVAL),
        }
    }
    Ok(request)
}

/// Whole pages, so that no page of a mapping has two stripes.
fn stripe_bytes(value: &str) -> Result<u32, Errno> {
    let bytes: u32 = value.parse().map_err(|_| EINVAL)?;
    let allowed = (limits::STRIPE_BYTES_MIN..=limits::STRIPE_BYTES_MAX).contains(&bytes)
        && bytes.is_multiple_of(limits::STRIPE_BYTES_MIN);
    if allowed {
        Ok(bytes)
    } else {
        Err(EINVAL)
    }
}

fn yes_or_no(value: &str) -> Result<bool, Errno> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn targets(servers: u16, each: u16) -> Vec<TargetId> {
        (0..servers)
            .flat_map(|server| (0..each).map(move |index| TargetId { server: ServerId(server), index }))
            .collect()
    }

    #[test]
    fn a_layout_begins_at_home_and_names_each_target_once() {
        let hand_out = Targets::new(ServerId(1), &targets(3, 2));
        for sequence in 0..20 {
            for count in 0..8 {
                let request = LayoutRequest { stripe_count: Some(count), ..LayoutRequest::default() };
                let layout = hand_out.layout(sequence, request).unwrap();
                let wanted = if count == 0 { 6 } else { usize::from(count).min(6) };
                assert_eq!(layout.targets.len(), wanted);
                assert_eq!(layout.targets[0].server, ServerId(1));
                assert_eq!(layout.targets.iter().collect::<HashSet<_>>().len(), wanted);
            }
        }
    }

    #[test]
    fn files_take_the_targets_in_turn() {
        let hand_out = Targets::new(ServerId(0), &targets(3, 2));
        for count in [1, 2, 3] {
            let request = LayoutRequest { stripe_count: Some(count), ..LayoutRequest::default() };
            let mut uses = std::collections::BTreeMap::new();
            for sequence in 0..400 {
                for target in hand_out.layout(sequence, request).unwrap().targets {
                    *uses.entry(target).or_insert(0) += 1;
                }
            }
            let home = uses.values().take(2).copied().collect::<HashSet<_>>();
            let others = uses.values().skip(2).copied().collect::<HashSet<_>>();
            assert_eq!((home.len(), others.len()), (1, usize::from(count > 1)), "{uses:?}");
        }
    }

    #[test]
    fn layouts_are_read_as_they_are_written() {
        let request = LayoutRequest { stripe_bytes: Some(65_536), stripe_count: Some(4), spread: Some(true) };
        assert_eq!(parse(directory_text(request).as_bytes()), Ok(request));
        assert_eq!(parse(b"spread=no"), Ok(LayoutRequest { spread: Some(false), ..Default::default() }));
        for wrong in
            ["stripe_size=1", "stripe_size=4097", "stripe_count=257", "spread=maybe", "stripes=2", "x"]
        {
            assert_eq!(parse(wrong.as_bytes()), Err(EINVAL), "{wrong}");
        }
    }
}
