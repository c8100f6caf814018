//! The libraries of the store that a program or a library needs, found as the dynamic linker finds them (ld.so(8)), which
//! looks where the store is unknown.
//!
//! Objects are walked breadth first, as the dynamic linker does, through objects of the host as well, because a library of
//! the host may need one of the store. The first object that is found for a name serves everybody who needs that name.

use crate::calls::library_images::{self, Library, Use};
use crate::files::tree;
use crate::host::elf::{self, Needs};
use crate::host::kernel;
use crate::host::linker_cache::{self, Cache};

/// Most objects of one walk: real programs have some hundred.
const OBJECTS_MAX: usize = 4096;

/// A program or a library on a walk.
pub(crate) struct Object<'a> {
    /// The folder that `$ORIGIN` stands for.
    folder: Vec<u8>,
    needs: Needed<'a>,
    /// The object that needed this one first.
    loader: Option<usize>,
}

enum Needed<'a> {
    Own(Needs),
    Shared(&'a Needs),
}

impl Object<'_> {
    /// The object at an absolute path.
    pub(crate) fn new(path: &[u8], needs: Needs) -> Object<'static> {
        Object { folder: folder_of(path), needs: Needed::Own(needs), loader: None }
    }

    /// A library of the store at an absolute path.
    pub(crate) fn of_store(path: &[u8], library: &'static Library) -> Object<'static> {
        Object { folder: folder_of(path), needs: Needed::Shared(library.needs()), loader: None }
    }

    /// Whether the dynamic linker starts the program, which without it would need no other object.
    pub(crate) fn is_dynamic(&self) -> bool {
        !self.needs().names.is_empty()
    }

    fn needs(&self) -> &Needs {
        match &self.needs {
            Needed::Own(needs) => needs,
            Needed::Shared(needs) => needs,
        }
    }

    fn folders<'b>(&'b self, places: &'b [Vec<u8>]) -> impl Iterator<Item = Vec<u8>> + 'b {
        places.iter().map(|place| with_origin(place, &self.folder))
    }
}

/// The folder part of a path.
fn folder_of(path: &[u8]) -> Vec<u8> {
    path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)].to_vec()
}

/// A place of a search path, in which `$ORIGIN` stands for the folder of the object that has the search path.
fn with_origin(place: &[u8], origin: &[u8]) -> Vec<u8> {
    for mark in [b"${ORIGIN}".as_slice(), b"$ORIGIN"] {
        if let Some(at) = place.windows(mark.len()).position(|part| part == mark) {
            return [&place[..at], origin, &place[at + mark.len()..]].concat();
        }
    }
    place.to_vec()
}

/// The folders of a value of `LD_LIBRARY_PATH`. An empty one is the working directory.
pub(crate) fn folders_of(variable: &[u8]) -> Vec<Vec<u8>> {
    let folder = |folder: &[u8]| if folder.is_empty() { b".".to_vec() } else { folder.to_vec() };
    if variable.is_empty() {
        return Vec::new();
    }
    variable.split(|byte| matches!(byte, b':' | b';')).map(folder).collect()
}

fn may_be_of_store(folder: &[u8]) -> bool {
    tree::is_candidate(libc::AT_FDCWD, folder)
}

/// A walk from one object on.
pub(crate) struct Walk<'a> {
    objects: Vec<Object<'a>>,
    library_path: &'a [Vec<u8>],
    purpose: Use,
    /// Names that are found, or that nothing is found for.
    known: Vec<Vec<u8>>,
    cache: Option<Cache>,
    found: Vec<(Vec<u8>, &'static Library)>,
}

/// The libraries of the store that `root` needs, directly or not, each with the name under which it is needed. Names for
/// which `is_loaded` answers true stand for libraries that the process has.
pub(crate) fn of_store(
    root: Object<'_>,
    library_path: &[Vec<u8>],
    purpose: Use,
    is_loaded: impl Fn(&[u8]) -> bool,
) -> Vec<(Vec<u8>, &'static Library)> {
    // Most programs have no way to the store.
    let leads = library_path.iter().any(|folder| may_be_of_store(folder))
        || root.folders(&root.needs().folders).any(|folder| may_be_of_store(&folder))
        || root.folders(&root.needs().inherited).any(|folder| may_be_of_store(&folder))
        || root.needs().names.iter().any(|name| name.contains(&b'/') && may_be_of_store(name));
    if !leads {
        return Vec::new();
    }
    let objects = vec![root];
    let mut walk = Walk { objects, library_path, purpose, known: Vec::new(), cache: None, found: Vec::new() };
    let mut next = 0;
    while next < walk.objects.len() && walk.objects.len() < OBJECTS_MAX {
        for name in walk.objects[next].needs().names.clone() {
            if !walk.known.contains(&name) {
                walk.known.push(name.clone());
                if !is_loaded(&name) {
                    walk.find(next, name);
                }
            }
        }
        next += 1;
    }
    walk.found
}

impl Walk<'_> {
    /// Looks for the library that the object `loader` needs by this name.
    fn find(&mut self, loader: usize, name: Vec<u8>) {
        if name.contains(&b'/') {
            self.take(loader, &name, &name);
            return;
        }
        for folder in self.folders(loader) {
            if self.take(loader, &name, &[folder.as_slice(), b"/", &name].concat()) {
                return;
            }
        }
        for path in self.cache.get_or_insert_with(Cache::read).paths(&name) {
            if self.take(loader, &name, &path) {
                return;
            }
        }
    }

    /// The folders in which the dynamic linker looks before its own places.
    fn folders(&self, loader: usize) -> Vec<Vec<u8>> {
        let object = &self.objects[loader];
        let mut folders = Vec::new();
        if object.needs().folders.is_empty() {
            let mut above = Some(loader);
            while let Some(index) = above {
                let object = &self.objects[index];
                folders.extend(object.folders(&object.needs().inherited));
                above = object.loader;
            }
        }
        folders.extend_from_slice(self.library_path);
        folders.extend(object.folders(&object.needs().folders));
        folders
    }

    /// Takes the library at a path, if there is one that the dynamic linker takes.
    fn take(&mut self, loader: usize, name: &[u8], path: &[u8]) -> bool {
        let folder = folder_of(path);
        let needs = match library_images::at(path, self.purpose) {
            Some(library) => {
                self.found.push((name.to_vec(), library));
                Needed::Shared(library.needs())
            }
            None => {
                let Some(file) = linker_cache::open(path) else { return false };
                let needs = elf::needs(file);
                kernel::close(file);
                let Some(needs) = needs else { return false };
                Needed::Own(needs)
            }
        };
        let object = Object { folder, needs, loader: Some(loader) };
        self.known.extend(object.needs().soname.clone());
        self.objects.push(object);
        true
    }
}
