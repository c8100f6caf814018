//! Settings of a whole store that can change while it runs. Of two decisions, the later one counts on every server.

use crate::decision::Decided;
use crate::QuotaTable;
use serde::{Deserialize, Serialize};
use weir_placement::{ServerId, TargetId};

/// The division of device time, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingNames {
    /// Name of the policy, such as `size-fair`.
    pub policy: String,
    /// Name of the scheduler, such as `virtual-time`.
    pub scheduler: String,
}

/// The settings that all servers of a store share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSettings {
    /// The division of device time among jobs.
    pub sharing: Decided<SharingNames>,
    /// Name of the algorithm that chooses the targets of new files.
    pub allocator: Decided<String>,
    /// The targets that joined, retire or have retired since the store was made, in ascending order.
    #[serde(default)]
    pub targets: Vec<TargetRecord>,
    /// The limits of users and groups. A report has them only while another server has others.
    #[serde(default)]
    pub quotas: QuotaTable,
    /// The servers that joined, retire, have retired or are at another address since the store was made, in ascending order.
    #[serde(default)]
    pub servers: Vec<ServerRecord>,
}

/// One server that joined a store, or of which something was decided since. It decides itself; the others follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// The server. Its number is given once.
    pub server: ServerId,
    /// The table of the server in the configuration, as JSON, with the targets that it had at the decision.
    pub description: String,
    /// Its state. The stamp is that of the last decision about its state or its addresses; one that only joined has none.
    #[serde(default)]
    pub state: Decided<TargetState>,
}

/// One target that joined or leaves a store. Its server decides; the others follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The target. Its number is given once.
    pub target: TargetId,
    /// The table of the target in the configuration, as JSON.
    pub description: String,
    /// Its state.
    pub state: Decided<TargetState>,
}

/// The part that a target or a server has in its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// It takes new files; a server takes new trees.
    #[default]
    Open,
    /// It takes no new files, and those that it has leave.
    Retiring,
    /// It has no files, and nothing is opened for it. Only its number is left.
    Retired,
}

impl TargetState {
    /// Whether the target takes no new files.
    pub fn is_closed(self) -> bool {
        self != TargetState::Open
    }
}

impl StoreSettings {
    /// The record of a target, if there is one.
    pub fn target(&self, target: TargetId) -> Option<&TargetRecord> {
        self.targets.iter().find(|record| record.target == target)
    }

    /// The record of a server, if there is one.
    pub fn server(&self, server: ServerId) -> Option<&ServerRecord> {
        self.servers.iter().find(|record| record.server == server)
    }

    /// Takes over a record of a server; answers whether it was news.
    pub fn follow_server(&mut self, other: &ServerRecord) -> bool {
        match self.servers.iter_mut().find(|record| record.server == other.server) {
            Some(known) => {
                let is_news = other.state.stamp > known.state.stamp;
                if is_news {
                    known.clone_from(other);
                }
                is_news
            }
            None => {
                self.servers.push(other.clone());
                self.servers.sort_unstable_by_key(|record| record.server);
                true
            }
        }
    }

    /// Takes over a record of a target; answers whether it was news. A target that has retired stays so.
    pub fn follow_target(&mut self, other: &TargetRecord) -> bool {
        match self.targets.iter_mut().find(|record| record.target == other.target) {
            Some(known) if known.state.value == TargetState::Retired => false,
            Some(known) => {
                let is_news =
                    other.state.value == TargetState::Retired || other.state.stamp > known.state.stamp;
                if is_news {
                    known.clone_from(other);
                }
                is_news
            }
            None => {
                self.targets.push(other.clone());
                self.targets.sort_unstable_by_key(|record| record.target);
                true
            }
        }
    }
}

impl StoreSettings {
    /// The settings without the limits of users and groups.
    #[must_use]
    pub fn without_quotas(&self) -> StoreSettings {
        StoreSettings { quotas: QuotaTable::default(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    #[test]
    fn the_later_of_two_decisions_counts_wherever_they_are_told_first() {
        let mut one: Decided<&str> = Decided::default();
        let mut other = one.clone();
        one.decide("early", 1_000, 0);
        other.decide("late", 1_001, 1);
        let (early, late) = (one.clone(), other.clone());
        assert!(one.follow(&late));
        assert!(!other.follow(&early));
        assert_eq!(one, other);
        assert_eq!(one.value, "late");
        assert!(!one.follow(&late), "a decision that is known changes nothing");
    }

    #[test]
    fn records_of_targets_are_the_same_in_whatever_order_they_are_told() {
        let target = TargetId { server: weir_placement::ServerId(1), index: 2 };
        let record = |value, milliseconds| TargetRecord {
            target,
            description: String::new(),
            state: Decided { value, stamp: Stamp { milliseconds, server: 1 } },
        };
        let told = [
            record(TargetState::Open, 1),
            record(TargetState::Retiring, 2),
            record(TargetState::Open, 3),
            record(TargetState::Retiring, 4),
            // Its server's clock was set back.
            record(TargetState::Retired, 2),
        ];
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 4, 0, 3, 2]] {
            let mut settings = StoreSettings::default();
            for number in order {
                settings.follow_target(&told[number]);
            }
            assert_eq!(settings.targets, [told[4].clone()], "{order:?}");
        }
        let mut settings = StoreSettings::default();
        assert!(settings.follow_target(&told[1]) && !settings.follow_target(&told[0]));
        assert!(settings.follow_target(&told[2]));
        assert_eq!(settings.target(target).unwrap().state.value, TargetState::Open);
    }

    #[test]
    fn a_server_that_moved_is_known_where_it_went_last() {
        let record = |description: &str, milliseconds| ServerRecord {
            server: weir_placement::ServerId(2),
            description: description.into(),
            state: Decided {
                value: TargetState::Retired,
                stamp: Stamp { milliseconds, server: if milliseconds == 0 { 0 } else { 2 } },
            },
        };
        let told = [record("where it joined", 0), record("first move", 5), record("second move", 9)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut settings = StoreSettings::default();
            for number in order {
                settings.follow_server(&told[number]);
            }
            assert_eq!(settings.servers, [told[2].clone()], "{order:?}");
        }
    }

    #[test]
    fn a_decision_counts_although_the_clock_went_back() {
        let mut decided: Decided<&str> = Decided::default();
        decided.decide("first", 5_000, 0);
        let before = decided.clone();
        decided.decide("second", 3_000, 0);
        assert!(before.stamp < decided.stamp);
    }

    #[test]
    fn two_decisions_of_one_millisecond_have_an_order() {
        let mut one: Decided<&str> = Decided::default();
        let mut other = one.clone();
        one.decide("of server 0", 1_000, 0);
        other.decide("of server 1", 1_000, 1);
        let first = one.clone();
        assert!(one.follow(&other));
        assert!(!other.follow(&first));
    }
}
