//! Errors of the client as Python's `OSError`, with number, words, path and a remedy.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::Path;
use weir_client::ClientError;

/// The exception of a call that failed on a path.
pub(crate) fn failed(py: Python<'_>, error: &ClientError, path: &Path) -> PyErr {
    let (words, hint) = words(error);
    noted(py, PyOSError::new_err((error.errno(), words, path.as_os_str().to_owned())), hint)
}

/// The exception of a call that failed on two paths.
pub(crate) fn failed_on_two(py: Python<'_>, error: &ClientError, source: &Path, target: &Path) -> PyErr {
    let (words, hint) = words(error);
    let (source, target) = (source.as_os_str().to_owned(), target.as_os_str().to_owned());
    noted(py, PyOSError::new_err((error.errno(), words, source, py.None(), target)), hint)
}

fn noted(py: Python<'_>, raised: PyErr, hint: Option<String>) -> PyErr {
    if let Some(hint) = hint {
        // Without its note an error says as much as others do.
        let _ = raised.value(py).call_method1("add_note", (format!("hint: {hint}"),));
    }
    raised
}

/// The failure in words, without its number, and a remedy where one is known.
fn words(error: &ClientError) -> (String, Option<String>) {
    let whole = error.to_string();
    match error {
        ClientError::Failed(_) => {
            let number = format!(" (os error {})", error.errno());
            (whole.strip_suffix(&number).unwrap_or(&whole).to_owned(), None)
        }
        ClientError::Settings { what, hint } | ClientError::NotOurs { what, hint } => {
            (what.clone(), Some((*hint).to_owned()))
        }
        ClientError::Lost { .. } => {
            let hint =
                "`weir status` shows which servers run; `timeout_seconds` bounds the wait for a silent one";
            (whole, Some(hint.to_owned()))
        }
        ClientError::Refused { .. } | ClientError::NotGenuine(_) => {
            let hint = "use a credential of this store that still holds: `weir grant` mints one";
            (whole, Some(hint.to_owned()))
        }
        ClientError::Outside { .. } => {
            let hint = "a symbolic link leads to the host: open that path without the store";
            (whole, Some(hint.to_owned()))
        }
        _ => (whole, None),
    }
}
