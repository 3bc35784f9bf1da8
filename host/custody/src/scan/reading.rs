//! One reading of a text: as it is, folded, and under up to two layers of escapes.

use super::Scanner;
use super::fold::{SLACK, fold_into};
use super::index::Same;
use super::layers::{Pieces, Reach, Scratch};
use super::peel::Family;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use zeroize::Zeroizing;

/// Layers of escapes that are peeled.
const LAYERS: usize = 2;
/// A text is folded in parts of this size, which stay in the nearest cache.
pub(super) const PART: usize = 8 << 10;

pub(super) struct Reading<'a> {
    scanner: &'a Scanner,
    folded: Zeroizing<Vec<u8>>,
    /// Last layers that were read already: most pairs of families show the same in either order.
    seen: HashSet<u64, BuildHasherDefault<Same>>,
    /// Bytes read so far, all views together.
    work: usize,
}

impl<'a> Reading<'a> {
    pub fn new(scanner: &'a Scanner) -> Reading<'a> {
        let folded = Zeroizing::new(Vec::new());
        Reading { scanner, folded, seen: HashSet::default(), work: 0 }
    }

    pub fn find(&mut self, text: &[u8]) -> Option<u32> {
        if let Some(owner) = self.look(text) {
            return Some(owner);
        }
        // One or two readings by vectors settle it for a text without escapes.
        let exact = !self.scanner.exact.is_empty() || !self.scanner.short.is_empty();
        let none = memchr::memchr3(b'%', b'&', b'\\', text).is_none()
            && memchr::memchr(b'=', text).is_none()
            && (!exact || memchr::memchr(b'+', text).is_none());
        if none {
            return None;
        }
        let reach = Reach {
            folded: self.scanner.folded.longest(),
            exact: self.scanner.exact.longest().max(if exact { super::FLOOR } else { 0 }),
        };
        // A plus folds away, whether it stands for a space or not: only a form that is looked for as it is can tell.
        let families = Family::ALL.into_iter().filter(|family| exact || *family != Family::Form);
        let families: Vec<Family> = families.collect();
        self.layers(text, &families, reach, &mut <[Scratch; LAYERS]>::default())
    }

    /// Bytes read so far, all views together.
    pub fn work(&self) -> usize {
        self.work
    }

    fn layers(
        &mut self,
        text: &[u8],
        families: &[Family],
        reach: Reach,
        buffers: &mut [Scratch],
    ) -> Option<u32> {
        let (piece, deeper) = buffers.split_first_mut()?;
        let last = deeper.is_empty();
        for family in families {
            let mut pieces = Pieces::new(*family, text, reach, last);
            while pieces.next(piece) {
                self.work += piece.bytes().len();
                if (!last || self.seen.insert(self.scanner.prints.of(piece.bytes())))
                    && let Some(owner) = self.look(piece.bytes())
                {
                    return Some(owner);
                }
                if let Some(owner) = self.layers(piece.bytes(), families, reach, deeper) {
                    return Some(owner);
                }
            }
        }
        None
    }

    /// Reads a text as it is and folded.
    pub(super) fn look(&mut self, text: &[u8]) -> Option<u32> {
        self.work += text.len();
        if let Some(owner) = self.scanner.exact.find(text) {
            return Some(owner);
        }
        for (owner, secret) in &self.scanner.short {
            if text.windows(secret.len()).any(|window| window == &secret[..]) {
                return Some(*owner);
            }
        }
        if self.scanner.folded.is_empty() { None } else { self.look_folded(text) }
    }

    /// Folds and reads part by part; what a form at the end of a part could need stays for the next.
    fn look_folded(&mut self, mut text: &[u8]) -> Option<u32> {
        let index = &self.scanner.folded;
        let part = PART.max(4 * index.longest()).min(text.len());
        if self.folded.len() < part + SLACK {
            self.folded = Zeroizing::new(vec![0; part + SLACK]);
        }
        let out = &mut self.folded[..];
        let mut kept = 0;
        loop {
            let (read, written) = fold_into(text, &mut out[kept..]);
            let filled = kept + written;
            if let Some(owner) = index.find(&out[..filled]) {
                return Some(owner);
            }
            text = &text[read..];
            if text.is_empty() {
                return None;
            }
            kept = filled.min(index.longest() - 1);
            out.copy_within(filled - kept..filled, 0);
        }
    }
}

/// Tells whether two views are the same.
pub(super) struct Prints([u64; 8]);

impl Default for Prints {
    fn default() -> Prints {
        let state = RandomState::new();
        Prints([1u8, 2, 3, 4, 5, 6, 7, 8].map(|n| state.hash_one(n)))
    }
}

impl Prints {
    /// A keyed hash of a text, by wide multiplications in four lanes.
    fn of(&self, text: &[u8]) -> u64 {
        let keys = &self.0;
        let mut lanes = [keys[0] ^ text.len() as u64, keys[1], keys[2], keys[3]];
        let mut mix = |chunk: &[u8; 64]| {
            for (lane, both) in lanes.iter_mut().zip(chunk.as_chunks::<16>().0) {
                let both = u128::from_le_bytes(*both);
                let (low, high) = (both as u64 ^ keys[4] ^ *lane, (both >> 64) as u64 ^ keys[5]);
                *lane = fold(low, high).wrapping_add(lane.rotate_left(23));
            }
        };
        let (chunks, rest) = text.as_chunks::<64>();
        chunks.iter().for_each(&mut mix);
        let mut last = Zeroizing::new([0; 64]);
        last[..rest.len()].copy_from_slice(rest);
        mix(&last);
        fold(fold(lanes[0], lanes[1] ^ keys[6]) ^ lanes[2], lanes[3] ^ keys[7])
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}
