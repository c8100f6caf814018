//! Writes records into the journal of a server that does not run, as tests of damage need: `journal FOLDER` reads them as a JSON list.

use std::path::PathBuf;
use std::process::ExitCode;
use weir_core::journal::Journal;
use weir_core::namespace::Change;
use weir_core::JOURNAL_SCHEMA;
use weir_server::journal::DirectoryStorage;

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: journal FOLDER < RECORDS")?;
    let changes: Vec<Change> = serde_json::from_reader(std::io::stdin())?;
    let storage = DirectoryStorage::open(&folder)?;
    let (mut journal, _) = Journal::<Change>::open(storage, JOURNAL_SCHEMA, |_| {})?;
    journal.append(&changes)?;
    journal.sync()?;
    Ok(())
}
