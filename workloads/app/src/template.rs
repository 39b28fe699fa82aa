//! Links with arguments: the destination is a template, and the rest of a request's path fills it.
//!
//! `{1}` to `{9}` stand for the segments behind the code, and `{path}` for all of them with the slashes between. Values
//! are encoded as in RFC 6570, section 3.2.2: everything but unreserved characters, so that one fits every place behind
//! the host. A template is stored as given, and its arguments never are.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{location, target::MAX_LOCATION};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The reason why a text is not a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "must have a placeholder: {{1}} to {{9}} for a segment of the path, or {{path}} for all of them"
    )]
    Missing,
    #[error("must have its placeholders behind the host, in the path, the query or the fragment")]
    Host,
    #[error("must use braces for placeholders alone: {{1}} to {{9}}, and {{path}}")]
    Unknown,
}

/// The reason why a template has no destination for some arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The template does not take them.
    Refused,
    /// The destination would be longer than [`MAX_LOCATION`].
    TooLong,
}

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// One segment, counted from 0.
    Segment(usize),
    Path,
}

/// Checks the placeholders of a destination, whose other rules are those of every destination.
///
/// # Errors
/// Returns the first rule that the text violates.
pub fn check(text: &str) -> Result<(), TemplateError> {
    let parts = parse(text)?;
    let has_placeholder = parts.iter().any(|part| !matches!(part, Part::Text(_)));
    has_placeholder.then_some(()).ok_or(TemplateError::Missing)
}

/// Returns the destination for the path behind the code, which begins without a slash, as a URI. Missing segments are
/// empty, and a slash at the end adds none.
///
/// # Errors
/// Fails if the template does not take so many segments, if one could be read as something else (`.`, `..`, an empty one
/// or one with a control character or a backslash), or if the destination would be too long.
pub fn expand(template: &str, path: &str) -> Result<String, Unfit> {
    let parts = parse(template).map_err(|_| Unfit::Refused)?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments = match path {
        "" => Vec::new(),
        path => path
            .split('/')
            .map(segment)
            .collect::<Option<_>>()
            .ok_or(Unfit::Refused)?,
    };
    let taken = parts.iter().map(|part| match part {
        Part::Text(_) => 0,
        Part::Segment(place) => place + 1,
        Part::Path => usize::MAX,
    });
    if segments.len() > taken.max().unwrap_or(0) {
        return Err(Unfit::Refused);
    }
    let text = parts.into_iter().map(|part| match part {
        Part::Text(text) => Cow::Borrowed(text),
        Part::Segment(place) => Cow::Borrowed(segments.get(place).map_or("", String::as_str)),
        Part::Path => Cow::Owned(segments.join("/")),
    });
    let url = location::ascii(&text.collect::<String>()).into_owned();
    (url.len() <= MAX_LOCATION)
        .then_some(url)
        .ok_or(Unfit::TooLong)
}

/// Returns a segment of a path with the encoding of a value; `None` if it is no value.
fn segment(text: &str) -> Option<String> {
    let value = percent_decode_str(text).decode_utf8().ok()?;
    let is_value = !matches!(&*value, "" | "." | "..")
        && !value
            .chars()
            .any(|character| character.is_control() || character == '\\');
    is_value.then(|| utf8_percent_encode(&value, RESERVED).to_string())
}

fn parse(text: &str) -> Result<Vec<Part<'_>>, TemplateError> {
    let host = text.find("://").map_or(0, |scheme| scheme + "://".len());
    let end = text[host..].find(['/', '?', '#']).map(|end| host + end);
    if text[..end.unwrap_or(text.len())].contains(['{', '}']) {
        return Err(TemplateError::Host);
    }
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').ok_or(TemplateError::Unknown)?;
        parts.push(Part::Text(before));
        parts.push(match name.as_bytes() {
            [digit @ b'1'..=b'9'] => Part::Segment(usize::from(digit - b'1')),
            b"path" => Part::Path,
            _ => return Err(TemplateError::Unknown),
        });
        rest = after;
    }
    parts.push(Part::Text(rest));
    let is_closed = |part: &Part<'_>| matches!(part, Part::Text(text) if text.contains('}'));
    match parts.iter().any(is_closed) {
        true => Err(TemplateError::Unknown),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;
    use crate::target;

    #[test]
    fn placeholders_stand_behind_the_host_and_have_known_names() {
        for good in [
            "https://jira.example/browse/{1}",
            "https://example.com/?q={path}",
            "https://example.com?{9}#{1}",
            "https://example.com:8443/{2}/{1}{path}",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, error) in [
            ("https://example.com/", TemplateError::Missing),
            ("https://{1}.example/", TemplateError::Host),
            ("https://example.com{1}", TemplateError::Host),
            ("https://example.com:{1}/", TemplateError::Host),
            ("{1}://example.com/", TemplateError::Host),
            ("https://example.com/{0}", TemplateError::Unknown),
            ("https://example.com/{10}", TemplateError::Unknown),
            ("https://example.com/{}", TemplateError::Unknown),
            ("https://example.com/{1", TemplateError::Unknown),
            ("https://example.com/1}", TemplateError::Unknown),
            ("https://example.com/{1}}", TemplateError::Unknown),
            ("https://example.com/{{1}}", TemplateError::Unknown),
            ("https://example.com/{query}", TemplateError::Unknown),
        ] {
            assert_eq!(check(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn values_are_encoded_for_every_place() {
        for (template, path, expected) in [
            ("https://a.example/b/{1}", "123", "https://a.example/b/123"),
            ("https://a.example/b/{1}", "", "https://a.example/b/"),
            ("https://a.example/b/{1}", "123/", "https://a.example/b/123"),
            ("https://a.example/{2}/{1}", "x/y", "https://a.example/y/x"),
            (
                "https://a.example/{path}",
                "x/y/z",
                "https://a.example/x/y/z",
            ),
            (
                "https://a.example/?q={path}&l=1",
                "x/y",
                "https://a.example/?q=x/y&l=1",
            ),
            (
                "https://a.example/?q={1}",
                "a%26b=c%20d+e",
                "https://a.example/?q=a%26b%3Dc%20d%2Be",
            ),
            (
                "https://a.example/{1}#{1}",
                "%2F%3f%23",
                "https://a.example/%2F%3F%23#%2F%3F%23",
            ),
            (
                "https://a.example/{1}",
                "100%25",
                "https://a.example/100%25",
            ),
            ("https://a.example/{1}", "100%", "https://a.example/100%25"),
            (
                "https://a.example/{1}",
                "stra\u{df}e",
                "https://a.example/stra%C3%9Fe",
            ),
            (
                "https://a.example/{1}",
                "stra%C3%9Fe",
                "https://a.example/stra%C3%9Fe",
            ),
            (
                "https://b\u{fc}cher.example/\u{fc}/{1}",
                "x",
                "https://xn--bcher-kva.example/%C3%BC/x",
            ),
            (
                "https://a.example/{1}{1}",
                "%7B1%7D",
                "https://a.example/%7B1%7D%7B1%7D",
            ),
        ] {
            assert_eq!(
                expand(template, path).as_deref(),
                Ok(expected),
                "{template} {path}"
            );
        }
    }

    #[test]
    fn what_the_template_does_not_take_leads_nowhere() {
        let template = "https://a.example/{1}";
        for path in [
            "x/y", "/x", "x//", ".", "..", "%2e%2E", "%0d%0ax", "%00", "%5C", "%ff", "a/../b",
        ] {
            assert_eq!(expand(template, path), Err(Unfit::Refused), "{path}");
            assert_eq!(
                expand("https://a.example/{1}", path),
                Err(Unfit::Refused),
                "{path}"
            );
        }
        for path in ["x//y", "x/./y", "../x", "x/%2e%2e"] {
            assert_eq!(
                expand("https://a.example/{path}", path),
                Err(Unfit::Refused),
                "{path}"
            );
        }
        let long = "x".repeat(MAX_LOCATION);
        assert_eq!(expand(template, &long), Err(Unfit::TooLong));
        assert_eq!(expand("https://{1}.example/", "x"), Err(Unfit::Refused));
    }

    proptest! {
        #[test]
        fn no_argument_leaves_its_place(
            before in "(/|\\?a=|#|/b\\?c=|/\\?x&y=)[a-z]{0,3}",
            placeholder in "\\{1\\}|\\{path\\}",
            path in "(\\PC|[/?#%&=@:.\\\\]|%[0-9a-f]{2}|//evil\\.example){0,12}",
        ) {
            let url = |value: &str| format!("https://example.com:8443{before}{value}");
            let template = url(&placeholder);
            prop_assert_eq!(check(&template), Ok(()));
            let Ok(found) = expand(&template, &path) else { return Ok(()) };
            prop_assert!(target::is_uri(found.as_bytes()), "{}", found);
            let (found, plain) = (Url::parse(&found).unwrap(), Url::parse(&url("x")).unwrap());
            prop_assert_eq!(found.origin(), plain.origin());
            if !before.starts_with('/') || before.contains('?') {
                prop_assert_eq!(found.path(), plain.path());
            }
            prop_assert_eq!(found.query().is_some(), plain.query().is_some());
            prop_assert_eq!(found.fragment().is_some(), plain.fragment().is_some());
            let pairs = |url: &Url| url.query_pairs().count();
            prop_assert_eq!(pairs(&found), pairs(&plain));
        }
    }
}
