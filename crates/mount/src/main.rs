//! `weir-mount`: shows a Weir store as a file system of the kernel.
//!
//! It reads `/dev/fuse` itself: the kernel's lock flags and interrupts must reach the servers, and every request is made
//! on behalf of the process that caused it, in the job of that process.

mod abi;
mod accounts;
mod arguments;
mod call;
mod credential;
mod device;
mod error;
mod filesystem;
mod handles;
mod identity;
mod mounting;
mod notices;
mod operations;
mod overwrites;
mod pages;
mod process;
mod session;
mod signals;
mod sizes;
mod special;
mod unsteady;
mod waits;
mod workers;

use arguments::{Action, Arguments};
use error::MountError;
use filesystem::Filesystem;
use mounting::{MountedAt, Unmounted};
use notices::notice;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weir_client::wire::{Credential, Role};
use weir_client::{Caller, ClientError, Place, Settings, Store};
use workers::Workers;

/// Bound on the wait for the last requests after an unmount.
const END_WAIT: Duration = Duration::from_secs(5);
/// Longest credential file that is read.
const CREDENTIAL_BYTES_MAX: u64 = 64 * 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notices::complain(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<(), MountError> {
    let arguments = match arguments::parse(std::env::args_os().skip(1))? {
        Action::Print(text) => {
            print!("{text}");
            return Ok(());
        }
        Action::Mount(arguments) => arguments,
    };
    weir_log::begin(arguments.log.as_deref())
        .map_err(|error| MountError::system("cannot write the log", error))?;
    // Before any thread starts, so that all of them leave the signals to the one that waits for them.
    let signals =
        signals::Termination::block().map_err(|error| MountError::system("cannot block signals", error))?;
    let credential = read_credential(&arguments)?;
    let for_others = credential.claims.role == Role::Mount;
    let (store, heartbeat) = connect(&arguments)?;

    let (device, mounted) = mounting::mount(&arguments.mount_point, &arguments.source, for_others)?;
    let device = Arc::new(device);
    let features = match session::negotiate(&device) {
        Ok(features) => features,
        Err(error) => {
            // The first error is the one to tell.
            let _ = mounted.unmount();
            return Err(error);
        }
    };
    let place = (Arc::clone(&device), mounted.path());
    let filesystem = Filesystem::new(store.clone(), place, features, !for_others);
    let (pages, listening) = (Arc::clone(&filesystem.pages), Arc::clone(&filesystem.pages));
    let unsteady = Arc::clone(&filesystem.unsteady);
    let workers = Workers::start(filesystem, device);
    // A server that is not there yet, or joins later, is listened to from a heartbeat on.
    let _ = listening.listen();
    println!("ready");
    // Nobody may be listening any more; the mount is there all the same.
    let _ = std::io::stdout().flush();

    let ending = workers.clone();
    start("heartbeat", move || loop {
        store.heartbeat();
        let _ = listening.listen();
        unsteady.let_go(&store);
        std::thread::sleep(heartbeat);
    })?;
    start("signals", move || {
        signals.wait();
        pages.end();
        leave(&mounted, &ending);
    })?;
    while !workers.wait_for_end(Duration::from_secs(3600)) {}
    Ok(())
}

fn start(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), MountError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map(drop)
        .map_err(|error| MountError::system("cannot start a thread", error))
}

fn read_credential(arguments: &Arguments) -> Result<Credential, MountError> {
    use std::io::Read;
    let path = &arguments.credential;
    let fail = |reason: String| MountError::Store {
        message: format!("cannot use the credential {}: {reason}.", path.display()),
        hint: "get one with `weir grant`, or let `weir mount` find it",
    };
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(CREDENTIAL_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| fail(error.to_string()))?;
    Credential::from_json(&text).map_err(|error| fail(error.to_string()))
}

/// A store that has answered once, so that a mount point never shows a store that is not there, and the interval of heartbeats.
fn connect(arguments: &Arguments) -> Result<(Store, Duration), MountError> {
    let environment = |name: &str| match name {
        "WEIR_CLUSTER" => Some(arguments.cluster.clone().into_os_string()),
        "WEIR_CREDENTIAL" => Some(arguments.credential.clone().into_os_string()),
        "WEIR_MOUNT" => Some(arguments.mount_point.clone().into_os_string()),
        name => std::env::var_os(name),
    };
    let answered = Settings::from_variables(environment).and_then(|settings| {
        let heartbeat = settings.heartbeat;
        let store = Store::new(settings);
        store.attributes(&Caller::own(), Place::root(b""), false)?;
        Ok((store, heartbeat))
    });
    answered.map_err(|error| {
        let (what, hint) = match error {
            ClientError::Settings { what, hint } | ClientError::NotOurs { what, hint } => (what, hint),
            ClientError::Refused { .. } | ClientError::NotGenuine(_) => {
                (error.to_string(), "get a credential with `weir grant`")
            }
            _ => (error.to_string(), "see `weir status`, and start the store with `weir up`"),
        };
        let message = format!("cannot reach the store of {}: {what}.", arguments.cluster.display());
        MountError::Store { message, hint }
    })
}

/// Unmounts and sees to it that the process ends, also when programs still use the store.
fn leave(mounted: &MountedAt, workers: &Workers) {
    let path = mounted.path().display();
    match mounted.unmount() {
        Ok(Unmounted::Clean | Unmounted::Already) => {}
        Ok(Unmounted::Detached) => {
            notice!("{path} is in use and was detached; programs that use it get ENOTCONN from now on");
            std::process::exit(0);
        }
        Err(error) => {
            notices::complain(&format_args!("cannot unmount {path}: {error}. hint: run `umount -l {path}`"));
            std::process::exit(1);
        }
    }
    if !workers.wait_for_end(END_WAIT) {
        notice!("{path} is unmounted, but the kernel still holds it; leaving");
        std::process::exit(0);
    }
}
