//! A set of byte strings of eight bytes or more that holds only keyed digests of them.
//!
//! Six bytes of a form, hashed with a key of this process, select a candidate; a keyed digest of its whole length
//! confirms it. A form is entered at several offsets in a row, so that only every third or fifth place of a text has to
//! be looked at. It is entered once however many secrets have it: the first-boot data of a thousand machines differs in
//! a line or two.

use super::sieve::Sieve;
use std::collections::hash_map::{Entry as Slot, RandomState};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use zeroize::Zeroizing;

/// Bytes of a gram.
const GRAM: usize = 6;
/// Forms of this length or more are looked for at every fifth place, shorter ones at every third.
const WIDE: usize = GRAM + 5 - 1;
const TIGHT: usize = GRAM + 3 - 1;
/// Places that are looked at between two branches.
const PLACES: usize = 8;

/// A form, told by its length and its keyed digest.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    digest: u64,
    length: u32,
}

impl Hash for Form {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.digest);
    }
}

/// One form as seen from one of its offsets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    form: Form,
    offset: u32,
}

impl Entry {
    fn shape(&self) -> (u32, u32) {
        (self.form.length, self.offset)
    }

    /// Those that share a shape stand together, and share one digest of the text.
    fn order(&self) -> (u32, u32, u64) {
        (self.form.length, self.offset, self.form.digest)
    }
}

enum Bucket {
    One(Entry),
    /// In [`Entry::order`].
    Many(Vec<Entry>),
}

impl Bucket {
    fn entries(&self) -> &[Entry] {
        match self {
            Bucket::One(entry) => std::slice::from_ref(entry),
            Bucket::Many(entries) => entries,
        }
    }

    fn insert(&mut self, entry: Entry) {
        if let Bucket::One(old) = self {
            *self = Bucket::Many(vec![*old]);
        }
        if let Bucket::Many(entries) = self {
            let at = entries.partition_point(|other| other.order() < entry.order());
            entries.insert(at, entry);
        }
    }

    /// True if nothing is left.
    fn remove(&mut self, entry: &Entry) -> bool {
        match self {
            Bucket::One(only) => only == entry,
            Bucket::Many(entries) => {
                if let Ok(at) = entries.binary_search_by_key(&entry.order(), Entry::order) {
                    entries.remove(at);
                }
                entries.is_empty()
            }
        }
    }
}

/// Grams are hashes already.
#[derive(Default)]
pub(super) struct Same(u64);

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

/// Keys of the hashes, new in every process.
struct Keys {
    /// Odd, so that it multiplies without loss.
    mix: u64,
    state: RandomState,
}

/// A longer form is told by this many of its bytes.
const DIGESTED: usize = 256;

impl Keys {
    /// A keyed hash of the first six of eight bytes: one wide multiplication, folded.
    #[inline(always)]
    fn gram(&self, eight: [u8; 8]) -> u64 {
        let six = u64::from_le_bytes(eight) << 16;
        let wide = u128::from(six) * u128::from(self.mix);
        (wide as u64) ^ ((wide >> 64) as u64)
    }

    /// The gram at the start of a text, which may end right after it.
    fn gram_at(&self, text: &[u8]) -> u64 {
        let mut eight = Zeroizing::new([0; 8]);
        eight[..GRAM].copy_from_slice(&text[..GRAM]);
        self.gram(*eight)
    }

    /// Of a long form both ends and every n-th byte between them. So a text that repeats the beginning of a long form
    /// over and over costs a bounded amount at each place, not the form's length.
    fn digest(&self, form: &[u8]) -> u64 {
        if form.len() <= DIGESTED {
            return self.state.hash_one(form);
        }
        let mut some = Zeroizing::new([0; DIGESTED]);
        let (ends, middle) = (DIGESTED / 4, form.len() - DIGESTED / 2);
        some[..ends].copy_from_slice(&form[..ends]);
        some[ends..2 * ends].copy_from_slice(&form[form.len() - ends..]);
        for (n, byte) in some[2 * ends..].iter_mut().enumerate() {
            *byte = form[ends + n * middle / (DIGESTED / 2)];
        }
        self.state.hash_one(&some[..])
    }
}

/// What is kept of a form: its grams by offset, and whose it is.
struct Kept<const STRIDE: usize> {
    grams: [u64; STRIDE],
    owners: BTreeSet<u32>,
}

/// Entries that are looked for at every `STRIDE`-th place.
struct Table<const STRIDE: usize> {
    sieve: Sieve,
    buckets: HashMap<u64, Bucket, BuildHasherDefault<Same>>,
    forms: HashMap<Form, Kept<STRIDE>, BuildHasherDefault<Same>>,
    /// What to remove with an owner.
    held: HashMap<u32, Vec<Form>>,
    len: usize,
    /// Grams that still pass the sieve although they are gone.
    stale: usize,
}

impl<const STRIDE: usize> Table<STRIDE> {
    fn new() -> Table<STRIDE> {
        Table {
            sieve: Sieve::new(0),
            buckets: HashMap::default(),
            forms: HashMap::default(),
            held: HashMap::new(),
            len: 0,
            stale: 0,
        }
    }

    fn insert(&mut self, keys: &Keys, owner: u32, bytes: &[u8], form: Form) {
        let kept = match self.forms.entry(form) {
            Slot::Occupied(slot) => {
                if slot.into_mut().owners.insert(owner) {
                    self.held.entry(owner).or_default().push(form);
                }
                return;
            }
            Slot::Vacant(slot) => slot.insert(Kept {
                grams: std::array::from_fn(|offset| keys.gram_at(&bytes[offset..])),
                owners: BTreeSet::from([owner]),
            }),
        };
        self.held.entry(owner).or_default().push(form);
        for (offset, gram) in (0..).zip(kept.grams) {
            let entry = Entry { form, offset };
            match self.buckets.entry(gram) {
                Slot::Occupied(mut slot) => slot.get_mut().insert(entry),
                Slot::Vacant(slot) => drop(slot.insert(Bucket::One(entry))),
            }
            self.len += 1;
            self.sieve.mark(gram);
        }
        if self.sieve.too_small_for(self.buckets.len()) {
            self.refill();
        }
    }

    fn remove(&mut self, owner: u32) {
        for form in self.held.remove(&owner).unwrap_or_default() {
            let Slot::Occupied(mut slot) = self.forms.entry(form) else { continue };
            slot.get_mut().owners.remove(&owner);
            if !slot.get().owners.is_empty() {
                continue;
            }
            for (offset, gram) in (0..).zip(slot.remove().grams) {
                let Slot::Occupied(mut bucket) = self.buckets.entry(gram) else { continue };
                self.len -= 1;
                if bucket.get_mut().remove(&Entry { form, offset }) {
                    bucket.remove();
                    self.stale += 1;
                }
            }
        }
        if self.stale > self.buckets.len() / 2 {
            self.refill();
        }
    }

    fn refill(&mut self) {
        self.sieve = Sieve::new(self.buckets.len());
        self.stale = 0;
        self.buckets.keys().for_each(|gram| self.sieve.mark(*gram));
    }

    fn find(&self, keys: &Keys, text: &[u8]) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let sieve = self.sieve.view();
        let mut at = 0;
        while let Some(window) = text.get(at..at + (PLACES - 1) * STRIDE + 8) {
            let mut passes = 0;
            for place in 0..PLACES {
                if let Some(eight) = window[place * STRIDE..].first_chunk::<8>() {
                    passes |= sieve.passes(keys.gram(*eight));
                }
            }
            if passes != 0
                && let Some(owner) = self.closer(keys, text, at, at + PLACES * STRIDE)
            {
                return Some(owner);
            }
            at += PLACES * STRIDE;
        }
        self.closer(keys, text, at, text.len())
    }

    /// The places of a part of the text, one by one.
    #[cold]
    fn closer(&self, keys: &Keys, text: &[u8], from: usize, to: usize) -> Option<u32> {
        let sieve = self.sieve.view();
        for at in (from..to).step_by(STRIDE) {
            let gram = keys.gram_at(text.get(at..at + GRAM)?);
            if sieve.passes(gram) != 0
                && let Some(owner) = self.confirm(keys, gram, text, at)
            {
                return Some(owner);
            }
        }
        None
    }

    /// The text is digested once for each shape, whatever the number of forms that have it.
    fn confirm(&self, keys: &Keys, gram: u64, text: &[u8], at: usize) -> Option<u32> {
        let mut rest = self.buckets.get(&gram)?.entries();
        while let Some(first) = rest.first() {
            let (alike, others) = rest.split_at(rest.partition_point(|one| one.shape() <= first.shape()));
            rest = others;
            let Some(start) = at.checked_sub(first.offset as usize) else { continue };
            let Some(bytes) = text.get(start..start + first.form.length as usize) else { continue };
            let form = Form { digest: keys.digest(bytes), length: first.form.length };
            if alike.binary_search_by_key(&form.digest, |one| one.form.digest).is_ok() {
                return self.forms.get(&form)?.owners.last().copied();
            }
        }
        None
    }
}

pub(super) struct Index {
    keys: Keys,
    /// Forms of eight or nine bytes; usually none.
    tight: Table<3>,
    wide: Table<5>,
    longest: usize,
}

impl Default for Index {
    fn default() -> Index {
        let state = RandomState::new();
        let mix = state.hash_one(1u8) | 1;
        Index { keys: Keys { mix, state }, tight: Table::new(), wide: Table::new(), longest: 0 }
    }
}

impl Index {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.tight.len + self.wide.len
    }

    /// No form is longer.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Adds one form. Forms under eight bytes are not kept.
    pub fn insert(&mut self, owner: u32, form: &[u8]) {
        if form.len() < TIGHT {
            return;
        }
        let told = Form { digest: self.keys.digest(form), length: form.len() as u32 };
        self.longest = self.longest.max(form.len());
        if form.len() >= WIDE {
            self.wide.insert(&self.keys, owner, form, told);
        } else {
            self.tight.insert(&self.keys, owner, form, told);
        }
    }

    pub fn remove(&mut self, owner: u32) {
        self.tight.remove(owner);
        self.wide.remove(owner);
        if self.is_empty() {
            self.longest = 0;
        }
    }

    /// The owner of some form that the text holds.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.tight.find(&self.keys, text).or_else(|| self.wide.find(&self.keys, text))
    }
}
