//! The keys of clients, as a Secret holds them: an entry `<client>` with one key a line, and an entry
//! `<client>.scopes`. An entry or a line that breaks a rule is ignored alone.
//!
//! Nothing here shows a key: a rule is a fixed text, and a report names clients only.

use std::{collections::BTreeMap, fmt, sync::Arc};

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::scope::Scopes;

/// The entries of a Secret.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// The maximum number of keys. Each costs a comparison in every request that presents one.
pub const MAX_KEYS: usize = 512;
/// The lengths of a key. Shorter ones could be guessed.
const LENGTHS: std::ops::RangeInclusive<usize> = 32..=256;
/// The end of the name of an entry with scopes.
const SCOPES: &str = ".scopes";

const NOT_A_CLIENT: &str =
    "the name of a client has 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-'";
const NOT_A_KEY: &str = "a key has 32 to 256 visible ASCII characters";
const NOT_A_DIGEST: &str = "sha256: stands before 64 hexadecimal digits";
const NOT_SCOPES: &str = "scopes are shorten, jobs, docs, metrics, links:own, links:all and admin; other words give nothing";
const NO_CLIENT: &str = "the client has no key";
const KNOWN: &str = "the key is there already";
const TOO_MANY: &str = "there are more than 512 keys";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub name: Arc<str>,
    /// A number for the name: the same one in every replica.
    pub number: u64,
    /// What its keys may be used for.
    pub scopes: Scopes,
}

/// The SHA-256 of a key, and its client.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    digest: [u8; 32],
    client: Client,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(formatter)
    }
}

/// An entry, or a line of it, that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The name of the entry.
    pub entry: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

/// Keys, and what there is to say about the entries that they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKeys {
    keys: Vec<Key>,
    /// Entries and lines that are not used.
    pub ignored: Vec<Ignored>,
    /// Clients without an entry for their scopes, which therefore have all of them.
    pub without_scopes: Vec<Arc<str>>,
}

impl ApiKeys {
    /// Reads the entries of a Secret.
    pub fn parse(entries: &Entries) -> Self {
        let mut keys = Self::default();
        for (entry, value) in entries {
            match entry.strip_suffix(SCOPES) {
                Some(client) if entries.contains_key(client) => {}
                Some(_) => keys.ignore(entry, NO_CLIENT),
                None if !is_client(entry) => keys.ignore(entry, NOT_A_CLIENT),
                None => {
                    let scopes = entries.get(&format!("{entry}{SCOPES}"));
                    let client = keys.client(entry, scopes.map(Vec::as_slice));
                    let known = keys.count();
                    keys.add(&client, value);
                    if scopes.is_none() && keys.count() > known {
                        keys.without_scopes.push(client.name);
                    }
                }
            }
        }
        keys
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the client with this key. The time tells nothing about the keys: all digests are compared to their end,
    /// and the digest of what was presented cannot be chosen.
    pub fn find(&self, presented: &[u8]) -> Option<&Client> {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        // The place of the key, counted from one.
        let mut found = 0_u32;
        for (place, key) in (1_u32..).zip(&self.keys) {
            let equal = key.digest.as_slice().ct_eq(presented.as_slice());
            found = u32::conditional_select(&found, &place, equal);
        }
        let place = usize::try_from(found).ok()?.checked_sub(1)?;
        self.keys.get(place).map(|key| &key.client)
    }

    /// Returns true if a client of this name has a key.
    pub fn has_client(&self, name: &str) -> bool {
        self.keys.iter().any(|key| &*key.client.name == name)
    }

    fn ignore(&mut self, entry: &str, rule: &'static str) {
        self.ignored.push(Ignored {
            entry: entry.to_owned(),
            rule,
        });
    }

    /// Returns a client with the scopes of its entry, or with all of them if it has no such entry.
    fn client(&mut self, name: &str, scopes: Option<&[u8]>) -> Client {
        let words = scopes.map(String::from_utf8_lossy);
        let (scopes, all_known) = words.map_or((Scopes::all(), true), |words| Scopes::read(&words));
        if !all_known {
            self.ignore(&format!("{name}{SCOPES}"), NOT_SCOPES);
        }
        Client {
            name: name.into(),
            number: number(name),
            scopes,
        }
    }

    fn add(&mut self, client: &Client, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            match digest(line) {
                Err(rule) => self.ignore(&client.name, rule),
                // With one key for two clients, either could pass for the other.
                Ok(digest) if self.keys.iter().any(|key| key.digest == digest) => {
                    self.ignore(&client.name, KNOWN);
                }
                Ok(_) if self.keys.len() == MAX_KEYS => self.ignore(&client.name, TOO_MANY),
                Ok(digest) => self.keys.push(Key {
                    digest,
                    client: client.clone(),
                }),
            }
        }
    }
}

/// The beginning of the names of people. No name of a client with a key has this sign.
const PERSON: &str = "user/";
/// The maximum length of the name of a person.
const LONGEST_NAME: usize = 128;

/// Returns the client for a person whom a proxy has signed in, unless the name is malformed. A comma may come from a second
/// header line that another proxy has joined.
pub(super) fn person(name: &str, scopes: Scopes) -> Option<Client> {
    let name = format!("{PERSON}{name}");
    is_person(&name).then(|| Client {
        number: number(&name),
        name: name.into(),
        scopes,
    })
}

/// Returns true if a client of this name is a person whom a proxy signs in.
pub fn is_person(client: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    let name = client.strip_prefix(PERSON);
    name.is_some_and(|name| (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_sign))
}

/// Returns true if a client with a key may have this name.
pub fn is_client(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_sign)
}

/// Returns the first 64 bits of the name's SHA-256.
fn number(name: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(name).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns the SHA-256 of a key, which the line may hold instead of the key. A salt would help only keys that can be
/// guessed.
fn digest(line: &[u8]) -> Result<[u8; 32], &'static str> {
    if let Some(digits) = line.strip_prefix(b"sha256:") {
        return unhex(digits).ok_or(NOT_A_DIGEST);
    }
    if !LENGTHS.contains(&line.len()) || !line.iter().all(u8::is_ascii_graphic) {
        return Err(NOT_A_KEY);
    }
    Ok(Sha256::digest(line).into())
}

fn unhex(digits: &[u8]) -> Option<[u8; 32]> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(value(pair[0])? * 16 + value(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scope::Scope;

    const KEY: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "0123456789abcdef0123456789abcdeg";
    /// The SHA-256 of "abc", from FIPS 180-2.
    const OF_ABC: &str = "sha256:BA7816BF8F01CFEA414140DE5DAE2223b00361a396177a9cb410ff61f20015ad";

    fn entries(pairs: &[(&str, &str)]) -> Entries {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect()
    }

    fn client_of(keys: &ApiKeys, presented: &str) -> Option<String> {
        keys.find(presented.as_bytes())
            .map(|client| client.name.to_string())
    }

    #[test]
    fn a_client_is_found_by_each_of_its_keys_and_by_nothing_else() {
        let lines = format!("\r\n {KEY} \r\n\n{OTHER}");
        let keys = ApiKeys::parse(&entries(&[("shop", lines.as_str()), ("mail", OF_ABC)]));
        assert!(keys.ignored.is_empty(), "{keys:?}");
        assert_eq!(keys.count(), 3);
        for (presented, client) in [
            (KEY, Some("shop")),
            (OTHER, Some("shop")),
            ("abc", Some("mail")),
            (OF_ABC, None),
            ("", None),
            (&KEY[1..], None),
            (format!("{KEY} ").as_str(), None),
        ] {
            assert_eq!(
                client_of(&keys, presented).as_deref(),
                client,
                "{presented}"
            );
        }
        assert_eq!(ApiKeys::default().find(KEY.as_bytes()), None);
    }

    #[test]
    fn scopes_bound_a_client_and_a_wrong_word_never_widens_them() {
        let secret = [
            ("all", KEY),
            ("none", "11111111111111111111111111111111"),
            ("none.scopes", " \n"),
            ("two", "22222222222222222222222222222222"),
            ("two.scopes", "docs, jobs"),
            ("typo", "33333333333333333333333333333333"),
            ("typo.scopes", "doc metrics"),
        ];
        let keys = ApiKeys::parse(&entries(&secret));
        let scopes_of = |key: &str| keys.find(key.as_bytes()).unwrap().scopes;
        assert_eq!(scopes_of(secret[0].1), Scopes::all());
        assert!(scopes_of(secret[1].1).is_empty());
        let two = Scopes::from_iter([Scope::Docs, Scope::Jobs]);
        assert_eq!(scopes_of(secret[3].1), two);
        assert_eq!(scopes_of(secret[5].1), Scopes::from_iter([Scope::Metrics]));
        assert_eq!(keys.without_scopes, [Arc::<str>::from("all")]);
        assert_eq!(
            keys.ignored,
            [Ignored {
                entry: "typo.scopes".to_owned(),
                rule: NOT_SCOPES
            }]
        );
    }

    #[test]
    fn what_breaks_a_rule_is_ignored_alone() {
        let short = format!("{}\n{OTHER}", &KEY[1..]);
        for (secret, entry, rule) in [
            (entries(&[("short", short.as_str())]), "short", NOT_A_KEY),
            (
                entries(&[("space", "0123456789abcdef 0123456789abcdef"), ("b", OTHER)]),
                "space",
                NOT_A_KEY,
            ),
            (
                entries(&[("long", "a".repeat(257).as_str()), ("b", OTHER)]),
                "long",
                NOT_A_KEY,
            ),
            (
                entries(&[("hash", &OF_ABC[..70]), ("b", OTHER)]),
                "hash",
                NOT_A_DIGEST,
            ),
            (entries(&[("a.b", KEY), ("b", OTHER)]), "a.b", NOT_A_CLIENT),
            (
                entries(&[("gone.scopes", "docs"), ("b", OTHER)]),
                "gone.scopes",
                NO_CLIENT,
            ),
            (entries(&[("b", OTHER), ("c", OTHER)]), "c", KNOWN),
        ] {
            let keys = ApiKeys::parse(&secret);
            let ignored = Ignored {
                entry: entry.to_owned(),
                rule,
            };
            assert_eq!(keys.ignored, [ignored]);
            assert_eq!(keys.count(), 1);
            assert_ne!(client_of(&keys, OTHER).as_deref(), Some("c"));
            assert!(client_of(&keys, OTHER).is_some(), "{entry}");
        }
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let lines: String = (0..600).map(|number| format!("{number:032}\n")).collect();
        let keys = ApiKeys::parse(&entries(&[("many", lines.as_str())]));
        assert_eq!(keys.count(), MAX_KEYS);
        assert_eq!(keys.ignored.len(), 600 - MAX_KEYS);
        assert!(client_of(&keys, &format!("{:032}", MAX_KEYS - 1)).is_some());
        assert!(client_of(&keys, &format!("{MAX_KEYS:032}")).is_none());
    }

    /// A stopwatch in a test would find differences that are none and miss those that are, so this one reads the code.
    #[test]
    fn keys_are_compared_in_constant_time_and_to_the_end() {
        let source = include_str!("keys.rs");
        let (_, rest) = source.split_once("pub fn find(").unwrap();
        let (find, _) = rest.split_once("\n    }\n").unwrap();
        let (_, comparison) = find.split_once("for (").unwrap();
        let (comparison, _) = comparison.split_once("\n        }\n").unwrap();
        assert!(comparison.contains("ct_eq") && comparison.contains("conditional_select"));
        for early in ["==", "if ", "break", "return", "?"] {
            assert!(!comparison.contains(early), "{early:?} in {comparison}");
        }
    }

    proptest! {
        #[test]
        fn any_secret_is_read_and_no_report_shows_a_key(
            secret in proptest::collection::btree_map("[a-z._-]{1,12}(\\.scopes)?", "[ -~\\n]{0,80}", 0..8),
            key in "[!-~]{32,60}",
        ) {
            let mut secret: Entries = secret
                .into_iter()
                .map(|(name, value)| (name, value.into_bytes()))
                .collect();
            secret.insert("Client".to_owned(), key.clone().into_bytes());
            secret.insert("Twice".to_owned(), key.clone().into_bytes());
            let keys = ApiKeys::parse(&secret);
            let of_key = keys.find(key.as_bytes());
            prop_assert_eq!(of_key.map(|client| &*client.name), Some("Client"));
            let shown = format!("{keys:?}");
            prop_assert!(!shown.contains(&key));
        }
    }
}
