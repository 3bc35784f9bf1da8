//! A set of byte strings of eight bytes or more that holds only keyed digests of them.

use std::collections::HashMap;
use std::collections::hash_map::{Entry as Slot, RandomState};
use std::hash::BuildHasher;

/// Bits of the first filter; 64 Ki bits stay in the first-level cache.
const SMALL: u32 = 16;
const LARGE: u32 = 20;

/// One form: whose it is, how long it is, and the keyed hash of all of it.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    length: u32,
    owner: u32,
}

enum Bucket {
    One(Entry),
    Many(Vec<Entry>),
}

impl Bucket {
    fn entries(&self) -> &[Entry] {
        match self {
            Bucket::One(entry) => std::slice::from_ref(entry),
            Bucket::Many(entries) => entries,
        }
    }
}

pub(super) struct Index {
    /// Keys of the two hashes, new in every process.
    mix: (u64, u64),
    state: RandomState,
    filter: Vec<u64>,
    bits: u32,
    buckets: HashMap<u64, Bucket>,
    len: usize,
}

impl Default for Index {
    fn default() -> Index {
        let state = RandomState::new();
        let mix = (state.hash_one(1u8), state.hash_one(2u8) | 1);
        Index { mix, state, filter: vec![0; 1 << (SMALL - 6)], bits: SMALL, buckets: HashMap::new(), len: 0 }
    }
}

impl Index {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds one form. Forms under eight bytes are not kept.
    pub fn insert(&mut self, owner: u32, form: &[u8]) {
        let Some(first) = form.first_chunk::<8>() else { return };
        let gram = self.gram(*first);
        let entry = Entry { hash: self.state.hash_one(form), length: form.len() as u32, owner };
        match self.buckets.entry(gram) {
            Slot::Vacant(slot) => {
                slot.insert(Bucket::One(entry));
            }
            Slot::Occupied(mut slot) => {
                let same = |e: &Entry| e.hash == entry.hash && e.length == entry.length && e.owner == owner;
                if slot.get().entries().iter().any(same) {
                    return;
                }
                match slot.get_mut() {
                    Bucket::Many(entries) => entries.push(entry),
                    bucket => {
                        let Bucket::One(old) = *bucket else { return };
                        *bucket = Bucket::Many(vec![old, entry]);
                    }
                }
            }
        }
        self.len += 1;
        if self.bits == SMALL && self.len > 4096 {
            self.bits = LARGE;
            self.refill();
        }
        self.mark(gram);
    }

    pub fn remove(&mut self, owner: u32) {
        self.buckets.retain(|_, bucket| match bucket {
            Bucket::One(entry) => entry.owner != owner,
            Bucket::Many(entries) => {
                entries.retain(|entry| entry.owner != owner);
                !entries.is_empty()
            }
        });
        self.len = self.buckets.values().map(|bucket| bucket.entries().len()).sum();
        if self.bits == LARGE && self.len < 2048 {
            self.bits = SMALL;
        }
        self.refill();
    }

    /// The owner of some form that the text holds.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        for (at, window) in text.windows(8).enumerate() {
            let mut first = [0; 8];
            first.copy_from_slice(window);
            let gram = self.gram(first);
            let bit = gram >> (64 - self.bits);
            if self.filter[(bit >> 6) as usize] & (1 << (bit & 63)) != 0
                && let Some(owner) = self.confirm(gram, &text[at..])
            {
                return Some(owner);
            }
        }
        None
    }

    #[cold]
    fn confirm(&self, gram: u64, rest: &[u8]) -> Option<u32> {
        let bucket = self.buckets.get(&gram)?;
        let holds = |entry: &&Entry| {
            rest.get(..entry.length as usize).is_some_and(|form| self.state.hash_one(form) == entry.hash)
        };
        bucket.entries().iter().find(holds).map(|entry| entry.owner)
    }

    /// A keyed hash of eight bytes: one wide multiplication, folded.
    #[inline(always)]
    fn gram(&self, first: [u8; 8]) -> u64 {
        let wide = u128::from(u64::from_le_bytes(first) ^ self.mix.0) * u128::from(self.mix.1);
        (wide as u64) ^ ((wide >> 64) as u64)
    }

    fn mark(&mut self, gram: u64) {
        let bit = gram >> (64 - self.bits);
        self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
    }

    fn refill(&mut self) {
        self.filter = vec![0; 1 << (self.bits - 6)];
        let grams: Vec<u64> = self.buckets.keys().copied().collect();
        for gram in grams {
            self.mark(gram);
        }
    }
}
