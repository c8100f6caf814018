//! The inventory in the control API: the objects and files of this server, in parts, for a check of the store.
//!
//! A part has the inodes of one residue, so parts of different servers fit together and none is large. Threads of the control API
//! read the directories of targets; the loop copies numbers at once, and entries in small batches.

use super::{failure, json, Answer, Desk};
use crate::control::http::Request;
use serde::Serialize;
use std::collections::HashSet;
use weir_core::control::question::{Objects, Part, Question};
use weir_core::namespace::{FileEntry, PlaceEntry};
use weir_placement::TargetId;
use weir_wire::Ino;

/// `GET /v1/inventory/PART/PARTS`.
pub(super) const PATH: &str = "/v1/inventory/";
/// `GET /v1/places/INO,...`.
pub(super) const PLACES_PATH: &str = "/v1/places/";
/// Files whose entries the loop writes in one turn: some hundred microseconds.
const BATCH: usize = 256;
/// The most inodes in one question for places: they fit into the head of a request.
const PLACES_MAX: usize = 512;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Inventory {
    pub(crate) objects: Vec<ObjectEntry>,
    pub(crate) files: Vec<FileEntry>,
}

/// An object on a target of this server.
#[derive(Debug, Serialize)]
pub(crate) struct ObjectEntry {
    /// The object's place, as layouts spell it.
    target: String,
    /// The object's file.
    ino: u64,
    /// The length; on a `ram` target in whole pages.
    bytes: u64,
}

impl ObjectEntry {
    /// The entry of an object by its number on its target.
    pub(crate) fn new(target: TargetId, object: Ino, bytes: u64) -> ObjectEntry {
        let place = target.in_slot(object.slot());
        ObjectEntry { target: place.to_string(), ino: object.file().0, bytes }
    }
}

#[derive(Serialize)]
struct Places {
    places: Vec<PlaceEntry>,
}

/// Shows one part of the inventory.
pub(super) fn show(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let Some(part) = Part::of_path(&request.path, PATH) else {
        return json(400, &failure("the path is not /v1/inventory/PART/PARTS", "parts count from 0"));
    };
    match inventory(desk, part) {
        Ok(inventory) => json(200, &inventory),
        Err(failure) => json(503, &failure),
    }
}

/// Shows the places of inodes.
pub(super) fn show_places(request: &Request, desk: &Desk) -> Answer {
    if let Some(refusal) = desk.refusal(request) {
        return refusal;
    }
    let inos: Result<HashSet<Ino>, _> =
        request.path.trim_start_matches(PLACES_PATH).split(',').map(|ino| ino.parse().map(Ino)).collect();
    match inos {
        Ok(inos) if inos.len() <= PLACES_MAX => match desk.ask(|answer| Question::Places(inos, answer)) {
            Ok(places) => json(200, &Places { places }),
            Err(failure) => json(503, &failure),
        },
        _ => json(400, &failure("the path is not /v1/places/INO,...", "name at most 512 inodes by number")),
    }
}

/// The objects first, then the files: an object whose file was made before the look at files is known by then.
fn inventory(desk: &Desk, part: Part) -> Result<Inventory, super::Failure> {
    let mut inventory = Inventory::default();
    for (target, objects) in desk.ask(Question::Objects)? {
        let objects = match objects {
            Objects::Here(objects) => objects,
            Objects::In(dir) => dir.listed().map_err(|error| {
                failure(&format!("target {target} cannot be read: {error}"), "see the server's log")
            })?,
        };
        let objects = objects.into_iter().filter(|(object, _)| part.has(object.file()));
        inventory.objects.extend(objects.map(|(object, bytes)| ObjectEntry::new(target, object, bytes)));
    }
    let mut inos = desk.ask(|answer| Question::Files(part, answer))?;
    inos.sort_unstable();
    inos.dedup();
    for batch in inos.chunks(BATCH) {
        let files = desk.ask(|answer| Question::FileEntries(batch.to_vec(), answer))?;
        inventory.files.extend(files);
    }
    Ok(inventory)
}
