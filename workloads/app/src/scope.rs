//! What a key may be used for.

shortener_common::words! {
    /// A group of routes, with the word for it in Secrets, settings and answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scope {
        /// Creating links.
        Shorten = "shorten",
        /// Jobs.
        Jobs = "jobs",
        /// Documents.
        Docs = "docs",
        /// Metrics on the public port.
        Metrics = "metrics",
        /// Management of the links that the client created.
        LinksOwn = "links:own",
        /// Management of all links.
        LinksAll = "links:all",
        /// Management.
        Admin = "admin",
    }
}

impl Scope {
    /// Returns true for a scope of management, which always needs a key.
    pub fn is_management(self) -> bool {
        matches!(self, Self::LinksOwn | Self::LinksAll | Self::Admin)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Returns the set of all scopes.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Reads words that are separated by spaces, line ends or commas. Returns the set of those that are scopes, and
    /// true if all of them are.
    pub fn read(text: &str) -> (Self, bool) {
        let words = text.split(|sign: char| sign.is_ascii_whitespace() || sign == ',');
        let found: Vec<Option<Scope>> = words
            .filter(|word| !word.is_empty())
            .map(Scope::of_word)
            .collect();
        let all_known = found.iter().all(Option::is_some);
        (found.into_iter().flatten().collect(), all_known)
    }

    /// Returns true if the scope is in the set.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Returns the scopes of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_words_between_spaces_commas_and_line_ends() {
        let table: [(&str, &[Scope], bool); 9] = [
            ("", &[], true),
            (" \n,", &[], true),
            ("shorten", &[Scope::Shorten], true),
            ("jobs, docs\n", &[Scope::Jobs, Scope::Docs], true),
            ("admin metrics,admin", &[Scope::Metrics, Scope::Admin], true),
            (
                "links:own,links:all",
                &[Scope::LinksOwn, Scope::LinksAll],
                true,
            ),
            ("links", &[], false),
            ("Admin", &[], false),
            ("docs everything", &[Scope::Docs], false),
        ];
        for (text, scopes, all_known) in table {
            let expected: Scopes = scopes.iter().copied().collect();
            assert_eq!(Scopes::read(text), (expected, all_known), "{text:?}");
        }
    }

    #[test]
    fn a_set_contains_what_it_was_made_of() {
        for one in Scope::ALL {
            let set = Scopes::from_iter([one]);
            for other in Scope::ALL {
                assert_eq!(set.contains(other), one == other);
            }
            assert!(Scopes::all().contains(one) && !set.is_empty());
        }
        assert!(Scopes::default().is_empty());
        let both = Scopes::from_iter([Scope::Jobs, Scope::Docs]);
        let union = Scopes::from_iter([Scope::Jobs]).union(Scopes::from_iter([Scope::Docs]));
        assert_eq!(union, both);
    }
}
