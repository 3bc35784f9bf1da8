//! A sieve for grams: says of nearly every place of a text that no form is there, at the cost of two loads.

/// Two halves of one byte for each slot. A gram sets the same one of eight bits in its slot of each half, so that a
/// place is looked up without shifts: a bit that both slots share means that the gram may be there.
pub(super) struct Sieve {
    halves: [Vec<u8>; 2],
    bits: u32,
}

const FEWEST_BITS: u32 = 12;
const MOST_BITS: u32 = 21;

impl Sieve {
    /// A sieve for a number of grams: about one place in 500 passes by chance.
    pub fn new(grams: usize) -> Sieve {
        let wanted = (grams * 8).next_power_of_two().trailing_zeros();
        let bits = wanted.clamp(FEWEST_BITS, MOST_BITS);
        Sieve { halves: [vec![0; 1 << bits], vec![0; 1 << bits]], bits }
    }

    /// Is there a larger sieve for so many grams?
    pub fn too_small_for(&self, grams: usize) -> bool {
        self.bits < MOST_BITS && grams * 8 > 1 << self.bits
    }

    pub fn mark(&mut self, gram: u64) {
        let bit = 1 << (gram >> 24 & 7);
        let mask = (1 << self.bits) - 1;
        self.halves[0][gram as usize & mask] |= bit;
        self.halves[1][(gram >> 32) as usize & mask] |= bit;
    }

    pub fn view(&self) -> View<'_> {
        let mask = (1 << self.bits) - 1;
        // Slices of exactly the mask's length, for the compiler to see that no slot is outside.
        View { one: &self.halves[0][..=mask], two: &self.halves[1][..=mask], mask }
    }
}

/// The sieve as a loop reads it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    one: &'a [u8],
    two: &'a [u8],
    mask: usize,
}

impl View<'_> {
    /// Not 0 where the gram may have been marked.
    #[inline(always)]
    pub fn passes(self, gram: u64) -> u8 {
        self.one[gram as usize & self.mask] & self.two[(gram >> 32) as usize & self.mask]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_marked_passes_and_nearly_nothing_else_does() {
        let mut state = 1u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let grams: Vec<u64> = (0..8000).map(|_| next()).collect();
        let mut sieve = Sieve::new(grams.len());
        assert!(!sieve.too_small_for(grams.len()) && sieve.too_small_for(grams.len() * 2));
        grams.iter().for_each(|gram| sieve.mark(*gram));
        assert!(grams.iter().all(|gram| sieve.view().passes(*gram) != 0));
        let others = (0..100_000).filter(|_| sieve.view().passes(next()) != 0).count();
        assert!(others < 1000, "{others} of 100,000");
    }
}
