//! Questions of the control API to the server, and the snapshots that it shows.

pub mod board;
pub mod lease_terms;
pub mod question;
pub mod showing;
pub mod snapshot;
pub mod status;
pub mod table;
