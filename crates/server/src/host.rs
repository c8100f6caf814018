//! The machine on which a server runs: random bytes, and the figures of the kernel.

use crate::namespace_memory;
use std::{fs, io};
use weir_core::accounts::machine::Reading;
use weir_core::config::ClusterConfig;
use weir_core::host::Host;
use weir_fairshare::Nanos;
use weir_placement::ServerId;

/// The machine on which this process runs.
pub(crate) struct Machine;

impl Host for Machine {
    fn draw(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let filled = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
        if filled < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn reading(&mut self, now: Nanos) -> Reading {
        reading(now)
    }

    fn namespace_bytes_max(&self, config: &ClusterConfig, server: ServerId) -> u64 {
        namespace_memory::bytes_max(config, server)
    }
}

/// The kernel's figures at a moment.
fn reading(at: Nanos) -> Reading {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let speed = |name: &str| {
        let folder = format!("/sys/class/net/{name}");
        // Bridges, bonds and pairs have none; the links of a bond move its bytes.
        fs::symlink_metadata(format!("{folder}/device")).ok()?;
        Some(text(&format!("{folder}/speed")))
    };
    Reading::of((&text("/proc/stat"), &text("/proc/meminfo"), &text("/proc/net/dev")), speed, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_its_figures() {
        let mut loads = weir_core::accounts::machine::Machine::default();
        loads.look(Nanos::ZERO, reading);
        assert!(loads.load().memory.is_some_and(|memory| (0.0..=1.0).contains(&memory)));
    }
}
