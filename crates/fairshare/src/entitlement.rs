//! Grants of a site to single groups, users and jobs beside the policy: a weight, a reservation, a limit.
//!
//! Fractions are of the time of each device. A reservation is the least that its holder gets while the holder has
//! requests queued. A limit is the most that its holder gets, even where the device then idles.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::job::{GroupId, JobAttributes, JobId, JobName, UserId};

/// The least and greatest weight factor: a million to one is beyond any use, and within 32 bits.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
/// The least limit and reservation, of a device's time: with less, one request could wait for hours.
const FRACTION_MIN: f64 = 0.001;

/// The grant of one group, user or job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entitlement {
    /// Factor of the weight that the policy gives; 1 changes nothing.
    pub weight: f64,
    /// The least fraction of each device's time it gets while it has requests queued.
    pub reservation: Option<f64>,
    /// The greatest fraction of each device's time it gets.
    pub limit: Option<f64>,
}

/// The holder of an entitlement. A grant for a job name holds for each job of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// All jobs of a group together.
    Group(GroupId),
    /// All jobs of a user together.
    User(UserId),
    /// Each job of a name.
    Job(JobName),
    /// One job of one user. Its entitlement counts in place of that of its name.
    Single(JobId),
}

/// A further weight and limit of one job of one user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobGrant {
    /// The job.
    pub job: JobId,
    /// Its name, which the site may have given an entitlement.
    pub name: JobName,
    /// Factor of the weight that the policy and the site give.
    pub weight: Option<f64>,
    /// Greatest fraction of each device's time.
    pub limit: Option<f64>,
}

/// An entitlement as a site writes it, a `[[share]]` of cluster.toml or of a scenario: its holder has a name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The group that is entitled.
    #[serde(default)]
    pub group: Option<String>,
    /// The user that is entitled.
    #[serde(default)]
    pub user: Option<String>,
    /// The name of the jobs that are entitled, each by itself.
    #[serde(default)]
    pub job: Option<String>,
    /// Factor of the weight that the policy gives.
    #[serde(default)]
    pub weight: Option<f64>,
    /// Least fraction of each device's time.
    #[serde(default, deserialize_with = "optional_fraction")]
    pub reservation: Option<f64>,
    /// Greatest fraction of each device's time.
    #[serde(default, deserialize_with = "optional_fraction")]
    pub limit: Option<f64>,
}

/// Every entitlement of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entitlements {
    by_holder: HashMap<Holder, Entitlement>,
}

/// An entitlement that cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EntitlementError {
    /// A weight out of range.
    #[error("weight {weight} is not from {} to {}", WEIGHTS.start(), WEIGHTS.end())]
    Weight {
        /// The given weight.
        weight: f64,
    },
    /// A reservation or limit out of range.
    #[error(
        "{what} {fraction} is not a fraction of a device's time from {FRACTION_MIN} to 1; try 0.2 or \"20%\""
    )]
    Fraction {
        /// `reservation` or `limit`.
        what: &'static str,
        /// The given fraction.
        fraction: f64,
    },
    /// A limit below the reservation of its holder.
    #[error("limit {limit} is below reservation {reservation}; raise one or lower the other")]
    LimitBelowReservation {
        /// The limit.
        limit: f64,
        /// The reservation.
        reservation: f64,
    },
    /// No holder, or several.
    #[error("it names exactly one of group, user and job; write one table for each")]
    Holder,
    /// A second entitlement for one holder.
    #[error("it was given an entitlement before; write both in one")]
    Repeated,
    /// More is reserved than there is.
    #[error(
        "with it the reservations of all {holders} come to {total}, more than the whole of a device's time; \
         lower some of them"
    )]
    AboveWhole {
        /// `groups`, `users` or `jobs`.
        holders: &'static str,
        /// The sum of the reservations.
        total: f64,
    },
}

impl Default for Entitlement {
    fn default() -> Entitlement {
        Entitlement { weight: 1.0, reservation: None, limit: None }
    }
}

impl Entitlement {
    fn check(&self) -> Result<(), EntitlementError> {
        let Entitlement { weight, reservation, limit } = *self;
        if !WEIGHTS.contains(&weight) {
            return Err(EntitlementError::Weight { weight });
        }
        for (what, fraction) in [("reservation", reservation), ("limit", limit)] {
            if let Some(fraction) = fraction.filter(|fraction| !(FRACTION_MIN..=1.0).contains(fraction)) {
                return Err(EntitlementError::Fraction { what, fraction });
            }
        }
        match (reservation, limit) {
            (Some(reservation), Some(limit)) if limit < reservation => {
                Err(EntitlementError::LimitBelowReservation { limit, reservation })
            }
            _ => Ok(()),
        }
    }
}

impl Grant {
    /// The names of its holder: of a group, a user and a job, one is there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.group, &self.user, &self.job].into_iter().filter_map(|name| name.as_deref())
    }

    /// Its holder, by the number of each name.
    ///
    /// # Errors
    /// [`EntitlementError::Holder`].
    pub fn holder(&self, number: impl Fn(&str) -> u64) -> Result<Holder, EntitlementError> {
        match [&self.group, &self.user, &self.job].map(|name| name.as_deref().map(&number)) {
            [Some(group), None, None] => Ok(Holder::Group(GroupId(group))),
            [None, Some(user), None] => Ok(Holder::User(UserId(user))),
            [None, None, Some(job)] => Ok(Holder::Job(JobName(job))),
            _ => Err(EntitlementError::Holder),
        }
    }

    fn entitlement(&self) -> Entitlement {
        let usual = Entitlement::default();
        Entitlement {
            weight: self.weight.unwrap_or(usual.weight),
            reservation: self.reservation,
            limit: self.limit,
        }
    }
}

impl Entitlements {
    /// The entitlements of all grants of a site, by the number of each name.
    ///
    /// # Errors
    /// The first fault, in a sentence with the place of its grant, the first being 0, and with the name of its holder.
    pub fn granted(grants: &[Grant], number: impl Fn(&str) -> u64) -> Result<Entitlements, String> {
        let mut entitlements = Entitlements::default();
        for (place, grant) in grants.iter().enumerate() {
            let holder = grant.holder(&number).map_err(|error| format!("share {place}: {error}"))?;
            let name = grant.names().next().unwrap_or_default();
            entitlements
                .grant(holder, grant.entitlement())
                .map_err(|error| format!("share {place}: {name}: {error}"))?;
        }
        Ok(entitlements)
    }

    /// Adds one holder's entitlement.
    ///
    /// Reservations of groups may add up to the whole, and so may those of users, and those of jobs: the same time
    /// counts for a job, its user and its group at once. A job's reservation counts once here. Where several jobs of
    /// that name run together, reservations may therefore exceed the device. Then the job that is furthest behind is
    /// served first.
    ///
    /// # Errors
    ///
    /// [`EntitlementError`]; nothing was added.
    pub fn grant(&mut self, holder: Holder, entitlement: Entitlement) -> Result<(), EntitlementError> {
        entitlement.check()?;
        if self.by_holder.contains_key(&holder) {
            return Err(EntitlementError::Repeated);
        }
        let of_kind =
            |(other, _): &(&Holder, _)| std::mem::discriminant(*other) == std::mem::discriminant(&holder);
        let others = self.by_holder.iter().filter(of_kind);
        let reserved: f64 = others.filter_map(|(_, other)| other.reservation).sum();
        let total = reserved + entitlement.reservation.unwrap_or(0.0);
        // A sum of fractions such as 0.1 misses the whole by a rounding error.
        if total > 1.0 + 1e-9 {
            return Err(EntitlementError::AboveWhole { holders: holder.kind(), total });
        }
        self.by_holder.insert(holder, entitlement);
        Ok(())
    }

    /// These entitlements together with further ones of single jobs: weights multiply, and of two limits the lower one
    /// counts.
    ///
    /// # Errors
    /// The first fault, with the place of its grant.
    pub fn with(&self, grants: &[JobGrant]) -> Result<Entitlements, (usize, EntitlementError)> {
        let mut all = self.clone();
        for (place, grant) in grants.iter().enumerate() {
            let both = self.further(grant).map_err(|error| (place, error))?;
            if all.by_holder.insert(Holder::Single(grant.job), both).is_some() {
                return Err((place, EntitlementError::Repeated));
            }
        }
        Ok(all)
    }

    /// The entitlement of a single job under a further grant. The reservation is that of its name, of which no more is
    /// reserved so.
    fn further(&self, grant: &JobGrant) -> Result<Entitlement, EntitlementError> {
        let own = self.by_holder.get(&Holder::Job(grant.name)).copied().unwrap_or_default();
        let weight = grant.weight.unwrap_or(1.0);
        Entitlement { weight, reservation: None, limit: grant.limit }.check()?;
        let both = Entitlement {
            weight: (own.weight * weight).clamp(*WEIGHTS.start(), *WEIGHTS.end()),
            reservation: own.reservation,
            limit: own.limit.into_iter().chain(grant.limit).reduce(f64::min),
        };
        both.check().map(|()| both)
    }

    /// Whether any holder has a reservation or a limit.
    pub fn bound_anyone(&self) -> bool {
        self.by_holder.values().any(|granted| granted.reservation.is_some() || granted.limit.is_some())
    }

    /// The factor of a holder's weight.
    pub(crate) fn weight(&self, holder: Holder) -> f64 {
        self.by_holder.get(&holder).map_or(1.0, |granted| granted.weight)
    }

    /// The holder of the entitlement of a job by itself.
    pub(crate) fn holder_of(&self, job: &JobAttributes) -> Holder {
        let single = Holder::Single(job.job);
        if self.by_holder.contains_key(&single) {
            single
        } else {
            Holder::Job(job.name)
        }
    }

    /// The holders among a job, its user and its group that have a reservation or a limit.
    pub(crate) fn bounds(&self, job: &JobAttributes) -> impl Iterator<Item = (Holder, Entitlement)> + '_ {
        let holders = [Holder::Group(job.group), Holder::User(job.user), self.holder_of(job)];
        holders.into_iter().filter_map(|holder| {
            let granted = *self.by_holder.get(&holder)?;
            (granted.reservation.is_some() || granted.limit.is_some()).then_some((holder, granted))
        })
    }
}

impl Holder {
    /// Whether the entitlement counts for a job.
    pub fn holds(self, job: &JobAttributes) -> bool {
        match self {
            Holder::Group(group) => group == job.group,
            Holder::User(user) => user == job.user,
            Holder::Job(name) => name == job.name,
            Holder::Single(number) => number == job.job,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Holder::Group(_) => "groups",
            Holder::User(_) => "users",
            Holder::Job(_) | Holder::Single(_) => "jobs",
        }
    }
}

/// A part of the whole, from a text such as `20%`.
///
/// # Errors
/// The text is not a part of the whole; the error says what is.
pub fn parse_fraction(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("\"{text}\" is not a fraction; try 0.2 or \"20%\""))
}

/// A fraction is a number up to 1 or a text such as `20%`; its range is [`Entitlements::grant`]'s to check.
fn optional_fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Fraction {
        Number(f64),
        Text(String),
        None,
    }
    match Fraction::deserialize(deserializer)? {
        Fraction::Number(fraction) => Ok(Some(fraction)),
        Fraction::Text(text) => parse_fraction(&text).map(Some).map_err(serde::de::Error::custom),
        Fraction::None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(weight: f64, reservation: Option<f64>, limit: Option<f64>) -> Entitlement {
        Entitlement { weight, reservation, limit }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let mut entitlements = Entitlements::default();
        let user = |number| Holder::User(UserId(number));
        for (entitlement, expected) in [
            (granted(0.0, None, None), "weight 0 is not"),
            (granted(f64::NAN, None, None), "weight NaN is not"),
            (granted(1.0, Some(1.5), None), "reservation 1.5 is not"),
            (granted(1.0, None, Some(0.0)), "limit 0 is not"),
            (granted(1.0, None, Some(f64::NAN)), "limit NaN is not"),
            (granted(1.0, Some(0.5), Some(0.4)), "limit 0.4 is below reservation 0.5"),
        ] {
            let error = entitlements.grant(user(1), entitlement).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error:?}");
        }
        assert_eq!(entitlements, Entitlements::default());
    }

    #[test]
    fn a_further_grant_is_for_one_job_of_a_name_and_multiplies_weights_and_keeps_the_lower_limit() {
        let mut own = Entitlements::default();
        own.grant(Holder::Job(JobName(1)), granted(2.0, Some(0.6), Some(0.8))).unwrap();
        own.grant(Holder::User(UserId(9)), granted(3.0, None, None)).unwrap();
        let grant = |job, limit| JobGrant {
            job: JobId(job),
            name: JobName(1),
            weight: Some(4.0),
            limit: Some(limit),
        };
        let named = |job| JobAttributes { name: JobName(1), ..JobAttributes::numbered(job, 9, 1, 1, 1) };
        let both = own.with(&[grant(5, 0.7), grant(6, 0.6)]).unwrap();
        let of = |job| both.by_holder[&both.holder_of(&named(job))];
        assert_eq!(of(5), granted(8.0, Some(0.6), Some(0.7)));
        assert_eq!(of(6), granted(8.0, Some(0.6), Some(0.6)));
        assert_eq!(of(7), granted(2.0, Some(0.6), Some(0.8)), "another job of the name keeps the site's");
        assert_eq!(both.weight(Holder::User(UserId(9))), 3.0);
        let error = own.with(&[grant(5, 0.7), grant(6, 0.1)]).unwrap_err();
        assert_eq!(error, (1, EntitlementError::LimitBelowReservation { limit: 0.1, reservation: 0.6 }));
        assert_eq!(own.with(&[grant(5, 0.7), grant(5, 0.6)]), Err((1, EntitlementError::Repeated)));
        assert!(matches!(own.with(&[grant(5, 2.0)]), Err((0, EntitlementError::Fraction { .. }))));
    }

    #[test]
    fn no_more_than_the_whole_is_reserved_at_each_kind_of_holder() {
        let mut entitlements = Entitlements::default();
        let tenth = granted(1.0, Some(0.1), None);
        for number in 0..10 {
            entitlements.grant(Holder::User(UserId(number)), tenth).unwrap();
        }
        entitlements.grant(Holder::Group(GroupId(1)), granted(1.0, Some(1.0), None)).unwrap();
        let above = entitlements.grant(Holder::User(UserId(10)), tenth);
        assert!(matches!(above, Err(EntitlementError::AboveWhole { holders: "users", .. })));
        assert_eq!(
            entitlements.grant(Holder::User(UserId(1)), granted(2.0, None, None)),
            Err(EntitlementError::Repeated)
        );
    }
}
