//! The layers of escapes of a text, laid open piece by piece.
//!
//! What a layer shows and the text itself doesn't holds a place where an escape was undone. So only the surroundings of
//! escapes are peeled and read again, as far around them as the longest form reaches. Escapes far apart cost nothing but
//! their surroundings; where they stand close, a piece grows to the whole text, once for each family and pair of them.

use super::fold::folds_to_itself;
use super::peel::{Family, LONGEST, Undone, is_mark};
use zeroize::Zeroizing;

/// How far a form reaches.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    /// Letters and digits of the longest folded form.
    pub folded: usize,
    /// Bytes of the longest form that is looked for as it is.
    pub exact: usize,
}

impl Reach {
    fn is_covered_by(self, folded: usize, exact: usize) -> bool {
        folded >= self.folded && exact >= self.exact
    }

    /// The end of the surroundings of an escape that ends at `from`. Bytes that may belong to an escape of whatever
    /// family don't count, as another layer may leave next to nothing of them.
    fn right(self, text: &[u8], from: usize) -> usize {
        let (mut folded, mut exact, mut plain_from) = (0, 0, from + LONGEST);
        for (at, byte) in text.iter().enumerate().skip(from) {
            if is_mark(*byte) {
                plain_from = at + LONGEST;
            } else if at >= plain_from {
                exact += 1;
                folded += usize::from(folds_to_itself(*byte));
                if self.is_covered_by(folded, exact) {
                    return (at + LONGEST).min(text.len());
                }
            }
        }
        text.len()
    }

    /// Where a form begins at the earliest that goes on after the text.
    fn back(self, text: &[u8]) -> usize {
        let (mut folded, mut exact) = (0, 0);
        let covers = |byte: &u8| {
            exact += 1;
            folded += usize::from(folds_to_itself(*byte));
            self.is_covered_by(folded, exact)
        };
        text.iter().rposition(covers).unwrap_or(0)
    }

    /// The start of the surroundings of an escape at `from`, not before `floor`.
    fn left(self, text: &[u8], from: usize, floor: usize) -> usize {
        let (mut folded, mut exact, mut mark) = (0, 0, usize::MAX);
        for at in (floor..from).rev() {
            if is_mark(text[at]) {
                mark = at;
            }
            // Only now it is known that no mark stands right before that byte.
            let plain = at + LONGEST - 1;
            if plain < from && mark >= plain {
                exact += 1;
                folded += usize::from(folds_to_itself(text[plain]));
                if self.is_covered_by(folded, exact) {
                    return at.saturating_sub(LONGEST).max(floor);
                }
            }
        }
        floor
    }
}

/// The pieces of a text that a family's escapes change, one after the other.
pub(super) struct Pieces<'a> {
    family: Family,
    text: &'a [u8],
    reach: Reach,
    /// Escapes that are no further apart than this belong to one piece.
    near: usize,
    /// Where the next piece begins; no escape starts between it and `next`.
    start: usize,
    next: Option<(usize, Undone)>,
    /// Where a piece that grew too long goes on, and how much of its end stands at the next one's start too.
    cut: Option<(usize, usize)>,
    /// No further layer is peeled off the pieces: all of their bytes count.
    last: bool,
}

/// A piece of this length is cut where it can be, so that it stays in the cache and no text takes much memory.
const LONG: usize = if cfg!(test) { 128 } else { 64 << 10 };

impl<'a> Pieces<'a> {
    pub fn new(family: Family, text: &'a [u8], reach: Reach, last: bool) -> Pieces<'a> {
        let near = 2 * reach.folded.max(reach.exact);
        let next = family.next(text, 0);
        let start = next.map_or(0, |(escape, _)| reach.left(text, escape, 0));
        Pieces { family, text, reach, near, start, next, cut: None, last }
    }

    /// Fills `out` with the next piece, its escapes undone. False at the end.
    pub fn next(&mut self, out: &mut Scratch) -> bool {
        // One loop for each family, without a choice at every escape.
        match self.family {
            Family::Percent => self.fill(Family::Percent, out),
            Family::Form => self.fill(Family::Form, out),
            Family::Entity => self.fill(Family::Entity, out),
            Family::Backslash => self.fill(Family::Backslash, out),
            Family::QuotedPrintable => self.fill(Family::QuotedPrintable, out),
        }
    }

    #[inline(always)]
    fn fill(&mut self, family: Family, out: &mut Scratch) -> bool {
        let text = self.text;
        let mut long = LONG.max(2 * self.near);
        let Some((mut escape, mut undone)) = self.next.take() else { return false };
        let mut from = match self.cut.take() {
            Some((from, kept)) => {
                out.keep_last(kept);
                from
            }
            None => {
                out.keep_last(0);
                self.start
            }
        };
        loop {
            out.push(text, from, escape);
            out.push_undone(&undone);
            from = escape + undone.escape;
            let Some((further, next)) = family.next(text, from) else {
                out.push(text, from, self.reach.right(text, from));
                return true;
            };
            // Surroundings have at least as many bytes as they have letters.
            if further - from > self.near
                && let Some((end, start)) = self.gap(from, further)
            {
                out.push(text, from, end);
                (self.start, self.next) = (start, Some((further, next)));
                return true;
            }
            if out.filled > long {
                if let Some(kept) = self.overlap(out.bytes(), long / 2) {
                    (self.cut, self.next) = (Some((from, kept)), Some((further, next)));
                    return true;
                }
                long = 2 * out.filled;
            }
            (escape, undone) = (further, next);
        }
    }

    /// How much of the end of a piece a form needs that begins there. `None` if that is more than `most`, as in a text of
    /// marks alone.
    fn overlap(&self, piece: &[u8], most: usize) -> Option<usize> {
        let floor = piece.len() - most;
        let start = match self.last {
            true => self.reach.back(piece),
            false => self.reach.left(piece, piece.len(), floor),
        };
        (start > floor).then(|| piece.len() - start)
    }

    /// Where a piece ends whose last escape ends at `from`, and where the next begins; `None` if the next escape is too
    /// near.
    fn gap(&self, from: usize, further: usize) -> Option<(usize, usize)> {
        let end = self.reach.right(self.text, from);
        if end >= further {
            return None;
        }
        let start = self.reach.left(self.text, further, from);
        (end <= start).then_some((end, start))
    }
}

/// A growing text that is wiped wherever it was, also when there is no longer room for it.
#[derive(Default)]
pub(super) struct Scratch {
    room: Zeroizing<Vec<u8>>,
    filled: usize,
}

/// Bytes that are copied in one go, needed or not.
const STEP: usize = 16;

impl Scratch {
    pub fn bytes(&self) -> &[u8] {
        &self.room[..self.filled]
    }

    fn keep_last(&mut self, kept: usize) {
        self.room.copy_within(self.filled - kept..self.filled, 0);
        self.filled = kept;
    }

    /// Adds a part of a text.
    #[inline(always)]
    fn push(&mut self, text: &[u8], from: usize, to: usize) {
        let length = to - from;
        let room = self.room_for(length + STEP);
        match text.get(from..from + STEP) {
            Some(step) if length <= STEP => room[..STEP].copy_from_slice(step),
            _ => room[..length].copy_from_slice(&text[from..to]),
        }
        self.filled += length;
    }

    #[inline(always)]
    fn push_undone(&mut self, undone: &Undone) {
        let (bytes, length) = undone.bytes();
        self.room_for(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled += length;
    }

    #[inline(always)]
    fn room_for(&mut self, more: usize) -> &mut [u8] {
        if self.room.len() - self.filled < more {
            self.grow(more);
        }
        &mut self.room[self.filled..]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) {
        let wanted = 4 * (self.filled + more).max(128);
        let mut larger = Zeroizing::new(vec![0; wanted]);
        larger[..self.filled].copy_from_slice(self.bytes());
        self.room = larger;
    }
}
