//! Enums whose variants have words outside the program, as in a table or in an answer.

/// Makes an enum from its variants, each with its word. It has `ALL`, `as_str` and `of_word`.
#[macro_export]
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$attribute])*
        pub enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Returns the word for it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns the one with this word, if there is one.
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == word)
            }
        }
    };
}
