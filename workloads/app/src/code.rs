//! Short codes: their syntax, the reserved ones, and the generation of new ones.

use rand::{CryptoRng, RngExt};

/// The maximum length of a code that a client chooses.
pub const MAX_LENGTH: usize = 64;

/// First path segments that never become a code: every route, and names that are reserved for later routes, because a
/// code is never given out again. Some are not well-formed codes anyway; they are listed for completeness.
pub const RESERVED: &[&str] = &[
    "api",
    "health",
    "metrics",
    "shorten",
    "jobs",
    "docs",
    "openapi.json",
    "gateway-health",
    "livez",
    "readyz",
    "problems",
    ".well-known",
    "robots.txt",
    "favicon.ico",
    "admin",
    "console",
    "ui",
    "login",
    "logout",
    "auth",
    "oauth2",
    "static",
    "assets",
    "qr",
    "v1",
    "v2",
];

/// A well-formed code that is not reserved. It borrows the text, so that a redirect copies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code<'a>(&'a str);

/// The reason why a text is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The length is wrong, or a character is outside the alphabet.
    #[error("must be 1 to 64 of the characters A-Z, a-z, 0-9, '_' and '-'")]
    Malformed,
    /// The text is the name of a route, or is reserved for one.
    #[error("is reserved: choose another code")]
    Reserved,
}

impl<'a> Code<'a> {
    /// Validates a text. Nothing is decoded here: [`crate::unescaped`] has done it for paths.
    ///
    /// # Errors
    /// Fails if the text is malformed or reserved.
    pub fn parse(text: &'a str) -> Result<Self, CodeError> {
        let well_formed = (1..=MAX_LENGTH).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !well_formed {
            return Err(CodeError::Malformed);
        }
        if RESERVED
            .iter()
            .any(|reserved| reserved.eq_ignore_ascii_case(text))
        {
            return Err(CodeError::Reserved);
        }
        Ok(Self(text))
    }

    /// Returns the text of the code.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns a copy for work that outlives the request.
    pub fn to_owned(self) -> OwnedCode {
        OwnedCode(self.0.to_owned())
    }
}

/// A [`Code`] that owns its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedCode(String);

impl OwnedCode {
    pub fn borrow(&self) -> Code<'_> {
        Code(&self.0)
    }
}

/// The parameters of generated codes.
#[derive(Clone, Copy, Debug)]
pub struct CodeSpace {
    /// The characters of a code.
    pub alphabet: &'static [u8],
    /// The length of a code as long as no collision occurs.
    pub length: usize,
}

impl Default for CodeSpace {
    /// Returns a space of codes of 7 characters, without the similar characters `0`, `O`, `1`, `l` and `I`.
    fn default() -> Self {
        Self {
            alphabet: b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
            length: 7,
        }
    }
}

impl CodeSpace {
    /// The number of attempts at one length before a code gets one more character.
    pub const TRIES_PER_LENGTH: usize = 5;
    /// The maximum number of additional characters.
    pub const MAX_GROWTH: usize = 4;

    /// Returns the lengths of the codes to try, in order.
    pub fn lengths(self) -> impl Iterator<Item = usize> {
        (self.length..=self.length + Self::MAX_GROWTH)
            .flat_map(|length| std::iter::repeat_n(length, Self::TRIES_PER_LENGTH))
    }

    /// Returns a random code of this length that is not a reserved word.
    pub fn generate(self, length: usize, random: &mut impl CryptoRng) -> String {
        loop {
            let code: String = (0..length)
                .map(|_| char::from(self.alphabet[random.random_range(0..self.alphabet.len())]))
                .collect();
            if Code::parse(&code).is_ok() {
                return code;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn one_to_sixty_four_characters_of_the_alphabet_make_a_code() {
        for good in ["a", "A-b_9", &"x".repeat(64)] {
            assert_eq!(Code::parse(good).map(Code::as_str), Ok(good));
        }
        for bad in [
            "",
            &"x".repeat(65),
            &"x".repeat(10_000),
            "..",
            "../a",
            "a/b",
            "a.b",
            "a b",
            "%61",
            "a%00",
            "a\0",
            "é",
            "\u{430}bc",
            "a\u{200b}",
            "a\n",
        ] {
            assert_eq!(Code::parse(bad), Err(CodeError::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn reserved_words_are_refused_in_any_case() {
        for word in [
            "api",
            "API",
            "Health",
            "sHoRtEn",
            "metrics",
            "gateway-health",
            "Admin",
            "console",
            "UI",
            "login",
            "logout",
            "auth",
            "OAuth2",
            "static",
            "assets",
            "QR",
            "v1",
            "V2",
        ] {
            assert_eq!(Code::parse(word), Err(CodeError::Reserved), "{word}");
        }
    }

    #[test]
    fn generated_codes_are_well_formed_and_unambiguous() {
        let space = CodeSpace::default();
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..10_000 {
            let code = space.generate(space.length, &mut random);
            assert_eq!(code.len(), 7);
            assert!(Code::parse(&code).is_ok());
            assert!(!code.contains(['0', 'O', '1', 'l', 'I']), "{code}");
        }
    }

    #[test]
    fn a_generated_code_is_never_a_reserved_word() {
        // With this alphabet and length, `api` would be one of 27 possible codes.
        let space = CodeSpace {
            alphabet: b"api",
            length: 3,
        };
        let mut random = StdRng::seed_from_u64(7);
        assert!((0..1000).all(|_| space.generate(3, &mut random) != "api"));
    }

    #[test]
    fn codes_grow_by_one_character_after_five_tries_and_tries_are_bounded() {
        let lengths: Vec<usize> = CodeSpace::default().lengths().collect();
        assert_eq!(lengths[..6], [7, 7, 7, 7, 7, 8]);
        assert_eq!(lengths.len(), 25);
    }

    proptest! {
        #[test]
        fn whatever_parses_is_safe_in_a_path(text in "\\PC{0,70}") {
            if let Ok(code) = Code::parse(&text) {
                prop_assert_eq!(code.as_str(), &text);
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#%.\\".contains(&byte)));
            }
        }
    }
}
