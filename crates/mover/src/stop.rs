//! The end of a run: a signal, or a closed standard input.

use crate::error::MoverError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// The number of requests to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicU32>);

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// [`MoverError::System`] where the system refuses a handler or a thread.
    pub(crate) fn listen() -> Result<Stop, MoverError> {
        let stop = Stop::default();
        let system = |what| move |source| MoverError::System { what, source };
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(system("wait for signals"))?;
        let (on_signal, at_end) = (stop.clone(), stop.clone());
        start(move || {
            for _ in signals.forever() {
                on_signal.0.fetch_add(1, Ordering::SeqCst);
            }
        })?;
        start(move || {
            // Whoever started this program holds the other end; an error is an end as well.
            let mut rest = [0; 64];
            while matches!(std::io::stdin().read(&mut rest), Ok(1..)) {}
            at_end.0.fetch_add(1, Ordering::SeqCst);
        })?;
        Ok(stop)
    }

    /// Whether no further file is to be begun.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether the file in hand is to be left as it is.
    pub(crate) fn is_urgent(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}

fn start(body: impl FnOnce() + Send + 'static) -> Result<(), MoverError> {
    let thread = std::thread::Builder::new().spawn(body);
    thread.map(drop).map_err(|source| MoverError::System { what: "start a thread", source })
}
