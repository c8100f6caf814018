//! Errors of the client as Python's `OSError`, with number, words, path and a remedy.

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::Path;
use weir_client::ClientError;

/// The exception of a call that failed on a path.
pub(crate) fn failed(py: Python<'_>, error: &ClientError, path: &Path) -> PyErr {
    let (words, hint) = words(error);
    raised(py, (error.errno(), words, path.as_os_str()), hint)
}

/// The exception of a call that failed on two paths.
pub(crate) fn failed_on_two(py: Python<'_>, error: &ClientError, source: &Path, target: &Path) -> PyErr {
    let (words, hint) = words(error);
    raised(py, (error.errno(), words, source.as_os_str(), py.None(), target.as_os_str()), hint)
}

/// An `OSError` that is there at once: one that is made when it is looked at needs an interpreter, and a file that nobody closed
/// fails to close while the interpreter ends.
fn raised<'py>(py: Python<'py>, arguments: impl PyCallArgs<'py>, hint: Option<String>) -> PyErr {
    let made = match py.get_type::<PyOSError>().call1(arguments) {
        Ok(made) => made,
        Err(error) => return error,
    };
    if let Some(hint) = hint {
        // Without its note an error says as much as others do.
        let _ = made.call_method1("add_note", (format!("hint: {hint}"),));
    }
    PyErr::from_value(made)
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
