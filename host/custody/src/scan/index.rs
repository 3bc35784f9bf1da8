//! A set of byte strings of eight bytes or more that holds only keyed digests of them.
//!
//! Eight bytes of a form, hashed with a key of this process, select a candidate; a keyed hash of its whole length
//! confirms it. A form of nine bytes or more is entered at its first two offsets, so that only every second place of a
//! text has to be looked at.

use std::collections::HashMap;
use std::collections::hash_map::{Entry as Slot, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// One form as seen from one of its offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Keyed hash of the whole form.
    hash: u64,
    length: u32,
    owner: u32,
    offset: u32,
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

/// Grams are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, gram: u64) {
        self.0 = gram;
    }
}

/// Keys of the two hashes, new in every process.
struct Keys {
    mix: (u64, u64),
    state: RandomState,
}

impl Keys {
    /// A keyed hash of eight bytes: one wide multiplication, folded.
    #[inline(always)]
    fn gram(&self, eight: [u8; 8]) -> u64 {
        let wide = u128::from(u64::from_le_bytes(eight) ^ self.mix.0) * u128::from(self.mix.1);
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}

/// Entries that are looked for at every `stride`-th place.
struct Table {
    stride: usize,
    /// Two bits for each gram; `bits` is the logarithm of the filter's size.
    filter: Vec<u64>,
    bits: u32,
    buckets: HashMap<u64, Bucket, BuildHasherDefault<Same>>,
    /// What to remove with an owner.
    grams: HashMap<u32, Vec<u64>>,
    len: usize,
    /// Grams whose bits are still set although they are gone.
    stale: usize,
}

const FEWEST_BITS: u32 = 15;
const MOST_BITS: u32 = 25;

impl Table {
    fn new(stride: usize) -> Table {
        let filter = vec![0; 1 << (FEWEST_BITS - 6)];
        let (buckets, grams) = (HashMap::default(), HashMap::new());
        Table { stride, filter, bits: FEWEST_BITS, buckets, grams, len: 0, stale: 0 }
    }

    fn insert(&mut self, gram: u64, entry: Entry) {
        match self.buckets.entry(gram) {
            Slot::Vacant(slot) => {
                slot.insert(Bucket::One(entry));
            }
            Slot::Occupied(mut slot) => {
                if slot.get().entries().contains(&entry) {
                    return;
                }
                match slot.get_mut() {
                    Bucket::Many(entries) => entries.push(entry),
                    Bucket::One(old) => {
                        let both = vec![*old, entry];
                        slot.insert(Bucket::Many(both));
                    }
                }
            }
        }
        self.grams.entry(entry.owner).or_default().push(gram);
        self.len += 1;
        self.fit();
        self.mark(gram);
    }

    fn remove(&mut self, owner: u32) {
        for gram in self.grams.remove(&owner).unwrap_or_default() {
            let Slot::Occupied(mut slot) = self.buckets.entry(gram) else { continue };
            let before = slot.get().entries().len();
            let left = match slot.get_mut() {
                Bucket::One(entry) => usize::from(entry.owner != owner),
                Bucket::Many(entries) => {
                    entries.retain(|entry| entry.owner != owner);
                    entries.len()
                }
            };
            self.len -= before - left;
            if left == 0 {
                slot.remove();
                self.stale += 1;
            }
        }
        if self.stale > self.len / 2 {
            self.bits = FEWEST_BITS;
            self.refill();
            self.fit();
        }
    }

    /// Keeps the filter sparse: at least 32 bits for each entry.
    fn fit(&mut self) {
        let mut bits = self.bits;
        while bits < MOST_BITS && self.len * 32 > 1 << bits {
            bits += 1;
        }
        if bits != self.bits {
            self.bits = bits;
            self.refill();
        }
    }

    fn refill(&mut self) {
        self.filter = vec![0; 1 << (self.bits - 6)];
        self.stale = 0;
        let grams: Vec<u64> = self.buckets.keys().copied().collect();
        grams.into_iter().for_each(|gram| self.mark(gram));
    }

    fn mark(&mut self, gram: u64) {
        for place in self.places(gram) {
            self.filter[place >> 6] |= 1 << (place & 63);
        }
    }

    #[inline(always)]
    fn places(&self, gram: u64) -> [usize; 2] {
        let mask = (1 << self.bits) - 1;
        [(gram >> 38) as usize & mask, (gram >> 7) as usize & mask]
    }

    #[inline(always)]
    fn may_hold(&self, gram: u64) -> bool {
        let [one, two] = self.places(gram);
        self.filter[one >> 6] & (1 << (one & 63)) != 0 && self.filter[two >> 6] & (1 << (two & 63)) != 0
    }

    fn find(&self, keys: &Keys, text: &[u8]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        for (step, window) in text.windows(8).step_by(self.stride).enumerate() {
            let mut eight = [0; 8];
            eight.copy_from_slice(window);
            let gram = keys.gram(eight);
            if self.may_hold(gram)
                && let Some(owner) = self.confirm(keys, gram, text, step * self.stride)
            {
                return Some(owner);
            }
        }
        None
    }

    #[cold]
    fn confirm(&self, keys: &Keys, gram: u64, text: &[u8], at: usize) -> Option<u32> {
        let holds = |entry: &&Entry| {
            let Some(start) = at.checked_sub(entry.offset as usize) else { return false };
            let form = text.get(start..start + entry.length as usize);
            form.is_some_and(|form| keys.state.hash_one(form) == entry.hash)
        };
        self.buckets.get(&gram)?.entries().iter().find(holds).map(|entry| entry.owner)
    }
}

pub(super) struct Index {
    keys: Keys,
    /// Forms of exactly eight bytes; usually none.
    tight: Table,
    wide: Table,
}

impl Default for Index {
    fn default() -> Index {
        let state = RandomState::new();
        let mix = (state.hash_one(1u8), state.hash_one(2u8) | 1);
        Index { keys: Keys { mix, state }, tight: Table::new(1), wide: Table::new(2) }
    }
}

impl Index {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.tight.len + self.wide.len
    }

    /// Adds one form. Forms under eight bytes are not kept.
    pub fn insert(&mut self, owner: u32, form: &[u8]) {
        let (hash, length) = (self.keys.state.hash_one(form), form.len() as u32);
        let table = if form.len() > 8 { &mut self.wide } else { &mut self.tight };
        for offset in 0..table.stride {
            if let Some(eight) = form.get(offset..).and_then(|rest| rest.first_chunk::<8>()) {
                table.insert(self.keys.gram(*eight), Entry { hash, length, owner, offset: offset as u32 });
            }
        }
    }

    pub fn remove(&mut self, owner: u32) {
        self.tight.remove(owner);
        self.wide.remove(owner);
    }

    /// The owner of some form that the text holds.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.tight.find(&self.keys, text).or_else(|| self.wide.find(&self.keys, text))
    }
}
