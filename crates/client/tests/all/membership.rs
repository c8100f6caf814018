//! Targets join and retire under programs that read, write, append to and cut their files, whose objects are on every target;
//! servers die in between. At every moment a file holds the bytes that were written to it.

use crate::files::{open, read_all, store_on, CALLER};
use crate::moving::{change_and_compare, read_afresh, target, targets_of};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use weir_client::wire::ObjectMove;
use weir_client::{File, Place, Store, TransportChoice};
use weir_placement::rebalance::{plan, FileObjects, Goal, TargetFill};
use weir_placement::TargetId;
use weir_testing::{servers, wait_until, Choices, Cluster, Stop, PATIENCE};

const FILES: [&str; 2] = ["spread", "second"];

/// The fills of all targets that the servers show.
fn fills(cluster: &Cluster) -> Vec<TargetFill> {
    let statuses = (0..cluster.count()).map(|server| cluster.status(server));
    let targets = statuses.flat_map(|status| status["targets"].as_array().expect("targets").clone());
    let fill = |target: serde_json::Value| TargetFill {
        target: target["target"].as_str().and_then(|name| name.parse().ok()).expect("a name"),
        capacity_bytes: target["capacity_bytes"].as_u64().expect("bytes"),
        used_bytes: target["used_bytes"].as_u64().expect("bytes"),
        class: "any".into(),
    };
    targets.map(fill).collect()
}

/// Moves the objects of the files off the target, as far as that is possible now.
fn drain(cluster: &Cluster, mover: &Store, retiring: TargetId) {
    let goal =
        Goal { tolerance: 0.0, drained: vec![retiring], givers: vec![], receivers: vec![], gather: false };
    for path in FILES {
        let objects = targets_of(mover, path).into_iter().map(|place| (place, 1)).collect();
        let plan = plan(&fills(cluster), &[FileObjects { objects }], &goal);
        assert_eq!(plan.stuck, 0, "{path}: every object has a place to go to");
        let moves: Vec<ObjectMove> =
            plan.moves.iter().map(|one| ObjectMove { from: one.from, to: one.to }).collect();
        if !moves.is_empty() {
            // A file that is cut all the time, or whose server has died, is moved at the next try.
            let _ = mover.move_objects(&CALLER, Place::root(path.as_bytes()), &moves, &mut |_| true);
        }
    }
}

/// Asks a target's server for a change; false where the server is too busy, or the change has to wait.
fn is_changed(cluster: &Cluster, target: TargetId, path: &str, body: &str) -> bool {
    let answer = cluster.change_target(usize::from(target.server.0), path, body);
    assert!([200, 503].contains(&answer.status), "{}", answer.body);
    answer.status == 200
}

/// Lets a target retire, and answers when it has left.
fn retire(cluster: &Cluster, mover: &Store, target: TargetId) {
    let path = format!("{target}/state");
    let change = |state: &str| is_changed(cluster, target, &path, &format!("{{\"state\": \"{state}\"}}"));
    wait_until(&format!("{target} retires"), || change("retiring"));
    wait_until(&format!("{target} is empty"), || {
        drain(cluster, mover, target);
        cluster.objects_on(&target.to_string()) == Some(0)
    });
    wait_until(&format!("{target} has left"), || change("retired"));
}

fn add(cluster: &Cluster, target: TargetId, backend: &str) {
    let body = format!("{{\"backend\": \"{backend}\", \"capacity\": \"256MiB\"}}");
    let joins = || is_changed(cluster, target, &target.to_string(), &body);
    wait_until(&format!("{target} joins"), joins);
}

/// Two clients change two files in turn, each compared with plain bytes at every step, while targets join and retire.
fn model_under_changes(backend: &str, reach: u64) {
    let cluster = Cluster::start(&servers(2, 2, backend, "256MiB"));
    let mut choices = Choices::new();
    let stores = [store_on(&cluster, TransportChoice::Unix), store_on(&cluster, TransportChoice::Tcp)];
    let is_over = AtomicBool::new(false);
    let mover = store_on(&cluster, TransportChoice::Unix);
    let rounds: Vec<u64> = std::thread::scope(|scope| {
        let changers: Vec<_> = FILES
            .iter()
            .map(|path| {
                let (mut choices, stores, is_over) = (choices.branch(), &stores, &is_over);
                let files: Vec<File> = (0..4).map(|index| open(&stores[index % 2], path, false)).collect();
                scope.spawn(move || {
                    let (mut model, mut round) = (Vec::new(), 0);
                    while !is_over.load(Ordering::SeqCst) || round < 100 {
                        let file = &files[choices.below(4) as usize];
                        change_and_compare(file, &mut model, &mut choices, reach, round);
                        round += 1;
                    }
                    for file in &files {
                        assert!(read_all(file, model.len() + 1) == model);
                        file.close(&CALLER).expect("closed");
                    }
                    (round, model)
                })
            })
            .collect();
        let over = Stop::at_end(&is_over);
        // Every file has objects on all targets: with each that retires some target gets a second object of it.
        retire(&cluster, &mover, target(0, 1));
        add(&cluster, target(1, 2), backend);
        retire(&cluster, &mover, target(1, 0));
        retire(&cluster, &mover, target(1, 1));
        retire(&cluster, &mover, target(0, 0));
        drop(over);
        let ended = changers.into_iter().map(|changer| changer.join().expect("no panic"));
        let ended: Vec<(u64, Vec<u8>)> = ended.collect();
        for (path, (_, model)) in FILES.iter().zip(&ended) {
            assert!(read_afresh(&cluster, path, model.len() + 1) == *model, "{path}");
            let places = targets_of(&mover, path);
            assert!(places.iter().all(|place| place.device() == target(1, 2)), "{places:?}");
        }
        ended.into_iter().map(|(rounds, _)| rounds).collect()
    });
    println!("{rounds:?} rounds on {backend}");
    for path in FILES {
        mover.unlink(&CALLER, Place::root(path.as_bytes()), false).expect("removed");
    }
    let used = || fills(&cluster).iter().map(|fill| fill.used_bytes).sum::<u64>();
    wait_until("no byte stays of files that are gone, in whatever slot", || used() == 0);
}

#[test]
fn files_on_all_targets_are_whole_while_targets_join_and_retire() {
    model_under_changes("ram", 400_000);
}

#[test]
fn files_on_disk_are_whole_while_targets_join_and_retire() {
    model_under_changes("dir", 200_000);
}

/// Whichever server dies in the middle of a retirement, the target leaves in the end, and no byte is lost.
#[test]
fn a_retirement_goes_on_after_servers_died() {
    let cluster = Mutex::new(Cluster::start(&servers(2, 2, "dir", "256MiB")));
    let mut choices = Choices::new();
    let store = store_on(&cluster.lock().expect("own"), TransportChoice::Unix);
    let files: Vec<File> = FILES.iter().map(|path| open(&store, path, false)).collect();
    let mut models = vec![Vec::new(); FILES.len()];
    let change = |choices: &mut Choices, models: &mut [Vec<u8>]| {
        for (file, model) in files.iter().zip(models) {
            for round in 0..10 {
                change_and_compare(file, model, choices, 300_000, round);
            }
        }
    };
    for (retiring, victim) in [(target(0, 1), 0), (target(1, 1), 0), (target(1, 0), 1)] {
        change(&mut choices, &mut models);
        let mut cluster = cluster.lock().expect("own");
        let state = format!("{retiring}/state");
        let answer =
            cluster.change_target(usize::from(retiring.server.0), &state, "{\"state\": \"retiring\"}");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mover = store_on(&cluster, TransportChoice::Unix);
        let began = std::time::Instant::now();
        // The server dies at any moment of the moves, and the mover's connection with it. The mover then goes on.
        std::thread::scope(|scope| {
            let fills = fills(&cluster);
            let mover = &mover;
            scope.spawn(move || {
                let goal = Goal {
                    tolerance: 0.0,
                    drained: vec![retiring],
                    givers: vec![],
                    receivers: vec![],
                    gather: false,
                };
                for path in FILES {
                    let objects = targets_of(mover, path).into_iter().map(|place| (place, 1)).collect();
                    for one in plan(&fills, &[FileObjects { objects }], &goal).moves {
                        let one = [ObjectMove { from: one.from, to: one.to }];
                        let _ =
                            mover.move_objects(&CALLER, Place::root(path.as_bytes()), &one, &mut |_| true);
                    }
                }
            });
            std::thread::sleep(std::time::Duration::from_micros(choices.below(20_000)));
            cluster.kill_server(victim);
            cluster.start_server(victim);
        });
        assert!(began.elapsed() < PATIENCE);
        change(&mut choices, &mut models);
        retire(&cluster, &mover, retiring);
        cluster.kill_server(victim);
        cluster.start_server(victim);
        for (path, model) in FILES.iter().zip(&models) {
            assert!(read_afresh(&cluster, path, model.len() + 1) == *model, "{path} after {retiring}");
        }
    }
    for file in &files {
        file.close(&CALLER).expect("closed");
    }
}
