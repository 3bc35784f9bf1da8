//! Random numbers for guests: a stream of SHA-256 blocks under a seed, the same for every repeat of the owner.
//!
//! Nothing of the host depends on them; tokens and keys are made below this crate.

use ring::digest::{SHA256, digest};

pub(crate) struct Random {
    seed: [u8; 32],
    counter: u64,
    block: [u8; 32],
    used: usize,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Random {
        Random { seed, counter: 0, block: [0; 32], used: 32 }
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == self.block.len() {
                self.next_block();
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn next_block(&mut self) {
        let mut input = [0; 56];
        input[..16].copy_from_slice(b"holdfast random\0");
        input[16..48].copy_from_slice(&self.seed);
        input[48..].copy_from_slice(&self.counter.to_le_bytes());
        self.block.copy_from_slice(digest(&SHA256, &input).as_ref());
        self.counter += 1;
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_repeats_and_another_differs() {
        let draw = |seed| {
            let mut random = Random::new([seed; 32]);
            let mut bytes = [0; 100];
            random.fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(draw(1)[..32], draw(1)[32..64], "blocks differ");
    }
}
