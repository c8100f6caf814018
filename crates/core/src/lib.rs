//! One server of a store, without its machine.
//!
//! [`Server`](server::Server) is a state machine. Its owner gives it the time of each turn ([`Server::read_clock`](server::Server::read_clock)),
//! connections that came ([`accept`](server::Server::accept)), links that have bytes or room ([`link_ready`](server::Server::link_ready)), and
//! [events](events::Event): blocking work that ended, answers of other servers, questions of the control API. Between
//! [`begin_turn`](server::Server::begin_turn) and [`end_turn`](server::Server::end_turn) the server does what is due, and says through
//! [`next_deadline`](server::Server::next_deadline) when it has to be called again.
//!
//! The server pulls: it calls everything outside of it by traits, within the step, and no such call waits.
//!
//! | trait | what stands behind it |
//! |---|---|
//! | [`Socket`](links::socket::Socket) | a connection: bytes that are there, room for bytes |
//! | [`Arena`](storage::Arena) | the memory of a `ram` target |
//! | [`TargetFolder`](storage::TargetFolder) | the folder of a `dir` target, for [work](work::Work) on the server's workers |
//! | [`Storage`](journal::Storage) | the journal, and the server's own small files |
//! | [`Home`](home::Home) | the places of a server, which are opened at its start |
//! | [`Workers`](errands::Workers) | blocking work, whose ends come back in any order |
//! | [`Lines`](peers::line::Lines) | questions to other servers, whose answers come back in any order |
//! | [`Time`](clock::Time), [`Host`](host::Host) | clocks, random bytes, figures of the machine |
//!
//! Nothing here calls the system, looks at a clock, or starts a thread: `weir-server` is the edge that does, and `weir-world` another
//! one, in which machines, disks and networks fail by a seed.
#![forbid(unsafe_code)]
// It panics where the log cannot be written, as on a full disk: `notice!` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod accounts;
pub mod audit;
pub mod clock;
pub mod config;
pub mod control;
pub mod descriptors;
mod durability;
pub mod errands;
pub mod error;
pub mod events;
pub mod home;
pub mod host;
pub mod identity;
pub mod journal;
pub mod links;
pub mod locks;
mod membership;
#[cfg(any(test, feature = "world"))]
pub mod mutants;
pub mod namespace;
pub mod notices;
pub mod peers;
mod requests;
pub mod server;
mod starts;
pub mod storage;
mod unpublished;
pub mod work;

pub use durability::JOURNAL_SCHEMA;
