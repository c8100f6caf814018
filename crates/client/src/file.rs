//! Open regular files: their known state, size, durability and closing.

use crate::exchange::{call, Call, Message};
use crate::known::{KnownSize, Pending};
use crate::layouts::Layouts;
use crate::operations::plain;
use crate::pool::Lane;
use crate::session::Environment;
use crate::several::call_all;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, HandleState, Opened, Result, Store};
use weir_placement::{Layout, ServerId, TargetId};
use weir_session::{Attempts, Size};
use weir_wire::{
    limits, At, AttributeChange, Attributes, Capability, HandleId, Ino, Publication, Reply, Request,
};

/// An open regular file. All methods take `&self` and may run at once from several threads.
///
/// A drop of a `File` does not close its description. [`File::close`] does.
#[derive(Debug)]
pub struct File {
    store: Store,
    ino: Ino,
    handle: HandleId,
    capability: Capability,
    layouts: Layouts,
    append: bool,
    /// Whether the description belongs to this client, which then closes it.
    owned: bool,
    pub(crate) known: KnownSize,
    pub(crate) pending: Pending,
}

impl File {
    /// The regular file that [`Store::open`] answered; `append` is `O_APPEND`.
    ///
    /// # Errors
    /// `EINVAL` for a node that is not a regular file.
    pub fn new(store: &Store, opened: Opened, append: bool) -> Result<File> {
        let layout = opened.layout.ok_or(ClientError::number(libc::EINVAL))?;
        let state = HandleState {
            ino: opened.attributes.ino,
            handle: opened.handle,
            capability: opened.capability,
            layout,
            layout_epoch: opened.attributes.layout_epoch,
            append,
            size_bytes: opened.attributes.size_bytes,
            epoch: opened.attributes.epoch,
        };
        Ok(File { owned: true, ..File::from_state(store, state) })
    }

    /// A file that another process opened. The description stays the other process's: [`File::close`] only publishes.
    pub fn from_state(store: &Store, state: HandleState) -> File {
        let size = Size { bytes: state.size_bytes, epoch: state.epoch };
        File {
            store: store.clone(),
            ino: state.ino,
            handle: state.handle,
            capability: state.capability,
            layouts: Layouts::new(state.layout, state.layout_epoch),
            append: state.append,
            owned: false,
            known: KnownSize::new(size),
            pending: Pending::default(),
        }
    }

    /// A file that another process of `caller` has open, and its attributes. The description is this client's, too, from now on:
    /// [`File::close`] ends it here.
    ///
    /// # Errors
    /// `EACCES` for a capability that no server made, or of another user; `ESTALE` for a description that is gone.
    pub fn adopted(
        store: &Store,
        caller: &Caller,
        capability: Capability,
        append: bool,
    ) -> Result<(File, Attributes)> {
        store.adopt_for(caller, capability)?;
        let (ino, handle) = (capability.ino, capability.handle);
        let described = || {
            let request = Request::Layout { at: At::described(capability) };
            let answer = store.ask_server(caller, ino.home(), &request)?;
            let Reply::Layout { layout, layout_epoch, size_bytes, epoch } = answer else {
                return Err(ClientError::UnexpectedReply { server: ino.home(), request: "Layout" });
            };
            let state =
                HandleState { ino, handle, capability, layout, layout_epoch, append, size_bytes, epoch };
            let file = File { owned: true, ..File::from_state(store, state) };
            let attributes = file.attributes(caller)?;
            Ok((file, attributes))
        };
        // A description that is left behind ends with the session.
        described().inspect_err(|_| drop(store.close(caller, ino, handle)))
    }

    /// An open directory, which can be locked like a file and has no bytes. The description stays the caller's.
    pub fn of_directory(store: &Store, ino: Ino, capability: Capability) -> Option<File> {
        // A layout that is never used: its place is the directory's own server.
        let place = TargetId { server: ino.home(), index: 0 };
        let layout = Layout::striped(limits::STRIPE_BYTES_MIN, vec![place]).ok()?;
        let state = HandleState {
            ino,
            handle: capability.handle,
            capability,
            layout,
            layout_epoch: 0,
            append: false,
            size_bytes: 0,
            epoch: 0,
        };
        Some(File::from_state(store, state))
    }

    /// The file's state for another process, with the size known here.
    pub fn state(&self) -> HandleState {
        // A size of 0 is right in any epoch: it costs the other process one question.
        let size = self.known.find().unwrap_or(Size { bytes: 0, epoch: 0 });
        // The layout is read after the size: an older epoch goes with a newer layout, but not the other way round.
        let (layout, layout_epoch) = self.layouts.latest();
        HandleState {
            ino: self.ino,
            handle: self.handle,
            capability: self.capability,
            layout: layout.clone(),
            layout_epoch,
            append: self.append,
            size_bytes: size.bytes,
            epoch: size.epoch,
        }
    }

    /// The file's inode.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The file's open description.
    pub fn handle(&self) -> HandleId {
        self.handle
    }

    /// The right to the file's bytes.
    pub fn capability(&self) -> Capability {
        self.capability
    }

    /// The latest layout that is known. Objects keep their numbers and their bytes' offsets when they move.
    ///
    /// A caller that uses the layout with an epoch reads the epoch first.
    pub fn layout(&self) -> &Layout {
        self.layouts.latest().0
    }

    /// [`File::layout`] and the [`File::layout_epoch`] that belongs to it.
    pub(crate) fn dated_layout(&self) -> (&Layout, u64) {
        self.layouts.latest()
    }

    /// The epoch since which [`File::layout`] holds. Another number means another layout.
    pub fn layout_epoch(&self) -> u64 {
        self.layouts.latest().1
    }

    /// The size in bytes, which the home is asked for.
    ///
    /// # Errors
    /// The errors of `fstat(2)`.
    pub fn size(&self, caller: &Caller) -> Result<u64> {
        Counters::add(&self.store.counters().metadata_calls, 1);
        Ok(self.refresh(self.environment()?, caller)?.bytes)
    }

    /// The attributes, which the home is asked for after a pending modification time is published.
    ///
    /// # Errors
    /// The errors of `fstat(2)`.
    pub fn attributes(&self, caller: &Caller) -> Result<Attributes> {
        self.publish_pending(caller)?;
        Counters::add(&self.store.counters().metadata_calls, 1);
        let environment = self.environment()?;
        let attributes = self.ask_attributes(environment, caller)?;
        self.adopt(environment, caller, &attributes)?;
        Ok(attributes)
    }

    /// Sets the size through the description's write right.
    ///
    /// # Errors
    /// The errors of `ftruncate(2)`.
    pub fn truncate(&self, caller: &Caller, size_bytes: u64) -> Result<()> {
        if !self.capability.rights.write {
            return Err(ClientError::number(libc::EINVAL));
        }
        if size_bytes > weir_wire::limits::FILE_BYTES {
            return Err(ClientError::number(libc::EFBIG));
        }
        Counters::add(&self.store.counters().space_calls, 1);
        let change = AttributeChange {
            size_bytes: Some(size_bytes),
            capability: Some(self.capability),
            ..AttributeChange::default()
        };
        let walk = self.store.walk_uncounted(caller)?;
        let request = Request::Change { at: self.at(), follow: false, change };
        match call(walk.environment, caller, plain(self.ino.home(), &request))?.0 {
            Reply::Attributes(attributes) => {
                self.adopt(walk.environment, caller, &attributes)?;
                self.pending.published(walk.environment.session().milliseconds());
                Ok(())
            }
            _ => Err(self.unexpected("Change")),
        }
    }

    /// Makes the bytes durable on every target that holds some of them, then the size. Without `data_only` the modification
    /// time becomes durable, too.
    ///
    /// # Errors
    /// The errors of `fsync(2)`.
    pub fn sync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().sync_calls, 1);
        if !data_only {
            self.publish_pending(caller)?;
        }
        // Bytes of other clients count, too, so the home is asked for the size. Stripes beyond the size hold nothing.
        let size = self.refresh(environment, caller)?.bytes;
        let layout = self.layout();
        let targets = layout.targets().iter().enumerate();
        let requests: Vec<(ServerId, Request)> = targets
            .filter(|(object, _)| layout.object_bytes(*object, size) > 0)
            .map(|(_, &target)| (target.server, Request::SyncObject { capability: self.capability, target }))
            .collect();
        let mut calls: Vec<Call<'_, '_>> =
            requests.iter().map(|(server, request)| plain(*server, request)).collect();
        for answer in call_all(environment, caller, &mut calls) {
            answer?;
        }
        let request = Request::SyncMetadata { at: self.at() };
        self.ask_home(environment, caller, Lane::Small, &request).map(|_| ())
    }

    /// Publishes a pending modification time.
    ///
    /// # Errors
    /// A lost server.
    pub fn publish_pending(&self, caller: &Caller) -> Result<()> {
        let environment = self.environment()?;
        let Some(mut publication) = self.pending.take(environment.session().milliseconds()) else {
            return Ok(());
        };
        let mut attempts = Attempts::new(environment.silence());
        // The epoch is stale where the file was shortened or moved since. The bytes are there under any epoch, and the
        // publication does not tell their end.
        while !self.publish(environment, caller, publication)? {
            environment.again(&mut attempts)?;
            publication.epoch = self.refresh(environment, caller)?.epoch;
        }
        Ok(())
    }

    /// Publishes a pending modification time, and ends the description where this client owns it.
    ///
    /// # Errors
    /// A lost server.
    pub fn close(&self, caller: &Caller) -> Result<()> {
        let published = self.publish_pending(caller);
        if self.owned {
            self.store.close(caller, self.ino, self.handle)?;
        }
        published
    }

    /// Tells the layout's servers that this mount holds pages of the file. Writes by others then wait until the mount has
    /// confirmed the server's invalidation ([`Store::next_invalidation`]).
    ///
    /// # Errors
    /// A lost server.
    pub fn watch(&self, caller: &Caller) -> Result<()> {
        let request = Request::Watch { capability: self.capability };
        self.tell_servers(caller, &request, self.layout().servers())
    }

    /// Tells the servers of this and earlier layouts that this mount holds no pages of the file any more.
    ///
    /// # Errors
    /// A lost server.
    pub fn unwatch(&self, caller: &Caller) -> Result<()> {
        self.tell_servers(caller, &Request::Unwatch { ino: self.ino }, self.layouts.servers())
    }

    /// Tells the home whether a process believes the size of this mount's kernel, as each does at first. One that uses the
    /// description past the kernel asks the home by itself.
    ///
    /// # Errors
    /// A lost server.
    pub fn follow(&self, caller: &Caller, is_followed: bool) -> Result<()> {
        let request = Request::Follow { ino: self.ino, handle: self.handle, is_followed };
        self.ask_home(self.environment()?, caller, Lane::Small, &request).map(|_| ())
    }

    /// Has the store know all servers that [`File::watch`] tells, also those that joined it.
    ///
    /// # Errors
    /// A server that is not of the store.
    pub fn meet_servers(&self) -> Result<()> {
        let environment = self.environment()?;
        self.layout().servers().into_iter().try_for_each(|server| environment.link(server).map(|_| ()))
    }

    fn tell_servers(&self, caller: &Caller, request: &Request, mut servers: Vec<ServerId>) -> Result<()> {
        // The home cuts the file, which changes pages, too.
        servers.push(self.ino.home());
        servers.sort_unstable();
        servers.dedup();
        let mut calls: Vec<Call<'_, '_>> = servers.iter().map(|server| plain(*server, request)).collect();
        for answer in call_all(self.environment()?, caller, &mut calls) {
            answer?;
        }
        Ok(())
    }

    pub(crate) fn environment(&self) -> Result<Environment<'_>> {
        self.store.environment()
    }

    /// The size and epoch that the home knows now. The layout that goes with them is known afterwards.
    pub(crate) fn refresh(&self, environment: Environment<'_>, caller: &Caller) -> Result<Size> {
        let attributes = self.ask_attributes(environment, caller)?;
        self.adopt(environment, caller, &attributes)
    }

    fn ask_attributes(&self, environment: Environment<'_>, caller: &Caller) -> Result<Attributes> {
        let request = Request::Attributes { at: self.at(), follow: false };
        match self.ask_home(environment, caller, Lane::Small, &request)? {
            Reply::Attributes(attributes) => Ok(attributes),
            _ => Err(self.unexpected("Attributes")),
        }
    }

    /// The file, named by its description, which may belong to another process.
    fn at(&self) -> At {
        At::described(self.capability)
    }

    /// Takes over the size and epoch of attributes that another call learned, so that no server has to refuse the next
    /// transfer first. Attributes of another layout are ignored: the next transfer asks for the layout.
    pub fn heed(&self, told: &Attributes) {
        if told.layout_epoch <= self.layout_epoch() {
            self.known.adopt(Size { bytes: told.size_bytes, epoch: told.epoch });
        }
    }

    /// Takes over the size and epoch of attributes. Where the attributes belong to another layout, the home is asked for the
    /// layout first.
    fn adopt(&self, environment: Environment<'_>, caller: &Caller, told: &Attributes) -> Result<Size> {
        let size = Size { bytes: told.size_bytes, epoch: told.epoch };
        if told.layout_epoch <= self.layout_epoch() {
            self.known.adopt(size);
            return Ok(size);
        }
        let request = Request::Layout { at: self.at() };
        match self.ask_home(environment, caller, Lane::Small, &request)? {
            Reply::Layout { layout, layout_epoch, size_bytes, epoch } => {
                let size = Size { bytes: size_bytes, epoch };
                self.learn_layout(layout, layout_epoch, size);
                Ok(size)
            }
            _ => Err(self.unexpected("Layout")),
        }
    }

    /// Takes over a layout, then the size and epoch that go with the layout.
    pub(crate) fn learn_layout(&self, layout: Layout, layout_epoch: u64, size: Size) {
        self.layouts.push(layout, layout_epoch);
        self.known.adopt(size);
    }

    /// The known size and epoch, or the home's where none are known.
    pub(crate) fn known_or_fresh(&self, environment: Environment<'_>, caller: &Caller) -> Result<Size> {
        match self.known.find() {
            Some(size) => Ok(size),
            None => self.refresh(environment, caller),
        }
    }

    /// Tells the home of written bytes. Answers `false` where the file was shortened since their epoch.
    pub(crate) fn publish(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        publication: Publication,
    ) -> Result<bool> {
        let request = Request::Publish { capability: self.capability, publication };
        match self.ask_home(environment, caller, Lane::Small, &request)? {
            Reply::StaleEpoch { .. } => Ok(false),
            Reply::Written { size } => {
                self.published(environment, publication, size);
                Ok(true)
            }
            Reply::Done => {
                self.published(environment, publication, None);
                Ok(true)
            }
            _ => Err(self.unexpected("Publish")),
        }
    }

    /// Takes over the size that an accepted publication confirmed.
    pub(crate) fn published(
        &self,
        environment: Environment<'_>,
        publication: Publication,
        size: Option<(u64, u64)>,
    ) {
        let (bytes, epoch) = size.unwrap_or((publication.end, publication.epoch));
        self.known.learn(Size { bytes, epoch });
        self.pending.published(environment.session().milliseconds());
    }

    /// A request without payload to the home.
    pub(crate) fn home_call<'a, 'u>(
        &self,
        lane: Lane,
        request: &'a Request,
        sink: Sink<'a, 'u>,
    ) -> Call<'a, 'u> {
        Call { server: self.ino.home(), lane, message: Message::Plain(request), payload: &[], sink }
    }

    pub(crate) fn ask_home(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        lane: Lane,
        request: &Request,
    ) -> Result<Reply> {
        Ok(call(environment, caller, self.home_call(lane, request, Sink::None))?.0)
    }

    /// Whether the object's server owns the file's size.
    pub(crate) fn is_home(&self, target: TargetId) -> bool {
        target.server == self.ino.home()
    }

    pub(crate) fn unexpected(&self, request: &'static str) -> ClientError {
        ClientError::UnexpectedReply { server: self.ino.home(), request }
    }
}
