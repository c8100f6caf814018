//! Mounts of a cluster, which end when the test ends.

use crate::cluster::Cluster;
use crate::credentials::claims;
use crate::processes::{ends_within, send_signal, PATIENCE};
use crate::programs;
use rustix::mount::{unmount, UnmountFlags};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_wire::{Claims, Role};

/// Time for a mount to end by itself at the end of a test; after that it is killed.
const FAREWELL: Duration = Duration::from_secs(10);

/// A running mount.
pub struct Mount {
    child: Child,
    path: PathBuf,
}

/// Whether this machine can mount; says why not.
pub fn can_mount() -> bool {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: there is no /dev/fuse");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: these tests mount as root");
        return false;
    }
    true
}

impl Cluster {
    /// Mounts the store for all users at `name` in the folder of the test.
    pub fn mount(&self, name: &str) -> Mount {
        self.mount_with(name, &[])
    }

    /// As [`Cluster::mount`], with further variables in the environment of the mount.
    pub fn mount_with(&self, name: &str, variables: &[(&str, &str)]) -> Mount {
        let path = self.folder().join(name);
        fs::create_dir_all(&path).expect("a mount point");
        let mut command = Command::new(programs::mount());
        command.envs(variables.iter().copied());
        let claims = Claims { job: "mount".into(), role: Role::Mount, ..claims(0) };
        Mount::start(command, self, &self.credential("mount", claims), path)
    }
}

impl Mount {
    /// Runs a mount program (perhaps behind another that drops rights) and waits until it is ready.
    pub fn start(mut command: Command, cluster: &Cluster, credential: &Path, path: PathBuf) -> Mount {
        let mut child = command
            .arg("--cluster")
            .arg(cluster.cluster_file())
            .arg("--credential")
            .arg(credential)
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stdout = child.stdout.take().expect("piped");
        let mount = Mount { child, path };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n", "the mount did not come up");
        mount
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    /// Waits for the end of the process; returns its exit code, which a killed process lacks.
    pub fn ended(&mut self) -> Option<i32> {
        assert!(ends_within(&mut self.child, PATIENCE), "the mount does not end");
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        match self.child.try_wait() {
            Ok(None) => {
                send_signal(&self.child, Signal::TERM);
                if !ends_within(&mut self.child, FAREWELL) {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                }
            }
            Ok(Some(status)) if std::thread::panicking() => {
                eprintln!("the mount at {} had ended before: {status}", self.path.display());
            }
            Ok(Some(_)) | Err(_) => {}
        }
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
