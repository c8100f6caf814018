//! OST cost (fullest target over mean) of files that many home servers place at once, as one JSON object.
//!
//! Each home knows its own files, and those of the others up to the last exchange. The store gets files of four stripes,
//! four stripes for each target; files go to homes drawn at random. A key names the allocator, the homes, and the files
//! that a home places between two exchanges on average: 0 stands for one file of the whole store. An argument selects one
//! number of homes.

use weir_placement::online::{Figures, Placer};
use weir_placement::{AllocatorName, LayoutDefaults, LayoutSpecification, ServerId, SplitMix64, TargetId};

const STRIPES_PER_TARGET: usize = 4;
const STRIPES: usize = 4;
const LAMBDA_SECONDS: f64 = 0.1;
const SEEDS: u64 = 2;
/// Numbers of servers and the targets of each.
const STORES: [(u16, u16); 4] = [(1, 8), (7, 5), (64, 8), (450, 8)];
const FILES_PER_EXCHANGE: [usize; 3] = [0, 1, usize::MAX];
const DEFAULTS: LayoutDefaults = LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 0 };

/// The homes of a store that has been filled.
struct Store {
    targets: Vec<TargetId>,
    homes: Vec<Placer>,
    /// Stripes on each target by now.
    stripes: Vec<u32>,
    seconds: f64,
}

impl Store {
    fn new((servers, each): (u16, u16), allocator: AllocatorName, seed: u64) -> Store {
        let of_server = |server| (0..each).map(move |index| TargetId { server: ServerId(server), index });
        let targets: Vec<TargetId> = (0..servers).flat_map(of_server).collect();
        let home = |server: u16| {
            let mut placer = Placer::new(ServerId(server), &targets, DEFAULTS);
            placer.set_seed(seed << 16 ^ u64::from(server));
            placer.set_allocator(allocator);
            placer
        };
        let homes = (0..servers).map(home).collect();
        Store { stripes: vec![0; targets.len()], targets, homes, seconds: 0.0 }
    }

    /// Every home hears what the others placed.
    fn exchange(&mut self) {
        self.seconds += LAMBDA_SECONDS;
        let mut all = vec![0.0; self.targets.len()];
        for home in &self.homes {
            for (sum, (_, bytes)) in all.iter_mut().zip(home.placed_lately()) {
                *sum += bytes;
            }
        }
        for home in &mut self.homes {
            let own: Vec<f64> = home.placed_lately().map(|(_, bytes)| bytes).collect();
            let told = |target: TargetId| {
                let place = self.targets.binary_search(&target).ok()?;
                Some(Figures { placed_bytes: (all[place] - own[place]).max(0.0), ..Figures::UNKNOWN })
            };
            home.refresh(self.seconds, told);
        }
    }

    fn place(&mut self, home: usize, asked: &LayoutSpecification) {
        let home = &mut self.homes[home];
        let placed = home.place(0, Some(asked)).expect("all targets are there");
        home.placed(&placed.layout, self.seconds as i64);
        for target in placed.layout.targets() {
            self.stripes[self.targets.binary_search(target).expect("a target of the store")] += 1;
        }
    }

    fn ost_cost(&self) -> f64 {
        let most = self.stripes.iter().max().copied().unwrap_or(0);
        f64::from(most) * self.stripes.len() as f64 / f64::from(self.stripes.iter().sum::<u32>())
    }
}

fn measure(size: (u16, u16), allocator: AllocatorName, files: usize, seed: u64) -> f64 {
    let mut store = Store::new(size, allocator, seed);
    let mut random = SplitMix64(seed);
    let asked: LayoutSpecification = format!("-c {STRIPES}").parse().expect("a layout");
    let homes = store.homes.len();
    let turn = files.saturating_mul(homes).max(1);
    store.exchange();
    for file in 0..STRIPES_PER_TARGET * store.targets.len() / STRIPES {
        if file > 0 && file.is_multiple_of(turn) {
            store.exchange();
        }
        store.place((random.draw() % homes as u64) as usize, &asked);
    }
    store.ost_cost()
}

fn main() {
    let asked: Option<u16> = std::env::args().nth(1).map(|text| text.parse().expect("a number of homes"));
    let mut fields = Vec::new();
    for size in STORES.into_iter().filter(|size| asked.is_none_or(|homes| homes == size.0)) {
        for name in AllocatorName::NAMES {
            let allocator: AllocatorName = name.parse().expect("a name");
            for files in FILES_PER_EXCHANGE {
                // Exchanges of the greatest store after each file would take hours.
                if files == 0 && size.0 > 64 {
                    continue;
                }
                let costs = (0..SEEDS).map(|seed| measure(size, allocator, files, seed));
                let cost = costs.sum::<f64>() / SEEDS as f64;
                let files = if files == usize::MAX { "all".to_owned() } else { files.to_string() };
                fields.push(format!("\"{name}_{}_homes_{files}_files\": {cost:.2}", size.0));
            }
        }
    }
    println!("{{{}}}", fields.join(", "));
}
