//! Supports of tests: real servers and mounts in fresh directories, a plain client, loads, and seeded choices.
//!
//! Crates name this one under `[dev-dependencies]` alone. It depends on the messages and layouts, never on a crate
//! whose tests use it, so a unit test may use it too. Supports panic: a broken support is a failed test.

#![forbid(unsafe_code)]

mod choices;
mod cluster;
mod configuration;
mod connection;
mod control;
mod credentials;
pub mod flood;
mod jobs;
mod line;
mod mount;
mod processes;
pub mod programs;
mod stop;

pub use choices::{seed, Choices};
pub use cluster::Cluster;
pub use configuration::{dir, ram, server_toml, servers};
pub use connection::{frame, head, Connection, Transport};
pub use control::{get, get_as, put, Answer, Caller};
pub use credentials::{administrator, claims, key, unix_seconds, write_private, NOBODY};
pub use jobs::job;
pub use line::{assert_held, random_client, File, Line, READ_WRITE};
pub use mount::{can_mount, Mount};
pub use processes::{as_nobody, checked, output, python, shell, shell_by, wait_until, PATIENCE};
pub use stop::Stop;
