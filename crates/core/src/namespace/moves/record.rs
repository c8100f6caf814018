//! The record of a move.

use crate::namespace::intents::IntentId;
use serde::{Deserialize, Serialize};
use weir_wire::{ClientId, Moment, ObjectMove};

/// A move of objects of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRecord {
    /// The number of the move.
    pub id: IntentId,
    /// The client that copies.
    pub client: ClientId,
    /// The objects and their new places.
    pub moves: Vec<ObjectMove>,
    /// The freeze, while the objects are kept from others.
    pub freeze: Option<Frozen>,
}

/// The freeze at the end of a move: the objects are kept from everyone but the mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The intent that is pending during the freeze.
    pub intent: IntentId,
    /// The intent that is settled once no write of others is on its way to the objects.
    pub fence: IntentId,
    /// The beginning of the freeze.
    pub since: Moment,
}
