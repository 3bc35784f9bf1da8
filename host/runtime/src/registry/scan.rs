//! One look at the folder: reads what changed, checks it and compiles it.

use super::Inner;
use super::file::{FileError, Opened, Stamp, check_folder};
use super::slots::Content;
use crate::inspect::{digest, inspect};
use std::collections::BTreeSet;
use std::path::Path;

impl Inner {
    /// Blocks while files are compiled. True where a file changed under the reader's hands.
    pub(super) fn scan(&self) -> bool {
        let _one = self.scanning.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let names = match list(&self.folder) {
            Ok(names) => names,
            Err(error) => {
                // An unreadable folder says nothing about its files: everything goes on as it is.
                tracing::error!(folder = %self.folder.display(), %error, "the providers folder cannot be read");
                return false;
            }
        };
        let unsafe_folder = check_folder(&self.folder).err();
        self.forget_missing(&names);
        let mut again = false;
        for name in names {
            again |= self.look(&name, unsafe_folder.as_ref());
        }
        again
    }

    fn forget_missing(&self, names: &BTreeSet<String>) {
        let mut slots = self.slots();
        if slots.keep_files(names) {
            self.settle(&mut slots);
        }
    }

    /// Looks at one file. True where it has to be looked at again soon.
    fn look(&self, name: &str, unsafe_folder: Option<&FileError>) -> bool {
        let path = self.folder.join(name);
        let stamp = Stamp::of(&path);
        let refused_folder = unsafe_folder.is_some();
        if self.slots().is_known(name, stamp, refused_folder) {
            return false;
        }
        let found = match unsafe_folder {
            Some(error) => Err(error.clone()),
            None => Opened::open(&path).and_then(|mut opened| Ok((opened.read()?, opened.stamp))),
        };
        match found {
            Err(FileError::Gone) => true,
            Err(error) => {
                let again = error == FileError::Changed;
                let stamp = stamp.filter(|_| !again);
                self.put(name, stamp, Content::bad(String::new(), error.to_string(), refused_folder));
                again
            }
            Ok((bytes, stamp)) => {
                self.load(name, stamp, &bytes);
                false
            }
        }
    }

    fn load(&self, name: &str, stamp: Stamp, bytes: &[u8]) {
        let loaded = inspect(bytes).and_then(|inspected| {
            self.put(name, Some(stamp), Content::Loading(Box::new(inspected.clone())));
            self.engine.compile(bytes, inspected)
        });
        let content = match loaded {
            Ok(module) => Content::Loaded(module),
            Err(error) => Content::bad(digest(bytes), error.to_string(), false),
        };
        self.put(name, Some(stamp), content);
    }

    fn put(&self, name: &str, stamp: Option<Stamp>, content: Content) {
        let mut slots = self.slots();
        slots.put(name, stamp, content);
        self.settle(&mut slots);
    }
}

/// Names that end in `.wasm` and do not begin with a dot, in order.
fn list(folder: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if name.ends_with(".wasm") && !name.starts_with('.') {
            names.insert(name);
        }
    }
    Ok(names)
}
