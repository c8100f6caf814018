//! Scenarios that run in the models of the simulator, and what must come of them.

mod checks;
mod determinism;
mod faults;
mod flow;
mod scenarios;
