//! The rank of this process, which a launcher tells in the environment.

use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use weir_trace::{Launcher, Rank};

static RANK: AtomicU32 = AtomicU32::new(0);
static SIZE: AtomicU32 = AtomicU32::new(0);
/// The index of the launcher in [`LAUNCHERS`] that told the rank, or the length of the list.
static LAUNCHER: AtomicU8 = AtomicU8::new(LAUNCHERS.len() as u8);

/// A launcher, the variable of its ranks, and the variables of their number.
type Told = (Launcher, &'static [u8], &'static [&'static [u8]]);

/// The launchers with their variables. The first variable that is set counts.
const LAUNCHERS: [Told; 5] = [
    (Launcher::Pmi, b"PMI_RANK=", &[b"PMI_SIZE="]),
    (Launcher::OpenMpi, b"OMPI_COMM_WORLD_RANK=", &[b"OMPI_COMM_WORLD_SIZE="]),
    (Launcher::Mvapich, b"MV2_COMM_WORLD_RANK=", &[b"MV2_COMM_WORLD_SIZE="]),
    (Launcher::Pmix, b"PMIX_RANK=", &[b"OMPI_COMM_WORLD_SIZE=", b"SLURM_NTASKS=", b"SLURM_STEP_NUM_TASKS="]),
    (Launcher::Slurm, b"SLURM_PROCID=", &[b"SLURM_STEP_NUM_TASKS="]),
];

/// Takes the rank from the environment, when the library is loaded. `find` looks up a variable, whose name ends with `=`.
pub(crate) fn learn<'a>(find: impl Fn(&[u8]) -> Option<&'a [u8]>) {
    let number = |name: &[u8]| std::str::from_utf8(find(name)?).ok()?.parse::<u32>().ok();
    let told = LAUNCHERS.iter().enumerate().find_map(|(index, (launcher, name, sizes))| {
        let size = sizes.iter().find_map(|name| number(name));
        // A batch script, which is no task of `srun`, has a SLURM_PROCID, too.
        let is_task = *launcher != Launcher::Slurm || size.is_some();
        Some((index, number(name)?, size.unwrap_or(0))).filter(|_| is_task)
    });
    if let Some((index, rank, size)) = told {
        RANK.store(rank, Ordering::Relaxed);
        SIZE.store(size, Ordering::Relaxed);
        LAUNCHER.store(index as u8, Ordering::Relaxed);
    }
}

/// The process's rank, if a launcher tells one.
pub(crate) fn rank() -> Option<Rank> {
    let (launcher, _, _) = LAUNCHERS.get(usize::from(LAUNCHER.load(Ordering::Relaxed)))?;
    let (number, size) = (RANK.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    Some(Rank { number, size, launcher: *launcher })
}
