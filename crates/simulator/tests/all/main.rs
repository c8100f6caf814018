//! Scenarios that run in the models of the simulator, and what must come of them.

mod flow;
mod scenarios;
