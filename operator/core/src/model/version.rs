//! The versions of servers, as the tags of their images have them.

use std::fmt;

/// The major and the minor version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    /// `None` if only the major version counts, or if it is unknown.
    pub minor: Option<u32>,
}

impl Version {
    /// Returns the version in an image's tag; `None` for a digest, or for a name without a tag.
    pub fn of_image(image: &str) -> Option<Self> {
        let name = image.split('@').next()?.rsplit('/').next()?;
        let (_, tag) = name.split_once(':')?;
        Self::parse(tag)
    }

    /// Reads the leading numbers of a text, such as `18`, `4.3.6-management` or `v1.19.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = number(text)?;
        let minor = rest.strip_prefix('.').and_then(number);
        Some(Self {
            major,
            minor: minor.map(|(minor, _)| minor),
        })
    }
}

/// Returns the leading number of a text and the rest of it.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.major)?;
        match self.minor {
            Some(minor) => write!(formatter, ".{minor}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_leading_numbers_of_the_tag() {
        for (image, expected) in [
            ("postgres:18.6", Some("18.6")),
            ("mirror.test/library/postgres:17-bookworm", Some("17")),
            ("registry.test:5000/rabbitmq:4.3.6-management", Some("4.3")),
            ("qdrant/qdrant:v1.19.0", Some("1.19")),
            ("registry.test:5000/postgres", None),
            ("registry.test:5000/postgres@sha256:17", None),
            ("postgres:18.6@sha256:17", Some("18.6")),
            ("postgres:latest", None),
            ("postgres", None),
        ] {
            let found = Version::of_image(image).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{image}");
        }
    }
}
