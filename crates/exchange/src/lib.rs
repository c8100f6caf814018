//! The exchange of reports between the servers of a store, without lines and clock.
//!
//! Every lambda a server tells each other server its report, and each answers with its own last one. An [`Exchange`] owns what one
//! server tells, what it heard and when. It decides when a report is due and to whom it goes, which reports of others are believed,
//! and what follows from them: the figures of targets for the placer of new files, the usual rates of other targets, and the
//! uses of all devices for the division of the server's own. [`measure`], [`report_target`] and [`placements`] look at what a
//! report tells.
//!
//! An interval of a server ends by these steps, in this order: [`Exchange::take_due`], a report of all that was looked at in
//! [`Exchange::own_mut`], [`Exchange::inform`], [`Exchange::uses`] where [`Exchange::may_divide`], and [`Exchange::tell`]. A
//! server drives them by its clock and its lines, and a simulator by virtual time.
#![forbid(unsafe_code)]

mod exchange;
mod heard;
mod report;
mod reports;

pub use exchange::Exchange;
pub use report::{measure, placements, report_target, uses_of, Report};
pub use reports::{lateness_max, silence_max, Origin};
