//! Digests in place of texts that are only compared: a cache keeps tens of thousands of them.

use sha2::{Digest as _, Sha256};

/// A digest of 128 bits of some texts in a row. Names are chosen by users, so it is a cryptographic one: no two rows with
/// the same digest are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    /// Returns the digest of texts in this order.
    pub fn of(texts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for text in texts {
            // With its length, so that a letter that moves to the next text makes another row.
            hasher.update(text.len().to_be_bytes());
            hasher.update(text);
        }
        let mut digest = [0; 16];
        for (byte, hashed) in digest.iter_mut().zip(hasher.finalize()) {
            *byte = hashed;
        }
        Self(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_same_digest_only_in_the_same_row() {
        let digest = Digest::of(&["links", "acme"]);
        assert_eq!(digest, Digest::of(&["links", "acme"]));
        for other in [
            &["links", "acm"] as &[&str],
            &["linksa", "cme"],
            &["acme", "links"],
            &["links"],
            &["links", "acme", ""],
        ] {
            assert_ne!(digest, Digest::of(other), "{other:?}");
        }
    }
}
