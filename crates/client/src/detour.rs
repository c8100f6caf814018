//! Questions to the home of a file for targets with room behind its end.

use crate::pool::Lane;
use crate::session::Environment;
use crate::{Caller, File, Result};
use weir_session::{Detours, Failure, Size};
use weir_wire::Reply;

impl File {
    /// Has the home lay the bytes behind the end of the file on other targets. The caller then tries the write again.
    ///
    /// # Errors
    /// The failure itself, where other targets do not help or the home has none.
    pub(crate) fn take_detour(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        detours: &mut Detours,
        failure: Failure,
    ) -> Result<()> {
        let (request, error) = detours.ask(failure, self.capability())?;
        match self.ask_home(environment, caller, Lane::Small, &request) {
            Ok(Reply::Layout { layout, layout_epoch, size_bytes, epoch }) => {
                self.learn_layout(layout, layout_epoch, Size { bytes: size_bytes, epoch });
                Ok(())
            }
            Ok(_) => Err(self.unexpected("Detour")),
            Err(_) => Err(error),
        }
    }
}
