//! One process's part of a store: client id, credential and links. A forked child begins a new part.

use crate::links::Links;
use crate::observer::{Observed, Observer, Observing};
use crate::place::Anchors;
use crate::pool::Link;
use crate::transport::Transport;
use crate::{ClientError, Counters, Result, Settings, TransportChoice};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use weir_placement::ServerId;
use weir_session::{Attempts, Bounds, Turn};
use weir_wire::{ClientId, Cluster, Credential, Role, ServerAddress};

/// Longest cluster.json or credential file that is read: thousands of servers fit.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// Milliseconds between two readings of cluster.json: a name of a server that does not exist costs little.
const LOOK_PAUSE: u64 = 100;
/// Milliseconds between two questions to servers where another one is: a server that is down for long costs the others little.
const ASK_PAUSE: u64 = 1_000;
/// The part of the patience for one dial over TCP, and its bounds: a program that took the port of a server, and says nothing,
/// may keep nobody from the server's new address for longer.
const DIAL_PART: u32 = 4;
const DIAL_MIN: Duration = Duration::from_secs(1);
const DIAL_MAX: Duration = Duration::from_secs(5);
/// Longest wait in one system call, after which a thread looks whether the server lives.
const TICK_MAX: Duration = Duration::from_millis(500);

/// Length of the servers' windows where cluster.json tells none.
const WINDOW_DEFAULT: Duration = Duration::from_secs(1);
/// Longest window that servers have.
const WINDOW_SECONDS_MAX: f64 = 60.0;

/// One process's part of a store.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: ClientId,
    readings: Reading,
    pub(crate) links: Links,
    /// The time of the last reading of cluster.json, in milliseconds of the session's clock.
    looked: AtomicU64,
    /// The time of the last question to servers where another one is, in the same clock.
    asked: AtomicU64,
    pub(crate) next_request: AtomicU64,
    pub(crate) anchors: Anchors,
    origin: Instant,
    observed: Observed,
    generation: u32,
}

/// One reading of the credential's file, and the next reading that found another credential. No thread waits for a reading,
/// as for [`Generations`].
#[derive(Debug)]
struct Reading {
    credential: Credential,
    next: OnceLock<Box<Reading>>,
}

/// The sessions of a process and its ancestors: one for each `fork` between them.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    first: Node,
    generation: AtomicU32,
}

#[derive(Debug, Default)]
struct Node {
    session: OnceLock<Session>,
    next: OnceLock<Box<Node>>,
}

/// The patience of a call with silent servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// The call waits as long as the settings say.
    Full,
    /// The call waits half as long, and not at all for a server that takes no connection.
    Brief,
}

/// The parts of a store that every call needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment<'s> {
    patience: Patience,
    session: &'s Session,
    generations: &'s Generations,
    settings: &'s Settings,
    counters: &'s Counters,
    observer: Option<Observer<'s>>,
    transport: &'s dyn Transport,
    turn: Option<&'s Turn>,
}

/// The form of cluster.json.
#[derive(serde::Deserialize)]
struct ClusterFile {
    version: u32,
    servers: Vec<ServerAddress>,
    /// Length of the servers' windows, so that those of clients fit them.
    window_seconds: Option<f64>,
}

impl Generations {
    /// The session of this process, which its first call begins.
    pub(crate) fn current(&self, settings: &Settings) -> Result<&Session> {
        let generation = self.generation.load(Ordering::Acquire);
        let node = self.node(generation);
        if let Some(session) = node.session.get() {
            return Ok(session);
        }
        // The session is made outside of the cell. A signal handler in the midst makes its own, and one of the two is kept.
        let fresh = Session::begin(settings, generation)?;
        Ok(node.session.get_or_init(|| fresh))
    }

    /// Has the process go on with this session. `EBUSY` where the process began one.
    pub(crate) fn begin_with(&self, session: Session) -> Result<()> {
        let node = self.node(self.generation.load(Ordering::Acquire));
        node.session.set(session).map_err(|_| ClientError::number(libc::EBUSY))
    }

    /// The session of this process, if the process began one.
    pub(crate) fn begun(&self) -> Option<&Session> {
        self.node(self.generation.load(Ordering::Acquire)).session.get()
    }

    /// Begins a new generation. Answers the session of the former generation.
    pub(crate) fn advance(&self) -> Option<&Session> {
        let former = self.begun();
        self.generation.fetch_add(1, Ordering::AcqRel);
        former
    }

    fn node(&self, generation: u32) -> &Node {
        let mut node = &self.first;
        for _ in 0..generation {
            if node.next.get().is_none() {
                let fresh = Box::default();
                node.next.get_or_init(|| fresh);
            }
            match node.next.get() {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

impl Session {
    fn begin(settings: &Settings, generation: u32) -> Result<Session> {
        let (cluster, window) = read_cluster_and_window(settings)?;
        let first = cluster.servers.iter().min_by_key(|address| address.server);
        let store = first.map_or(0, |address| weir_windows::store_of(&address.tcp));
        let credential = read_credential(settings)?;
        let is_mount = credential.claims.role == Role::Mount;
        let mut client = [0; 8];
        fill_random(&mut client)?;
        Ok(Session {
            client: ClientId(u64::from_le_bytes(client)),
            readings: Reading { credential, next: OnceLock::new() },
            links: Links::new(cluster.servers, is_mount),
            looked: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            next_request: AtomicU64::new(1),
            anchors: Anchors::default(),
            origin: Instant::now(),
            observed: Observed { store, window },
            generation,
        })
    }

    /// The session of a program that goes on as the client of the program before.
    pub(crate) fn resumed(settings: &Settings, client: ClientId, next_request: u64) -> Result<Session> {
        let session = Session::begin(settings, 0)?;
        Ok(Session { client, next_request: AtomicU64::new(next_request), ..session })
    }

    /// The number of the store.
    pub(crate) fn store(&self) -> u64 {
        self.observed.store
    }

    /// The credential of the last reading, and the number of that reading.
    pub(crate) fn credential(&self) -> (&Credential, usize) {
        let (mut reading, mut number) = (&self.readings, 0);
        while let Some(next) = reading.next.get() {
            (reading, number) = (next, number + 1);
        }
        (&reading.credential, number)
    }

    /// Reads the credential's file again after a server refused the credential of reading `number`. Answers whether the file
    /// holds another credential of the same user now.
    fn renew(&self, settings: &Settings, number: usize) -> bool {
        let (known, latest) = self.credential();
        if latest > number {
            return true;
        }
        let Ok(fresh) = read_credential(settings) else { return false };
        if fresh == *known || fresh.claims.uid != known.claims.uid {
            return false;
        }
        let mut last = &self.readings;
        while let Some(next) = last.next.get() {
            last = next;
        }
        // Another thread may have been faster: its reading is as good.
        let _ = last.next.set(Box::new(Reading { credential: fresh, next: OnceLock::new() }));
        true
    }

    /// The milliseconds of the session's clock.
    pub(crate) fn milliseconds(&self) -> u64 {
        // The clock begins at 1, so that 0 means "never".
        self.now().as_millis() as u64 + 1
    }

    /// The time since the session began.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A moment of the session as the system's clock has it.
    pub(crate) fn instant(&self, moment: Duration) -> Instant {
        self.origin + moment
    }
}

impl<'s> Environment<'s> {
    pub(crate) fn new(
        generations: &'s Generations,
        (settings, counters): (&'s Settings, &'s Counters),
        observing: &'s Observing,
        transport: &'s dyn Transport,
    ) -> Result<Environment<'s>> {
        let session = generations.current(settings)?;
        let observer = observing.observer(settings, session.observed, &session.readings.credential.claims);
        let patience = Patience::Full;
        Ok(Environment {
            patience,
            session,
            generations,
            settings,
            counters,
            observer,
            transport,
            turn: None,
        })
    }

    /// The environment of a call that is useful without the answers of some servers, and does not report lost servers.
    pub(crate) fn brief(self) -> Environment<'s> {
        Environment { patience: Patience::Brief, ..self }
    }

    /// The environment of calls in an append turn.
    pub(crate) fn in_turn(self, turn: &'s Turn) -> Environment<'s> {
        Environment { turn: Some(turn), ..self }
    }

    pub(crate) fn turn(&self) -> Option<&'s Turn> {
        self.turn
    }

    /// The link to a server. A server that is not known may have joined the store.
    pub(crate) fn link(&self, server: ServerId) -> Result<&'s Link> {
        let links = &self.session.links;
        let known = links.find(server).or_else(|| {
            self.look_for_servers();
            links.find(server)
        });
        known.ok_or(ClientError::UnknownServer(server))
    }

    /// Reads cluster.json again for servers that joined the store or are elsewhere now, unless that was done a moment ago.
    pub(crate) fn look_for_servers(&self) {
        let (session, now) = (self.session, self.session.milliseconds());
        let looked = session.looked.load(Ordering::Relaxed);
        if looked > 0 && now < looked + LOOK_PAUSE {
            return;
        }
        session.looked.store(now, Ordering::Relaxed);
        if let Ok(cluster) = read_cluster(self.settings) {
            let is_mount = session.credential().0.claims.role == Role::Mount;
            session.links.extend(cluster.servers, is_mount);
        }
    }

    /// Whether other servers may be asked where the server of a link is, which counts as done then. One with a socket on this
    /// host is reached there.
    pub(crate) fn may_ask_where(&self, link: &Link) -> bool {
        if link.address().unix.is_some() && self.settings.transport != TransportChoice::Tcp {
            return false;
        }
        let (session, now) = (self.session, self.session.milliseconds());
        let asked = session.asked.load(Ordering::Relaxed);
        if asked > 0 && now < asked + ASK_PAUSE {
            return false;
        }
        session.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The longest time for one dial.
    pub(crate) fn dial_max(&self) -> Duration {
        (self.settings.silence / DIAL_PART).clamp(DIAL_MIN, DIAL_MAX)
    }

    pub(crate) fn session(&self) -> &'s Session {
        self.session
    }

    pub(crate) fn counters(&self) -> &'s Counters {
        self.counters
    }

    pub(crate) fn transport(&self) -> &'s dyn Transport {
        self.transport
    }

    /// Whether the credential's file holds another credential than that of reading `number`, which a server refused.
    pub(crate) fn renew(&self, number: usize) -> bool {
        self.session.renew(self.settings, number)
    }

    /// Waits until the next attempt of a call.
    ///
    /// # Errors
    /// The errors of [`Attempts::again`].
    pub(crate) fn again(&self, attempts: &mut Attempts) -> Result<()> {
        match attempts.again(self.now())? {
            Duration::ZERO => {}
            pause => std::thread::sleep(pause),
        }
        Ok(())
    }

    /// The bound on the silence of servers for a whole call: time spent on one server is not spent on the next.
    pub(crate) fn silence(&self) -> Duration {
        match self.patience {
            Patience::Full => self.settings.silence,
            Patience::Brief => self.settings.silence / 2,
        }
    }

    /// The patience of the call.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { silence: self.silence(), tries_again: self.patience == Patience::Full }
    }

    /// The time since the session began.
    pub(crate) fn now(&self) -> Duration {
        self.session.now()
    }

    /// Whether the caller can write through a mount instead.
    pub(crate) fn has_mount(&self) -> bool {
        self.settings.has_mount
    }

    /// The longest wait in one system call.
    pub(crate) fn tick(&self) -> Duration {
        (self.settings.silence / 8).min(TICK_MAX)
    }

    /// Notes that the server answered. Answers the moment.
    pub(crate) fn heard(&self, link: &Link) -> Duration {
        let now = self.now();
        link.standing.note_heard(now);
        now
    }

    /// The process's place in the windows, where requests are counted.
    pub(crate) fn observer(&self) -> Option<Observer<'s>> {
        self.observer
    }

    /// Fails where the server has just let another call wait in vain.
    pub(crate) fn check_silent(&self, link: &Link) -> Result<()> {
        if link.standing.fails_at_once(self.now()) {
            return Err(self.lost(link));
        }
        Ok(())
    }

    /// Notes that the server is lost. The last attempt waited for the time `waited`.
    pub(crate) fn lose(&self, link: &Link, waited: Duration) -> ClientError {
        if self.patience == Patience::Full {
            link.standing.lose(self.now(), waited);
            Counters::add(&self.counters.lost, 1);
        }
        self.lost(link)
    }

    /// The error of a call to a server that is lost.
    pub(crate) fn lost(&self, link: &Link) -> ClientError {
        let is_another = link.standing.is_another.load(Ordering::Relaxed);
        ClientError::Lost {
            server: link.server(),
            waited_seconds: self.settings.silence.as_secs(),
            is_another,
        }
    }

    /// Fails in the child of a fork that a signal handler made in the midst of this call.
    pub(crate) fn check_generation(&self) -> Result<()> {
        if self.generations.generation.load(Ordering::Acquire) != self.session.generation {
            return Err(ClientError::number(libc::EIO));
        }
        Ok(())
    }

    /// The error of a reply that does not answer the request.
    pub(crate) fn unexpected(&self, link: &Link, request: &'static str) -> ClientError {
        ClientError::UnexpectedReply { server: link.server(), request }
    }
}

/// Reads cluster.json.
pub(crate) fn read_cluster(settings: &Settings) -> Result<Cluster> {
    read_cluster_and_window(settings).map(|(cluster, _)| cluster)
}

/// Reads cluster.json, and the length of the store's windows in it.
fn read_cluster_and_window(settings: &Settings) -> Result<(Cluster, Duration)> {
    let hint = "start the servers with `weir up`, and point WEIR_CLUSTER at its cluster.json";
    let bad = |reason: String| ClientError::Settings {
        what: format!("cannot use {}: {reason}", settings.cluster.display()),
        hint,
    };
    let bytes = read_file(&settings.cluster).map_err(|errno| bad(errno.to_string()))?;
    let file: ClusterFile = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    if file.version != 1 {
        return Err(bad(format!("version {} where this program reads 1", file.version)));
    }
    if file.servers.is_empty() {
        return Err(bad("it lists no server".to_owned()));
    }
    let seconds = file.window_seconds.filter(|seconds| (0.0..=WINDOW_SECONDS_MAX).contains(seconds));
    let window = seconds.map_or(WINDOW_DEFAULT, Duration::from_secs_f64);
    Ok((Cluster { servers: file.servers }, window))
}

fn read_credential(settings: &Settings) -> Result<Credential> {
    let hint = "point WEIR_CREDENTIAL at a credential made by `weir up`, `weir run` or `weir grant`";
    let bad = |reason: String| ClientError::Settings {
        what: format!("cannot use {}: {reason}", settings.credential.display()),
        hint,
    };
    let bytes = read_file(&settings.credential).map_err(|errno| match errno {
        Errno::ACCESS => ClientError::NotOurs {
            what: format!("this user may not read {}", settings.credential.display()),
            hint: "use a credential of this user's own, made by `weir run` or `weir grant`",
        },
        errno => bad(errno.to_string()),
    })?;
    Credential::from_json(&String::from_utf8_lossy(&bytes)).map_err(|error| bad(error.to_string()))
}

/// Reads a file by direct system calls, which no hook of this process sees.
fn read_file(path: &Path) -> std::result::Result<Vec<u8>, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; 16 * 1024];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled >= FILE_BYTES {
                return Err(Errno::FBIG);
            }
            bytes.resize(filled * 2, 0);
        }
        match rustix::io::read(&file, &mut bytes[filled..]) {
            Ok(0) => {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Fills `bytes` from the kernel's random source.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ClientError::number(errno.raw_os_error())),
        }
    }
    Ok(())
}
