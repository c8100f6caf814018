//! The time of one decision with all jobs backlogged: `decision` takes a request out and queues its
//! job's next one, `dispatch` only takes it out.
//!
//! Beside them, the same rule on binary heaps, which has the easier task: flat, without the job
//! table, limits, accounts, grace or cancellation of a scheduler.

// The harness's macros make public items without documentation.
#![allow(missing_docs)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion};
use weir_fairshare::{
    scheduler, Algorithm, CostModel, DeviceSpeed, Direction, GroupId, JobAttributes, JobId, JobName, Nanos,
    Policy, Priority, Scheduler, Settings, Sharing, Token, TransferSpeed, UserId,
};

const JOBS: [u64; 3] = [10, 1_000, 10_000];
/// Enough that the largest job never runs out within a batch.
const QUEUED_PER_JOB: u64 = 8;

/// Job sizes as a machine sees them: many small, few large.
fn nodes(job: u64) -> u32 {
    1 << (job.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61)
}

fn cost(turn: u64) -> Nanos {
    Nanos(20_000 + (turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44))
}

fn backlogged(policy: &str, jobs: u64) -> Box<dyn Scheduler> {
    backlogged_under(&Sharing::of(policy.parse().expect("a policy's name")), jobs)
}

fn backlogged_under(sharing: &Sharing, jobs: u64) -> Box<dyn Scheduler> {
    let mut scheduler = scheduler(sharing, Settings::default());
    for id in 0..jobs {
        let attributes = JobAttributes {
            job: JobId(id),
            name: JobName(id),
            user: UserId(id / 20),
            group: GroupId(id / 400),
            nodes: nodes(id),
            priority: Priority(0),
        };
        scheduler.upsert_job(attributes, Nanos::ZERO);
        for turn in 0..QUEUED_PER_JOB {
            let token = Token(id * QUEUED_PER_JOB + turn);
            scheduler.enqueue(JobId(id), token, cost(token.0), Nanos::ZERO).expect("within the limits");
        }
    }
    scheduler
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for policy in Policy::NAMES {
        for jobs in JOBS {
            let mut scheduler = backlogged(policy, jobs);
            let mut now = 0;
            group.bench_function(BenchmarkId::new(policy, jobs), |bencher| {
                bencher.iter(|| {
                    now += 1;
                    let dispatch = scheduler.dispatch(Nanos(now)).expect("all are backlogged");
                    scheduler
                        .enqueue(dispatch.job, Token(now), cost(now), Nanos(now))
                        .expect("within the limits");
                    black_box(dispatch)
                })
            });
        }
    }
    group.finish();
}

/// The schedulers that Weir is compared with, under one policy. The clock goes on by the dispatched time, because `tbf`
/// and `gift` serve by the time.
fn rivals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rivals");
    for algorithm in [Algorithm::StatisticalToken, Algorithm::Tbf, Algorithm::Gift] {
        let policy = "size-fair".parse().expect("a policy's name");
        let sharing = Sharing::new(policy, Some(algorithm), Arc::default()).expect("they go together");
        for jobs in JOBS {
            let mut scheduler = backlogged_under(&sharing, jobs);
            let (mut now, mut turn) = (Nanos::ZERO, 0);
            group.bench_function(BenchmarkId::new(algorithm.to_string(), jobs), |bencher| {
                bencher.iter(|| {
                    turn += 1;
                    while let Some(release) = scheduler.next_release().filter(|release| *release > now) {
                        now = release;
                    }
                    let dispatch = scheduler.dispatch(now).expect("all are backlogged");
                    now = now + dispatch.cost;
                    let queued = scheduler.enqueue(dispatch.job, Token(turn), cost(turn), now);
                    queued.expect("within the limits");
                    black_box(dispatch)
                })
            });
        }
    }
    group.finish();
}

/// Dispatch alone: batches from queues that are filled up again between them, unmeasured.
fn dispatches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatch");
    for policy in Policy::NAMES {
        for jobs in JOBS {
            let mut scheduler = backlogged(policy, jobs);
            let mut batch = Batch { turns: (jobs / 8).max(8), now: 0, taken: Vec::new() };
            for _ in 0..80 {
                batch.run(&mut *scheduler, u64::MAX);
            }
            group.bench_function(BenchmarkId::new(policy, jobs), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut spent = Duration::ZERO;
                    let mut left = iterations;
                    while left > 0 {
                        let (turns, took) = batch.run(&mut *scheduler, left);
                        spent += took;
                        left -= turns;
                    }
                    spent
                })
            });
        }
    }
    group.finish();
}

struct Batch {
    turns: u64,
    now: u64,
    taken: Vec<JobId>,
}

impl Batch {
    /// Dispatches at most `turns_max` requests; returns how many, and the time that took.
    fn run(&mut self, scheduler: &mut dyn Scheduler, turns_max: u64) -> (u64, Duration) {
        let turns = self.turns.min(turns_max);
        let began = Instant::now();
        for _ in 0..turns {
            self.taken.extend(scheduler.dispatch(Nanos(self.now)).map(|dispatch| dispatch.job));
        }
        let took = began.elapsed();
        for job in self.taken.drain(..) {
            self.now += 1;
            let queued = scheduler.enqueue(job, Token(self.now), cost(self.now), Nanos(self.now));
            queued.expect("within the limits");
        }
        (turns, took)
    }
}

/// The same rule (eligible by start, earliest finish first) on two binary heaps.
struct Heaps {
    queues: Vec<VecDeque<u64>>,
    virtual_time: u128,
    weight: u128,
    /// Waiting items by start, with the finish.
    waiting: BinaryHeap<Reverse<(u128, u128, u64)>>,
    /// Eligible items by finish.
    eligible: BinaryHeap<Reverse<(u128, u64)>>,
}

impl Heaps {
    fn backlogged(jobs: u64) -> Heaps {
        let queue = |job| (0..QUEUED_PER_JOB).map(|turn| cost(job + turn).0).collect();
        let mut heaps = Heaps {
            queues: (0..jobs).map(queue).collect(),
            virtual_time: 0,
            weight: (0..jobs).map(|job| u128::from(nodes(job))).sum(),
            waiting: BinaryHeap::new(),
            eligible: BinaryHeap::new(),
        };
        for job in 0..jobs {
            heaps.put(job, 0);
        }
        heaps
    }

    fn put(&mut self, job: u64, start: u128) {
        let cost = self.queues[job as usize][0];
        let finish = start + u128::from((cost << 22) / u64::from(nodes(job)));
        if start <= self.virtual_time {
            self.eligible.push(Reverse((finish, job)));
        } else {
            self.waiting.push(Reverse((start, finish, job)));
        }
    }

    fn decide(&mut self, next_cost: u64) -> u64 {
        let Reverse((finish, job)) = self.eligible.pop().expect("all are backlogged");
        let queue = &mut self.queues[job as usize];
        queue.push_back(next_cost);
        let served = queue.pop_front().expect("all are backlogged");
        self.virtual_time += u128::from(served << 22) / self.weight;
        self.put(job, finish);
        while let Some(&Reverse((start, finish, job))) = self.waiting.peek() {
            if self.eligible.is_empty() {
                self.virtual_time = self.virtual_time.max(start);
            }
            if start > self.virtual_time {
                break;
            }
            self.waiting.pop();
            self.eligible.push(Reverse((finish, job)));
        }
        job
    }
}

fn heaps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("binary-heaps");
    for jobs in JOBS {
        let mut heaps = Heaps::backlogged(jobs);
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("size-fair", jobs), |bencher| {
            bencher.iter(|| {
                turn += 1;
                black_box(heaps.decide(cost(turn).0))
            })
        });
    }
    group.finish();
}

fn costs(criterion: &mut Criterion) {
    let speed = TransferSpeed {
        fixed: Nanos::from_micros(20),
        bytes_per_second: 2_000_000_000.try_into().expect("not zero"),
    };
    let mut model = CostModel::learned(DeviceSpeed { read: speed, write: speed });
    let mut bytes = 0;
    criterion.bench_function("cost/estimate", |bencher| {
        bencher.iter(|| {
            bytes = (bytes + 4_096) & 0xF_FFFF;
            black_box(model.estimate(Direction::Write, bytes))
        })
    });
    criterion.bench_function("cost/observe", |bencher| {
        bencher.iter(|| {
            bytes = (bytes + 4_096) & 0xF_FFFF;
            model.observe(Direction::Write, bytes, Nanos(30_000 + bytes / 2));
        })
    });
}

criterion_group!(benches, decisions, rivals, dispatches, heaps, costs);
criterion_main!(benches);
