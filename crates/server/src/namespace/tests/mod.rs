//! Tests of the namespace as a whole: against the kernel, over restarts, over several servers.

mod cluster;
mod kept;
mod kernel;
mod model;
mod peers;
mod quotas;
mod restarts;
mod semantics;
mod tree;
mod versions;
