//! The opening of a target that joins, which a worker carries out.

use crate::config::TargetConfig;
use crate::control::question::NotChanged;
use crate::home::{Joined, Joining};
use crate::storage::Known;
use std::path::Path;
use weir_placement::TargetId;

/// A target that is to be opened.
pub struct OpeningTicket {
    target: TargetId,
    config: Box<TargetConfig>,
    /// It joins the store. Otherwise other servers know that it joined before, and its folder may have objects.
    is_new: bool,
    place: Box<dyn Joining>,
}

impl OpeningTicket {
    /// The opening of a target in its place.
    pub(crate) fn new(
        target: TargetId,
        config: Box<TargetConfig>,
        is_new: bool,
        place: Box<dyn Joining>,
    ) -> OpeningTicket {
        OpeningTicket { target, config, is_new, place }
    }

    /// Opens the target; the call blocks. A new target of its own folder gets an empty one: another target may have the files in any
    /// other.
    ///
    /// # Errors
    /// The refusal of the change.
    pub(crate) fn run(self) -> Result<Joined, NotChanged> {
        if let Some(path) = self.config.path.as_deref().filter(|_| self.is_new) {
            self.check_folder(path)?;
        }
        let refused = |error: String| NotChanged::refused(error, "see the server's log".into());
        let mut joined = self.place.open().map_err(|error| refused(error.to_string()))?;
        if let Some(directory) = joined.target.directory_mut() {
            let settled = directory.settle(|_| Known::Elsewhere);
            let target = self.target;
            settled.map_err(|error| refused(format!("the folder of {target} cannot be used: {error}")))?;
        }
        Ok(joined)
    }

    fn check_folder(&self, path: &Path) -> Result<(), NotChanged> {
        let checked = match path.is_absolute() {
            true => self.place.check_new(path),
            false => Err("is not a whole path".into()),
        };
        checked.map_err(|what| {
            let hint = "name an empty folder, or one that is to be made, by its whole path";
            NotChanged::refused(format!("{} {what}", path.display()), hint.into())
        })
    }
}
