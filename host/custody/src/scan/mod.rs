//! The scanner: does a text hold a live secret in some derived form (attacks 3, 8, 12, 13, 14)?
//!
//! A [`Scanner`] keeps keyed digests of forms, never the forms, and reads a text once whatever the number of secrets. A
//! text is read as it is and *folded* to its letters and digits in lower case, which undoes case, line wrapping,
//! separators and the two base64 alphabets at once. Escapes (percent, entities, backslashes, quoted-printable) are
//! peeled off, up to two layers deep, and each layer is read the same way.

mod document;
mod fold;
mod forms;
mod index;
mod layers;
pub mod live;
mod peel;
mod reading;
mod sieve;

use fold::fold;
use index::Index;
use reading::{Prints, Reading};
use zeroize::Zeroizing;

/// Shortest secret that is scanned for in all forms. Shorter deposits are refused, and shorter captures never enter a
/// live set (attack 47).
pub const FLOOR: usize = 8;
/// Shortest folded form of the secret itself; anything shorter would meet ordinary words.
const FOLDED_FLOOR: usize = 10;

/// What kind of text a secret is; decides which parts of it are secrets on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One value: a password, a key, a token. Any part of a long one is secret too.
    Value,
    /// A text with secrets in it: first-boot data, a PEM or JSON file. Its lines and its random or named tokens are
    /// secrets; its ordinary words are not (attack 89).
    Document,
    /// An encoded form exactly as it was sent. Any part of it is secret.
    Encoded,
}

/// Finds secrets in texts. Owners are the caller's numbers.
#[derive(Default)]
pub struct Scanner {
    exact: Index,
    folded: Index,
    /// Secrets under [`FLOOR`] bytes: compared directly. No caller adds any (attack 47).
    short: Vec<(u32, Zeroizing<Vec<u8>>)>,
    prints: Prints,
}

impl Scanner {
    pub fn new() -> Scanner {
        Scanner::default()
    }

    /// Adds every derived form of a secret. `public` is a text that may be repeated although the secret holds it (the
    /// machine's own name inside its first-boot data).
    pub fn add(&mut self, owner: u32, kind: Kind, secret: &[u8], public: &str) {
        match kind {
            Kind::Value => self.add_value(owner, secret),
            Kind::Document => self.add_document(owner, secret, public),
            Kind::Encoded => self.add_windows(owner, secret, 16, 32),
        }
    }

    /// Forgets an owner's forms.
    pub fn remove(&mut self, owner: u32) {
        self.exact.remove(owner);
        self.folded.remove(owner);
        self.short.retain(|(of, _)| *of != owner);
    }

    /// The owner of some secret that the text holds, as it is or under up to two layers of escapes. No position, no
    /// form: the answer is the same for every hit.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        Reading::new(self).find(text)
    }

    /// How many bytes [`find`](Scanner::find) reads of a text and of what it peels from it, all views together. For tests
    /// and benches: the bound on what a hostile text costs.
    pub fn work(&self, text: &[u8]) -> usize {
        let mut reading = Reading::new(self);
        reading.find(text);
        reading.work()
    }

    /// Number of forms kept, each once for every place where it is entered. For benches.
    pub fn forms(&self) -> usize {
        self.exact.len() + self.folded.len()
    }

    fn add_value(&mut self, owner: u32, secret: &[u8]) {
        if secret.is_empty() {
            return;
        }
        if secret.len() < FLOOR {
            self.short.push((owner, Zeroizing::new(secret.to_vec())));
            return;
        }
        self.add_forms(owner, &forms::all(secret));
        // Slices of a long value (attack 12): every run of some twelve letters and digits holds one of these windows.
        if secret.len() >= 24 {
            self.add_windows(owner, secret, 10, 2);
            for core in forms::base64_cores(secret) {
                self.add_windows(owner, &core, 12, 4);
            }
            self.add_windows(owner, &forms::hex(secret), 16, 4);
        }
    }

    fn add_document(&mut self, owner: u32, secret: &[u8], public: &str) {
        for part in document::parts(secret, public) {
            let forms = if part.random { forms::all(part.bytes) } else { forms::common(part.bytes) };
            self.add_forms(owner, &forms);
        }
        for core in forms::base64_cores(secret) {
            self.add_windows(owner, &core, 16, 32);
        }
        if secret.len() < 64 {
            self.add_forms(owner, &forms::all(secret));
        }
    }

    /// A text that holds a form also holds it folded, so that the form itself is needed only where folding leaves too
    /// little of it.
    fn add_forms(&mut self, owner: u32, forms: &[forms::Form]) {
        for form in forms {
            let folded = fold(&form.bytes);
            let floor = if form.encoded { FLOOR } else { FOLDED_FLOOR };
            if folded.len() >= floor {
                self.folded.insert(owner, &folded);
            } else {
                self.exact.insert(owner, &form.bytes);
            }
        }
    }

    fn add_windows(&mut self, owner: u32, bytes: &[u8], length: usize, stride: usize) {
        let folded = fold(bytes);
        let rich = folded.len() * 10 >= bytes.len() * 6;
        let (index, bytes) = if rich { (&mut self.folded, &folded[..]) } else { (&mut self.exact, bytes) };
        if bytes.len() <= length {
            return index.insert(owner, bytes);
        }
        let last = bytes.len() - length;
        for start in (0..last).step_by(stride).chain([last]) {
            index.insert(owner, &bytes[start..start + length]);
        }
    }
}

#[cfg(test)]
mod tests;
