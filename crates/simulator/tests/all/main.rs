//! Scenarios that run in the models of the simulator, and what must come of them.

mod agreement;
mod beside_a_flood;
mod checks;
mod determinism;
mod differences;
mod faults;
mod flow;
mod loops;
mod observation;
mod owed;
mod own_algorithms;
mod request_faults;
mod scenarios;
mod sharing;
mod stores;
