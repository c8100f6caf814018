//! The names of a store in memory on their way to another host, with the server that has them.
//!
//! A server that ends writes its names where it is asked to, and a server that starts reads them. They are removed before the
//! first request is served: from then on the names are in memory alone, and a crash loses them as before.

use super::Server;
use crate::durability::write_names;
use crate::notices::{notice, warning};
use std::path::PathBuf;

/// File in the server's folder that asks for the names: whoever stops the server makes it, and removes it.
const ASKED: &str = "names-wanted";
/// File in the server's folder that tells why the names could not be written.
const REFUSED: &str = "names-refused";

impl Server {
    /// The folder of names that were written when the server ended.
    pub(super) fn written_names(&self) -> PathBuf {
        self.site.folder.join("names")
    }

    /// Writes the names where the server is asked for them. Answers whether it may end: it goes on where it cannot write them.
    pub(crate) fn prepare_to_end(&self) -> bool {
        if self.durability.is_durable() || !self.site.folder.join(ASKED).exists() {
            return true;
        }
        let Err(error) = write_names(&self.written_names(), &self.namespace) else {
            notice!("the names are in {}", self.written_names().display());
            return true;
        };
        warning!("{error}; the server goes on");
        let (refused, unfinished) =
            (self.site.folder.join(REFUSED), self.site.folder.join("names-refused.unfinished"));
        let told = std::fs::write(&unfinished, error.to_string())
            .and_then(|()| std::fs::rename(&unfinished, &refused));
        if let Err(error) = told {
            warning!("nobody can be told that the names were not written: {error}");
        }
        false
    }

    /// Removes the names that were read at the start.
    pub(crate) fn forget_written_names(&self) {
        let folder = self.written_names();
        if folder.exists() {
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                warning!("{} cannot be removed: {error}; remove it before the next start", folder.display());
            }
        }
    }
}
