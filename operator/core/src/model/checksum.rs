//! Checksums that restart pods when a Secret that they use changes.
//!
//! With a plain hash of a credential in an annotation, any user who can read pods could test guesses. A resource
//! version would restart pods on every write to the Secret. The checksum is therefore a keyed hash, and each stack
//! keeps its key in a Secret of its own.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use k8s_openapi::ByteString;
use sha2::Sha256;

/// The key of the Secret's data that holds the checksum key.
pub const CHECKSUM_KEY: &str = "key";

/// First letters of the checksum of the Secrets that the user's settings of pods name. They tell it from the other
/// checksums in a pod template, before which it stands.
const OF_USER: &str = "user-";

/// Returns a checksum of the Secrets that the user's settings of pods name, as pod templates contain it.
pub fn of_user(checksum: &str) -> String {
    format!("{OF_USER}{checksum}")
}

/// Returns the checksum of the Secrets that the user's settings name among those of a pod template, if there is one.
pub fn find_of_user(checksums: &str) -> Option<&str> {
    let mut checksums = checksums.split('.');
    checksums.find(|checksum| checksum.starts_with(OF_USER))
}

/// Returns the HMAC-SHA-256 of the entries, shortened to 128 bits, in hexadecimal.
pub fn checksum(key: &[u8], data: &BTreeMap<String, ByteString>) -> String {
    // HMAC accepts keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    for (name, value) in data {
        for part in [name.as_bytes(), value.0.as_slice()] {
            // The lengths distinguish ("ab", "c") from ("a", "bc").
            mac.update(&part.len().to_be_bytes());
            mac.update(part);
        }
    }
    hexadecimal(mac.finalize().into_bytes().iter().take(16))
}

/// Returns a password that follows from the key, in hexadecimal: always the same one for a purpose. It equals no
/// checksum, because the entries of a checksum begin with a length, and a purpose is text.
pub fn derived_password(key: &[u8], purpose: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(purpose.as_bytes());
    hexadecimal(mac.finalize().into_bytes().iter())
}

/// Returns bytes in hexadecimal.
pub fn hexadecimal<'a>(bytes: impl Iterator<Item = &'a u8>) -> String {
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect()
    }

    #[test]
    fn a_checksum_depends_on_key_names_and_values() {
        let first = checksum(b"key", &data(&[("password", "a")]));
        assert_eq!(first, checksum(b"key", &data(&[("password", "a")])));
        assert_ne!(first, checksum(b"other", &data(&[("password", "a")])));
        assert_ne!(first, checksum(b"key", &data(&[("password", "b")])));
        assert_ne!(
            checksum(b"key", &data(&[("ab", "c")])),
            checksum(b"key", &data(&[("a", "bc")]))
        );
    }

    #[test]
    fn the_checksum_of_the_users_secrets_is_found_among_others() {
        let user = of_user("0123");
        for others in ["4567.89ab", ""] {
            let checksums = format!("{user}.{others}");
            assert_eq!(find_of_user(&checksums), Some(user.as_str()));
            assert_eq!(find_of_user(others), None);
        }
    }

    #[test]
    fn a_derived_password_depends_on_key_and_purpose_and_is_long() {
        let first = derived_password(b"key", "one");
        assert_eq!(first, derived_password(b"key", "one"));
        assert_ne!(first, derived_password(b"other", "one"));
        assert_ne!(first, derived_password(b"key", "two"));
        assert_eq!(first.len(), 64);
    }
}
