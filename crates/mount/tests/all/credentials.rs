//! The file that WEIR_CREDENTIAL names counts where the caller itself can reach and read it, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_client::wire::Claims;
use weir_testing::{can_mount, checked, claims, ram, shell, Cluster, NOBODY};

/// Each way to a credential of the user's own: its name, whether the job counts, and a script of root. `$F` is a folder that
/// everybody may pass and `$C` is the credential there, which the user alone may read. `use FILE` becomes the user, whose
/// program writes into the store with WEIR_CREDENTIAL=FILE.
const WAYS: [(&str, bool, &str); 14] = [
    ("plain", true, "use $C"),
    ("own link", true, "ln -s $C $F/own; use $F/own"),
    ("folder of a group", true, "install -d -m 750 -g 4000009 $F/g; mv $C $F/g; G=4000009 use $F/g/c"),
    ("folder of another group", false, "install -d -m 750 -g 4000009 $F/n; mv $C $F/n; use $F/n/c"),
    ("folder of root", false, "install -d -m 700 $F/r; mv $C $F/r; use $F/r/c"),
    ("link into a folder of root", false, "install -d -m 700 $F/l; mv $C $F/l; ln -s $F/l/c $F/into; use $F/into"),
    ("file of root", false, "chown 0:0 $C; use $C"),
    ("too long a file", false, "{ cat $C; head -c 70000 /dev/zero | tr '\\0' ' '; echo x; } >$F/long; use $F/long"),
    ("pipe that nobody writes", false, "mkfifo -m 666 $F/pipe; use $F/pipe"),
    ("device", false, "use /dev/zero"),
    ("link of the kernel", false, "exec 9<$C; use /proc/$$/fd/9"),
    ("path that is not absolute", false, "cd $F; use c"),
    ("mount of the caller alone", true, "mv $C $F/../kept-c; mkdir $F/own-mounts
        unshare --mount sh -c '. $F/use; mount -t tmpfs none $F/own-mounts; chmod 755 $F/own-mounts
        cp -p $F/../kept-c $F/own-mounts/c; use $F/own-mounts/c'"),
    ("root folder of the caller", false, "mkdir -p $F/jail; unshare --mount sh -c '. $F/use
        mount --rbind / $F/jail; mount -t tmpfs none $F/jail$F; chroot $F/jail sh -c \". $F/../use; use $C\"'"),
];

const USE: &str = r#"
use() {
    setpriv --reuid=65534 --regid=65534 $([ -n "$G" ] && echo --groups=$G || echo --clear-groups) -- \
        env WEIR_CREDENTIAL="$1" dd if=/dev/zero of="$M/open/$N" bs=4k count=1 status=none
}
"#;

#[test]
fn a_credential_counts_where_its_caller_reaches_it() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    shell(mount.path(), "mkdir -m 777 open");
    fs::set_permissions(cluster.folder(), fs::Permissions::from_mode(0o755)).expect("own folder");
    fs::write(cluster.folder().join("use"), USE).expect("written");
    for (number, (way, counts, script)) in WAYS.iter().enumerate() {
        let folder = cluster.folder().join(format!("way-{number}"));
        fs::create_dir(&folder).expect("made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("own folder");
        fs::write(folder.join("use"), USE).expect("written");
        let job = format!("way-{number}");
        cluster.credential(&format!("{job}/c"), Claims { job: job.clone(), ..claims(NOBODY) });
        fs::rename(folder.join("c.json"), folder.join("c")).expect("renamed");
        let begun = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-ec", &format!(". $F/use\n{script}")]);
        command.env("F", &folder).env("C", folder.join("c")).env("M", mount.path()).env("N", &job);
        checked(&mut command);
        let jobs = cluster.show(0, "/v1/jobs");
        let found = jobs["jobs"].as_array().expect("a list").iter().any(|shown| shown["job"] == job.as_str());
        assert_eq!(found, *counts, "{way}: {jobs}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{way} held the mount up");
    }
}
