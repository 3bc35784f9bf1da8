//! The live secrets of each provider: a scanner that only grows while a secret lives and for a grace after it is
//! revoked, so that a late echo is still caught (attack 3).

use super::{Kind, Scanner};
use crate::secret::SecretBytes;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Counts for one secret, kept for the evidence.
#[derive(Debug)]
pub(crate) struct Counts {
    pub name: String,
    pub spliced: AtomicU64,
    pub caught: AtomicU64,
}

impl Counts {
    pub fn new(name: String) -> Arc<Counts> {
        Arc::new(Counts { name, spliced: AtomicU64::new(0), caught: AtomicU64::new(0) })
    }
}

/// One provider's live set.
#[derive(Default)]
pub(crate) struct Live {
    scanner: RwLock<Scanner>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    next: u32,
    owners: HashMap<u32, Arc<Counts>>,
    /// By when they are due.
    retiring: BTreeSet<(Instant, u32)>,
}

/// Names what was added, to retire it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched(u32);

impl Live {
    /// Watches for a secret from now on.
    pub fn watch(&self, counts: &Arc<Counts>, kind: Kind, secret: &SecretBytes, public: &str) -> Watched {
        let owner = {
            let mut book = self.book();
            book.next += 1;
            let owner = book.next;
            book.owners.insert(owner, counts.clone());
            owner
        };
        self.purge();
        let mut scanner = self.scanner.write().unwrap_or_else(PoisonError::into_inner);
        scanner.add(owner, kind, secret.expose(), public);
        Watched(owner)
    }

    /// Adds a further form of something watched: the encoded text as it is really sent.
    pub fn also(&self, watched: Watched, encoded: &SecretBytes) {
        let mut scanner = self.scanner.write().unwrap_or_else(PoisonError::into_inner);
        scanner.add(watched.0, Kind::Encoded, encoded.expose(), "");
    }

    /// Forgets a secret once the grace is over.
    pub fn retire(&self, watched: Watched, grace: Duration) {
        self.book().retiring.insert((Instant::now() + grace, watched.0));
        self.purge();
    }

    /// Does the text hold a live secret? Counts the catch for its secret.
    pub fn holds_secret(&self, text: &str) -> bool {
        let found = self.scanner.read().unwrap_or_else(PoisonError::into_inner).find(text.as_bytes());
        let Some(owner) = found else { return false };
        if let Some(counts) = self.book().owners.get(&owner) {
            counts.caught.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn purge(&self) {
        let now = Instant::now();
        let due: Vec<u32> = {
            let mut book = self.book();
            let later = book.retiring.split_off(&(now, u32::MAX));
            let due = std::mem::replace(&mut book.retiring, later);
            due.into_iter().map(|(_, owner)| owner).collect()
        };
        if due.is_empty() {
            return;
        }
        let mut scanner = self.scanner.write().unwrap_or_else(PoisonError::into_inner);
        for owner in due {
            scanner.remove(owner);
            self.book().owners.remove(&owner);
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
