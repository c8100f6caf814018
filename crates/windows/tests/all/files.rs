//! Folders and files that are not such as the crate makes: each is refused, and left as it is.

use crate::{own, place, SECOND, WINDOW};
use std::fs::{self, Permissions};
use std::os::unix::fs::{symlink, FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use weir_testing::{Choices, NOBODY};
use weir_windows::{Device, Operation, Reader, Recorder, WindowsError};

const FILE: &str = "windows-1000ms";

fn refusal<T>(outcome: Result<T, WindowsError>) -> String {
    outcome.err().expect("a refusal").to_string()
}

/// A file with one operation of this user's job.
fn made(folder: &Path) -> Recorder {
    let recorder = Recorder::open(folder, WINDOW).expect("a recorder");
    let job = recorder.job(1, own(), "job");
    recorder.count(&job, Device::target(0, 0), Operation::Read(1), 1000 * SECOND, 1);
    recorder
}

/// Both sides refuse, with this reason.
fn refuses(folder: &Path, reason: &str) {
    for said in [refusal(Recorder::open(folder, WINDOW)), refusal(Reader::look(folder, WINDOW, own()))] {
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn the_folder_and_the_file_are_their_users_alone() {
    let (_root, folder) = place();
    made(&folder);
    for path in [folder.clone(), folder.join(FILE)] {
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path:?}");
    }
}

#[test]
fn links_are_not_followed() {
    let (root, folder) = place();
    let elsewhere = root.path().join("elsewhere");
    made(&elsewhere);
    symlink(&elsewhere, &folder).expect("a link");
    refuses(&folder, "cannot open");
    fs::remove_file(&folder).expect("the link goes");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("own folder");
    symlink(elsewhere.join(FILE), folder.join(FILE)).expect("a link");
    refuses(&folder, "cannot open");
}

#[test]
fn what_others_may_use_is_refused() {
    let (_root, folder) = place();
    made(&folder);
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("own folder");
    refuses(&folder, "others may use it");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("own folder");
    fs::set_permissions(folder.join(FILE), Permissions::from_mode(0o660)).expect("own file");
    refuses(&folder, "others may use it");
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if own() != 0 {
        return;
    }
    let (_root, folder) = place();
    made(&folder);
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), None).expect("root may");
    give(&folder.join(FILE));
    refuses(&folder, "another user");
    give(&folder);
    refuses(&folder, "another user");
    // The superuser reads the windows of others, and their file tells of their own jobs alone.
    let reader = Reader::look(&folder, WINDOW, NOBODY).expect("the file of another user");
    assert_eq!(reader.lines_after(0, Duration::from_secs(1010)).0, []);
}

#[test]
fn pipes_and_files_of_another_size_are_refused() {
    let (_root, folder) = place();
    made(&folder);
    let file = folder.join(FILE);
    let bytes = fs::metadata(&file).expect("there").len();
    fs::File::options().write(true).open(&file).expect("own file").set_len(bytes + 8).expect("longer");
    refuses(&folder, "another size");
    fs::remove_file(&file).expect("own file");
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .expect("a pipe");
    refuses(&folder, "no regular file");
}

#[test]
fn a_file_that_was_cut_is_whole_again_for_the_next_program() {
    let (_root, folder) = place();
    made(&folder);
    let file = folder.join(FILE);
    fs::File::options().write(true).open(&file).expect("own file").set_len(100).expect("shorter");
    assert!(refusal(Reader::look(&folder, WINDOW, own())).contains("another size"));
    made(&folder);
    let reader = Reader::look(&folder, WINDOW, own()).expect("windows");
    assert_eq!(reader.lines_after(0, Duration::from_secs(1010)).0.len(), 1);
}

#[test]
fn another_version_and_another_length_are_refused() {
    let (_root, folder) = place();
    made(&folder);
    let file = fs::File::options().write(true).open(folder.join(FILE)).expect("own file");
    file.write_all_at(&(2 * SECOND).to_ne_bytes(), 8).expect("own file");
    refuses(&folder, "");
    file.write_all_at(&SECOND.to_ne_bytes(), 8).expect("own file");
    file.write_all_at(b"strange!", 0).expect("own file");
    refuses(&folder, "version");
    for window in [Duration::from_millis(99), Duration::from_secs(61)] {
        assert!(refusal(Recorder::open(&folder, window)).contains("100 ms to 1 min"));
    }
}

#[test]
fn numbers_of_a_damaged_file_are_bounded() {
    let (_root, folder) = place();
    let mut choices = Choices::new();
    for _ in 0..30 {
        let recorder = made(&folder);
        let file = fs::File::options().write(true).open(folder.join(FILE)).expect("own file");
        let bytes = file.metadata().expect("there").len();
        // The first three words say that the file is one of windows; anything may follow.
        for _ in 0..50 {
            let length = 1 + choices.below(4000) as usize;
            let junk = choices.bytes(length);
            file.write_all_at(&junk, 24 + choices.below(bytes - 24 - length as u64)).expect("own file");
        }
        let reader = Reader::look(&folder, WINDOW, own()).expect("windows");
        for now in [0, 1, 1000, 1010, u64::from(u32::MAX), choices.below(1 << 33)] {
            let (lines, last) = reader.lines_after(choices.below(1 << 33), Duration::from_secs(now));
            assert!(lines.iter().all(|line| line.window <= last && line.counts.read_bytes < 1 << 48));
        }
        let job = recorder.job(1, own(), "job");
        recorder.count(&job, Device::metadata(9), Operation::Stat, 1000 * SECOND, u64::MAX);
        drop(recorder);
        fs::remove_dir_all(&folder).expect("own folder");
    }
}
