//! The event loop: waits, reads, serves, sends.

use crate::activation::{Passed, CONTROL, DATA};
use crate::control;
use crate::descriptors::budget;
use crate::home::Folders;
use crate::host::Machine;
use crate::journal::DirectoryStorage;
use crate::machine_time::MachineTime;
use crate::peers::Threads;
use crate::ports::{listen, peer_user, resolve, Listening};
use crate::sockets::{link_of, polled};
use crate::workers::WorkerPool;
use mio::net::{TcpListener, UnixListener};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Registry, Token};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;
use weir_core::audit::Audit;
use weir_core::clock::Time;
use weir_core::config::{BackendKind, ClusterConfig, Place};
use weir_core::error::ServerError;
use weir_core::events::{Event, Events};
use weir_core::identity::Consent;
use weir_core::links::admission::Origin;
use weir_core::links::socket::Socket;
use weir_core::notices::notice;
use weir_core::notices::Notice;
use weir_core::server::{Outside, Server};
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{ServerAddress, SiteKey};

const WAKER: Token = Token(0);
const TIMER: Token = Token(1);
const TCP: Token = Token(2);
const UNIX: Token = Token(3);
/// Events taken in one turn: a turn stays well below a millisecond.
const EVENTS_PER_TURN: usize = 256;
/// Longest path of a Unix socket (sun_path without its final zero).
const SOCKET_PATH_MAX: usize = 107;
/// A wait never takes longer, whatever the deadlines say.
const WAIT_MAX: Nanos = Nanos::from_millis(500);

/// Connections taken from one listener in one turn: with more of them the clients that are served would wait longer.
const ACCEPTS: usize = 64;
/// A host that lost its power or its network says nothing, and its clients would keep their locks for ever. The kernel asks it
/// after this silence, and then at this interval.
const HOST_ASKED_AFTER: Duration = Duration::from_secs(10);
const HOST_ASKED_EVERY: Duration = Duration::from_secs(5);
/// The silence after which the connections of a host end. It is three times the silence after which clients give a server up, so a
/// client that goes on keeps its holdings.
const HOST_LOST_AFTER: Duration = Duration::from_secs(30);
/// Pause after a failed accept: a descriptor may be free then.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

/// Ends the wait of the loop.
struct LoopWaker(mio::Waker);

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.0.wake();
    }
}

struct Doors {
    tcp: TcpListener,
    unix: Option<UnixListener>,
    /// The poll of the loop, which tells of each connection.
    registry: Rc<Registry>,
    timer: OwnedFd,
    /// The moment at which the timer will wake the loop; none once it has.
    armed: Option<Nanos>,
    /// The moment of the next try after an accept failed: the poll tells of each arrival once.
    accept_again: Option<Nanos>,
}

/// Runs server `id` of the store until it is told to stop.
///
/// # Errors
/// [`ServerError`] when it cannot start, or its loop cannot go on.
pub fn run(config: ClusterConfig, id: ServerId, home: &Path, consent: Consent) -> Result<(), ServerError> {
    let io = |what: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |source| ServerError::Io { what, path, source }
    };
    let passed = Passed::take()?;
    // Other processes find the socket by this path, wherever they stand.
    let home = &std::path::absolute(home).map_err(io("find", home))?;
    let key = read_key(home)?;
    let folder = home.join(format!("servers/{id}"));
    std::fs::create_dir_all(&folder).map_err(io("make the folder", &folder))?;

    let lost = |what: &'static str| move |source: std::io::Error| ServerError::Loop { what, source };
    let mut poll = Poll::new().map_err(lost("make a poll"))?;
    let waker = mio::Waker::new(poll.registry(), WAKER).map_err(lost("make a waker"))?;
    let (events, receiver) = Events::new(Waker::from(Arc::new(LoopWaker(waker))));
    stop_on_signals(events.clone())?;
    let own = config.servers[usize::from(id.0)].clone();
    let ports = config.ports.clone();
    let has_ports = |name, address: &str, passed| {
        let address = address.to_string();
        let listening = listen(name, (&address, ports.as_ref()), passed);
        listening.map_err(|source| ServerError::Listen { address, source })
    };
    let rules = control::Rules::new(&config, id, key.clone())?;
    let directories = own.targets.iter().filter(|target| target.backend == BackendKind::Dir).count();
    let budget = budget(config.servers.len(), directories)?;
    let time: Arc<dyn Time> = Arc::new(MachineTime::start());
    let outside = Outside {
        home: Box::new(Folders::of((id, &key), home, budget.objects)),
        host: Box::new(Machine),
        lines: Box::new(Threads::new(home, events.clone())),
        workers: Box::new(WorkerPool::start(&events, &time)?),
        time,
    };
    let mut server = Server::open(config, id, key, outside, budget, consent)?;
    let _alone = alone_in(&folder)?;
    let data = has_ports(DATA, &own.listen, passed.data)?;
    let control = has_ports(CONTROL, &own.control, passed.control)?;
    let place = Place { tcp: data.address.clone(), control: control.address.clone() };
    let taken = [&data, &control].into_iter().filter_map(|door| door.taken.clone());
    server.settle_at(place, taken.collect())?;
    let (mut doors, mut address) = open_doors(&poll, data, &folder, id)?;
    let audit = Audit::open(DirectoryStorage::at(&folder));
    let desk = (events, server.boards());
    address.control = control::start(control, &own.control, (rules, audit), desk, budget.callers)?;
    announce(&folder, &address)?;
    notice!("server {id} listens on {}, control on {}", address.tcp, address.control);
    server.announce(address);
    server.meet_peers()?;
    server.forget_written_names();
    let outcome = turn_until_stopped(&mut poll, &mut server, &mut doors, &receiver);
    server.close_journal();
    // The files say that the server is up; a missing one is as good as a removed one.
    let _ = std::fs::remove_file(folder.join("address.json"));
    let _ = std::fs::remove_file(folder.join("socket"));
    outcome
}

/// Looks whether the folders of server `id` are the right ones, and changes nothing.
///
/// # Errors
/// [`ServerError::Identity`] of the first one that is not, and as [`run`].
pub fn check(config: ClusterConfig, id: ServerId, home: &Path, consent: Consent) -> Result<(), ServerError> {
    let key = match home.join("site.key").exists() || !consent.is_first_run {
        true => read_key(home)?,
        // A store without a key is new, and no folder is its own yet.
        false => SiteKey::new(drawn_key()?),
    };
    weir_core::server::check(config, id, &Folders::of((id, &key), home, 0), consent)
}

fn drawn_key() -> Result<[u8; 32], ServerError> {
    let mut key = [0; 32];
    let drawn = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|errno| ServerError::Loop { what: "draw a key", source: errno.into() })?;
    Ok(key)
}

/// Reads the site's key of a home.
///
/// # Errors
/// It is missing, no key, or open to others.
pub(crate) fn read_key(home: &Path) -> Result<SiteKey, ServerError> {
    let path = home.join("site.key");
    let what = "read the site key";
    let text = crate::privacy::read_secret(&path);
    let text = text.map_err(|source| ServerError::Io { what, path: path.clone(), source })?;
    SiteKey::from_hex(&text).map_err(|error| {
        let source = io::Error::new(ErrorKind::InvalidData, error);
        ServerError::Io { what, path, source }
    })
}

fn turn_until_stopped(
    poll: &mut Poll,
    server: &mut Server,
    doors: &mut Doors,
    receiver: &Receiver<Event>,
) -> Result<(), ServerError> {
    let mut ready = mio::Events::with_capacity(EVENTS_PER_TURN);
    loop {
        server.read_clock();
        let deadline = server.next_deadline().min(doors.accept_again.unwrap_or(server.now() + WAIT_MAX));
        let timeout =
            if server.has_work() { Some(Duration::ZERO) } else { doors.arm(deadline, server.now())? };
        match poll.poll(&mut ready, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(ServerError::Loop { what: "wait for events", source }),
        }
        server.begin_turn();
        for event in &ready {
            match event.token() {
                WAKER => {}
                TIMER => doors.armed = None,
                TCP | UNIX => doors.accept(server),
                token => server.link_ready(link_of(token), event.is_readable(), event.is_read_closed()),
            }
        }
        if doors.accept_again.is_some_and(|again| again <= server.now()) {
            doors.accept(server);
        }
        for _ in 0..EVENTS_PER_TURN {
            match receiver.try_recv() {
                Ok(Event::Stop) => return Ok(()),
                Ok(event) => server.handle_event(event),
                Err(_) => break,
            }
        }
        server.end_turn();
    }
}

/// Takes up to [`ACCEPTS`] connections that have arrived; answers the error that kept it from the next, or nothing where there may
/// be more.
fn accept_some(
    server: &mut Server,
    mut next: impl FnMut() -> io::Result<(Box<dyn Socket>, Origin)>,
) -> Option<io::Error> {
    for _ in 0..ACCEPTS {
        match next() {
            Ok((socket, origin)) => server.accept(socket, origin),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(error),
            Err(error) if is_want_of_room(&error) => {
                if !server.free_descriptor() {
                    return Some(error);
                }
            }
            // The connection that was to be taken is gone (accept(2)).
            Err(_) => {}
        }
    }
    None
}

/// Whether the system has no descriptor or memory for a connection.
fn is_want_of_room(error: &io::Error) -> bool {
    let wants = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|raw| wants.contains(&Errno::from_raw_os_error(raw)))
}

fn next_tcp(listener: &TcpListener, registry: &Rc<Registry>) -> io::Result<(Box<dyn Socket>, Origin)> {
    let (stream, address) = listener.accept()?;
    // Replies are written whole, so waiting to gather more would only delay them.
    let _ = stream.set_nodelay(true);
    // A system that refuses these keeps the holdings of a lost host for longer; its clients are served all the same.
    let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, HOST_ASKED_AFTER);
    let _ = rustix::net::sockopt::set_tcp_keepintvl(&stream, HOST_ASKED_EVERY);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, HOST_LOST_AFTER.as_millis() as u32);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    Ok((polled(stream, registry), Origin::Host(address.ip())))
}

fn next_unix(listener: &UnixListener, registry: &Rc<Registry>) -> io::Result<(Box<dyn Socket>, Origin)> {
    let (stream, _) = listener.accept()?;
    // The default of 208 KiB makes a stripe take several turns of both sides; a refusal costs only speed.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, 2 << 20);
    let user = peer_user(&stream)?;
    Ok((polled(stream, registry), Origin::User(user)))
}

fn open_doors(
    poll: &Poll,
    data: Listening,
    folder: &Path,
    id: ServerId,
) -> Result<(Doors, ServerAddress), ServerError> {
    let Listening { listener, address: listen, .. } = data;
    let refused = |source: std::io::Error| ServerError::Listen { address: listen.clone(), source };
    let lost = |what: &'static str| move |source: std::io::Error| ServerError::Loop { what, source };
    listener.set_nonblocking(true).map_err(refused)?;
    let mut tcp = TcpListener::from_std(listener);
    poll.registry().register(&mut tcp, TCP, Interest::READABLE).map_err(lost("watch the listener"))?;

    let path = folder.join("socket");
    let _ = std::fs::remove_file(&path);
    let mut unix = match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => Some(UnixListener::bind(&path).map_err(|source| ServerError::Io {
            what: "listen on the socket",
            path: path.clone(),
            source,
        })?),
        _ => None,
    };
    if let Some(unix) = &mut unix {
        // Every client is asked for a credential, so the socket is open to every user of the host.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let opened = std::fs::set_permissions(&path, open);
        opened.map_err(|source| ServerError::Io { what: "open to all users", path: path.clone(), source })?;
        poll.registry().register(unix, UNIX, Interest::READABLE).map_err(lost("watch the socket"))?;
    }

    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
    let timer = timer.map_err(|errno| ServerError::Loop { what: "make a timer", source: errno.into() })?;
    let source = timer.as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&source), TIMER, Interest::READABLE)
        .map_err(lost("watch the timer"))?;
    let address = ServerAddress {
        server: id,
        tcp: resolve(&listen).map_err(refused)?.to_string(),
        unix: unix.is_some().then(|| path.display().to_string()),
        owner: rustix::process::geteuid().as_raw(),
        control: String::new(),
    };
    let registry = Rc::new(poll.registry().try_clone().map_err(lost("share the poll"))?);
    Ok((Doors { tcp, unix, registry, timer, armed: None, accept_again: None }, address))
}

impl Doors {
    /// Takes some of the connections that have arrived, and the others in the next turn; where no descriptor is free for them, soon.
    fn accept(&mut self, server: &mut Server) {
        let tcp = accept_some(server, || next_tcp(&self.tcp, &self.registry));
        let unix =
            self.unix.as_ref().map(|listener| accept_some(server, || next_unix(listener, &self.registry)));
        let outcomes = [Some(tcp), unix].into_iter().flatten();
        let now = server.now();
        let mut again = None;
        for outcome in outcomes {
            match outcome {
                None => again = Some(now),
                Some(error) if error.kind() == ErrorKind::WouldBlock => {}
                Some(error) => {
                    again = again.or(Some(now + ACCEPT_PAUSE));
                    server.notices().tell(Notice::NoDescriptor, now, || {
                        format!("connections wait: {error}; hint: raise the limit of open files (ulimit -n)")
                    });
                }
            }
        }
        self.accept_again = again;
    }

    /// Sets the timer, where it is not set to an earlier time: poll's own timeout counts in milliseconds, which is coarser
    /// than an emulated request.
    fn arm(&mut self, deadline: Nanos, now: Nanos) -> Result<Option<Duration>, ServerError> {
        let wait = deadline.saturating_since(now);
        if wait == Nanos::ZERO {
            return Ok(Some(Duration::ZERO));
        }
        if self.armed.is_some_and(|armed| armed <= deadline && armed > now) {
            return Ok(None);
        }
        let value =
            Timespec { tv_sec: (wait.0 / 1_000_000_000) as i64, tv_nsec: (wait.0 % 1_000_000_000) as i64 };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )
        .map_err(|errno| ServerError::Loop { what: "set the timer", source: errno.into() })?;
        self.armed = Some(deadline);
        Ok(None)
    }
}

/// Takes the folder of the server for as long as the file is open: no port keeps a second server of this number away.
fn alone_in(folder: &Path) -> Result<File, ServerError> {
    let taken =
        File::open(folder).and_then(|file| match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                Err(io::Error::other("it is in use by another server; hint: stop that server first"))
            }
            Err(errno) => Err(errno.into()),
        });
    taken.map_err(|source| ServerError::Io { what: "run in", path: folder.to_path_buf(), source })
}

/// Tells clients and peers on this host the server's addresses; the file appears whole or not at all.
fn announce(folder: &Path, address: &ServerAddress) -> Result<(), ServerError> {
    let path = folder.join("address.json");
    let temporary = folder.join("address.json.new");
    let text = serde_json::to_string(address).unwrap_or_default();
    std::fs::write(&temporary, text)
        .and_then(|()| std::fs::rename(&temporary, &path))
        .map_err(|source| ServerError::Io { what: "write the address to", path, source })
}

fn stop_on_signals(events: Events) -> Result<(), ServerError> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])
        .map_err(|source| ServerError::Loop { what: "listen for signals", source })?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            if signals.forever().next().is_some() {
                events.send(Event::Stop);
            }
        })
        .map(|_| ())
        .map_err(|source| ServerError::Loop { what: "start the signal thread", source })
}
