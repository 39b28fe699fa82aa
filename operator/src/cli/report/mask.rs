//! Masks credentials in texts, in every form in which programs write them. Pure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use shortener_operator_core::model::credentials::{DEFINITIONS_KEY, OPERATOR_USERNAME_KEY};

/// Replacement for a credential.
pub const MASKED: &str = "[masked]";
/// Bytes of the shortest credential that is searched for: a shorter one is part of too many words.
const SHORTEST: usize = 4;
/// Bytes of the shortest part of a credential that is searched for by itself.
const SHORTEST_PART: usize = 8;
/// Characters of the shortest fragment of Base64 that is searched for.
const SHORTEST_FRAGMENT: usize = 6;
/// Keys of Secrets whose values are no credentials, and which a report would be hard to read without.
const PUBLIC_KEYS: [&str; 13] = [
    OPERATOR_USERNAME_KEY,
    "ca.crt",
    "database",
    "dbname",
    "host",
    "port",
    "provider",
    "tls.crt",
    "type",
    "user",
    "username",
    "vhost",
    "virtual_host",
];
/// Words in a Secret's values that name its parts, such as those of a pull secret.
const PUBLIC_WORDS: [&str; 2] = ["username", "password"];
/// First characters of an escaped byte.
const ESCAPES: &[u8] = b"%+\\";
/// Words before a credential in a header.
const BEFORE_A_TOKEN: [&str; 2] = ["bearer ", "authorization: basic "];

/// The credentials to mask. It has no `Debug`, which would print them.
#[derive(Default)]
pub struct Mask {
    /// Forms of the credentials, the longest first, so that a whole credential goes before its parts.
    needles: Vec<Vec<u8>>,
    /// Places in `needles` by first byte.
    starts: BTreeMap<u8, Vec<usize>>,
}

impl Mask {
    /// Returns the mask for these credentials.
    pub fn new(credentials: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let long = credentials
            .into_iter()
            .filter(|credential| credential.len() >= SHORTEST);
        let forms: BTreeSet<Vec<u8>> = long.flat_map(|credential| forms(&credential)).collect();
        let mut needles: Vec<Vec<u8>> = forms.into_iter().collect();
        needles.sort_by_key(|needle| Reverse(needle.len()));
        let mut starts: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (place, needle) in needles.iter().enumerate() {
            starts.entry(needle[0]).or_default().push(place);
        }
        Self { needles, starts }
    }

    /// Masks every text in a value, the names of fields included.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                let masked = fields.map(|(name, value)| (self.text(name), self.value(value)));
                Value::Object(masked.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Masks a text: the known credentials, and what URLs and headers mark as one.
    pub fn text(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut masked = Vec::with_capacity(bytes.len());
        let mut place = 0;
        while let Some(byte) = bytes.get(place) {
            match self.found(&bytes[place..]) {
                Some(length) => {
                    masked.extend_from_slice(MASKED.as_bytes());
                    place += length;
                }
                None => {
                    masked.push(*byte);
                    place += 1;
                }
            }
        }
        let mut masked = String::from_utf8_lossy(&masked).into_owned();
        for marked in [passwords, tokens] {
            for range in marked(&masked).into_iter().rev() {
                masked.replace_range(range, MASKED);
            }
        }
        masked
    }

    /// Returns the length of the credential with which a text begins.
    fn found(&self, text: &[u8]) -> Option<usize> {
        let first = text.first()?;
        if ESCAPES.contains(first) {
            return self.needles.iter().find_map(|needle| length(needle, text));
        }
        let places = self.starts.get(first)?.iter();
        places
            .map(|place| &self.needles[*place])
            .find_map(|needle| length(needle, text))
    }
}

/// Returns the credentials in a Secret: its values, and the parts of those that hold several or a URL.
pub fn credentials(secret: &Secret) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (key, value) in values(secret) {
        found.push(value.to_vec());
        let Ok(text) = std::str::from_utf8(value) else {
            continue;
        };
        if key == DEFINITIONS_KEY {
            found.extend(hashes(text));
            continue;
        }
        found.push(text.trim().as_bytes().to_vec());
        let parts = text.split(|c: char| c.is_whitespace() || ",;\"'=".contains(c));
        let own = parts.filter(|part| {
            let frame = part.starts_with("-----") || part.ends_with("-----");
            part.len() >= SHORTEST_PART && !frame && !PUBLIC_WORDS.contains(part)
        });
        found.extend(own.map(|part| part.as_bytes().to_vec()));
        for range in passwords(text) {
            let password = &text[range];
            found.push(password.as_bytes().to_vec());
            found.push(percent_decode_str(password).collect());
        }
    }
    found
}

/// Returns the hashes of the passwords in a broker's definitions. The rest are names, without which a report would be hard
/// to read.
fn hashes(definitions: &str) -> Vec<Vec<u8>> {
    let definitions: Value = serde_json::from_str(definitions).unwrap_or_default();
    let users = definitions["users"].as_array().into_iter().flatten();
    let hashes = users.filter_map(|user| user["password_hash"].as_str());
    hashes.map(|hash| hash.as_bytes().to_vec()).collect()
}

/// Returns a sentence for each value of a Secret that is too short to be searched for.
pub fn unsearchable(secret: &Secret) -> Vec<String> {
    let short = values(secret).filter(|(_, value)| (1..SHORTEST).contains(&value.len()));
    short
        .map(|(key, _)| {
            format!(
                "Secret {} has a value of less than {SHORTEST} characters under {key}, which is not masked: read the report before you share it",
                secret.name_any()
            )
        })
        .collect()
}

/// Returns the values of a Secret that may be credentials. `<client>.scopes` names rights.
fn values(secret: &Secret) -> impl Iterator<Item = (&str, &[u8])> {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .filter(|(key, _)| !PUBLIC_KEYS.contains(key) && !key.ends_with(".scopes"))
}

/// Returns the forms of a credential in which no byte is escaped: itself, its Base64, and what is common to the Base64 of
/// every text that contains it.
fn forms(credential: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    if std::str::from_utf8(credential).is_ok() {
        forms.push(credential.to_vec());
    }
    for engine in [&STANDARD, &URL_SAFE] {
        let whole = engine.encode(credential);
        forms.push(whole.trim_end_matches('=').as_bytes().to_vec());
        forms.push(whole.into_bytes());
        // Three bytes are four characters. The first character that depends on none of the bytes before:
        for (before, first) in [(0, 0), (1, 2), (2, 3)] {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(credential);
            let end = bytes.len() * 8 / 6;
            let encoded = engine.encode(&bytes);
            let fragment = encoded.get(first..end).unwrap_or_default();
            if fragment.len() >= SHORTEST_FRAGMENT {
                forms.push(fragment.as_bytes().to_vec());
            }
        }
    }
    forms
}

/// Returns the length of a needle at the beginning of a text, where any of its bytes may be escaped as in URLs and JSON.
fn length(needle: &[u8], text: &[u8]) -> Option<usize> {
    if text.starts_with(needle) {
        return Some(needle.len());
    }
    let mut place = 0;
    for byte in needle {
        let rest = text.get(place..)?;
        let itself = || (rest.first() == Some(byte)).then_some(1);
        place += escaped(*byte, rest).or_else(itself)?;
    }
    Some(place)
}

/// Returns the length of an escaped byte at the beginning of a text.
fn escaped(byte: u8, text: &[u8]) -> Option<usize> {
    match text {
        [b'%', high, low, ..] if hexadecimal(*high, *low) == Some(byte) => Some(3),
        [b'+', ..] if byte == b' ' => Some(1),
        [b'\\', b'u', b'0', b'0', high, low, ..] if hexadecimal(*high, *low) == Some(byte) => {
            Some(6)
        }
        [b'\\', letter, ..] if of_letter(*letter) == byte => Some(2),
        _ => None,
    }
}

fn hexadecimal(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// Returns the byte that JSON writes as a backslash and this letter.
fn of_letter(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}

/// Returns the places of the passwords in the URLs of a text, from the first to the last.
fn passwords(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "/?#\"'`<>".contains(c);
    let starts = text.match_indices("://");
    starts
        .filter_map(|(place, sign)| {
            let start = place + sign.len();
            let authority = text[start..].split(ends).next()?;
            let (login, _) = authority.rsplit_once('@')?;
            let (user, password) = login.split_once(':')?;
            let first = start + user.len() + 1;
            (!password.is_empty()).then_some(first..first + password.len())
        })
        .collect()
}

/// Returns the places of the credentials in the headers of a text, from the first to the last.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "\"'`,;\\".contains(c);
    // ASCII letters alone change, so every place stays.
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<Range<usize>> = BEFORE_A_TOKEN
        .iter()
        .flat_map(|word| lower.match_indices(word))
        .filter_map(|(place, word)| {
            let start = place + word.len();
            let token = text[start..].split(ends).next()?;
            (token.len() >= SHORTEST_PART).then_some(start..start + token.len())
        })
        .collect();
    found.sort_by_key(|range| range.start);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(credential: &str, text: &str) -> String {
        Mask::new([credential.as_bytes().to_vec()]).text(text)
    }

    fn secret(data: Value) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "data": data})).unwrap()
    }

    #[test]
    fn a_credential_is_masked_in_every_form() {
        let credential = "p@ss w\"rd/%é+";
        for text in [
            credential.to_owned(),
            format!("a{credential}z"),
            // For URLs, with upper and lower case digits, and as a form writes a space.
            "p%40ss%20w%22rd%2F%25%C3%A9%2B".to_owned(),
            "p%40ss%20w%22rd%2f%25%c3%a9%2b".to_owned(),
            "p%40ss+w%22rd%2F%25%C3%A9%2B".to_owned(),
            // In JSON.
            r#"p@ss w\"rd\/%é+"#.to_owned(),
            r#"p@ss w\u0022rd/%é\u002b"#.to_owned(),
            STANDARD.encode(credential),
            URL_SAFE.encode(credential),
            STANDARD.encode(credential).replace('=', "%3D"),
        ] {
            let masked = masked(credential, &text);
            let rest = masked.replace(MASKED, "");
            assert!(["", "az"].contains(&rest.as_str()), "{text}: {masked}");
        }
    }

    #[test]
    fn a_credential_inside_of_base64_is_masked_at_every_place() {
        for user in ["u", "us", "use"] {
            let login = STANDARD.encode(format!("{user}:correct-horse-battery:z"));
            let masked = masked("correct-horse-battery", &login);
            assert!(masked.contains(MASKED), "{login}: {masked}");
            assert!(masked.len() < MASKED.len() + 12, "{login}: {masked}");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["", "100 % of é", "a+b\\c", "https://go.example.com/a@b:c"] {
            assert_eq!(masked("s3cret", text), text);
        }
    }

    #[test]
    fn the_parts_of_a_value_are_credentials_too_and_public_entries_are_none() {
        let found = credentials(&secret(json!({
            // amqp://u:p%40ss@host:5672/ with the user that stays readable.
            "uri": STANDARD.encode("amqp://u:p%40ss@host:5672/"),
            "keys": STANDARD.encode("0123456789abcdef\nfedcba9876543210\n"),
            "username": STANDARD.encode("shortener"),
            "operator-username": STANDARD.encode("shortener-operator"),
            "definitions.json": STANDARD.encode(
                r#"{"users": [{"name": "shortener-operator", "password_hash": "BQYHCNd18mo+GPOB"}]}"#,
            ),
            "shop.scopes": STANDARD.encode("shorten metrics"),
        })));
        let mask = Mask::new(found);
        for text in [
            "p%40ss",
            "p@ss",
            "0123456789abcdef",
            "fedcba9876543210",
            "BQYHCNd18mo+GPOB",
        ] {
            assert_eq!(mask.text(text), MASKED, "{text}");
        }
        for text in ["shortener", "shortener-operator", "shorten metrics", "host"] {
            assert_eq!(mask.text(text), text);
        }
    }

    #[test]
    fn passwords_in_urls_and_tokens_in_headers_need_not_be_known() {
        let mask = Mask::default();
        assert_eq!(
            mask.text("cannot reach redis://u:hidden@cache:6379/0 and http://a:b@c"),
            "cannot reach redis://u:[masked]@cache:6379/0 and http://a:[masked]@c"
        );
        assert_eq!(
            mask.text("{\"Authorization\": \"Bearer abc.def-123\"}"),
            "{\"Authorization\": \"Bearer [masked]\"}"
        );
        assert_eq!(mask.text("a bearer of news"), "a bearer of news");
    }

    #[test]
    fn a_value_that_is_too_short_to_be_searched_for_is_told() {
        let short = secret(json!({"password": "YWI=", "empty": "", "username": "YQ=="}));
        let told = unsearchable(&short);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("Secret mine") && told[0].contains("under password"));
        assert_eq!(masked("ab", "about"), "about");
    }
}
