//! Requests to the management port of an app, and their answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::api::{Adopt, LinkDeletionPolicy, ShortLink};

/// Path of the request to make links as they are asked for.
pub const APPLY: &str = "/links/apply";
/// Path of the request to end the ownership of links.
pub const RELEASE: &str = "/links/release";
/// Maximum number of links of a request.
pub const MAX_LINKS: usize = 100;
/// Maximum size of a request in bytes.
pub const MAX_BODY: usize = 128 * 1024;

/// A link as it is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkToApply<'a> {
    code: &'a str,
    url: &'a str,
    title: Option<&'a str>,
    tags: &'a BTreeSet<String>,
    enabled: bool,
    expires_at: Option<&'a str>,
    adopt: Adopt,
    owner: Owner<'a>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Owner<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> LinkToApply<'a> {
    /// Returns the link of a ShortLink.
    pub fn of(link: &'a ShortLink) -> Self {
        let (spec, metadata) = (&link.spec, &link.metadata);
        Self {
            code: &spec.code,
            url: &spec.url,
            title: spec.title.as_deref(),
            tags: &spec.tags,
            enabled: spec.enabled,
            expires_at: spec.expires_at.as_deref(),
            adopt: spec.adopt,
            owner: Owner {
                uid: metadata.uid.as_deref().unwrap_or_default(),
                namespace: metadata.namespace.as_deref().unwrap_or_default(),
                name: metadata.name.as_deref().unwrap_or_default(),
            },
        }
    }
}

/// A link whose ownership ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkToRelease {
    pub code: String,
    /// The owner, as the app knows it.
    pub uid: String,
    policy: LinkDeletionPolicy,
}

impl LinkToRelease {
    /// Returns the link of a ShortLink that is deleted.
    pub fn of(link: &ShortLink) -> Self {
        Self {
            code: link.spec.code.clone(),
            uid: link.metadata.uid.clone().unwrap_or_default(),
            policy: link.spec.deletion_policy,
        }
    }
}

/// The result of applying a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applied {
    Created,
    Changed,
    Unchanged,
    /// The database has the link as it is asked for, but management has disabled it.
    TakenDown,
    /// Another ShortLink, or a link without one, has the code.
    Taken,
    Expired,
    Deleted,
    Invalid,
}

impl Applied {
    /// Returns true when the link belongs to the ShortLink, as it is asked for.
    pub fn is_kept(self) -> bool {
        matches!(
            self,
            Self::Created | Self::Changed | Self::Unchanged | Self::TakenDown
        )
    }
}

/// The answer about a link to apply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AppliedLink {
    pub result: Applied,
    /// Reason and remedy, for those that are not as asked.
    pub(super) message: Option<String>,
    pub(super) short_url: Option<String>,
}

/// The answer about a link to release. Whether the ShortLink owned it makes no difference: it does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Released {}

/// Returns the body of a request with as many of the first links as fit, and their number. The first one always fits.
///
/// # Errors
/// A link cannot be expressed as JSON, which is a bug in this file.
pub fn batch<T: Serialize>(
    links: impl IntoIterator<Item = T>,
) -> Result<(String, usize), serde_json::Error> {
    const END: &str = "]}";
    let (mut body, mut count) = (r#"{"links":["#.to_owned(), 0);
    for link in links.into_iter().take(MAX_LINKS) {
        let link = serde_json::to_string(&link)?;
        if count > 0 {
            if body.len() + ",".len() + link.len() + END.len() > MAX_BODY {
                break;
            }
            body.push(',');
        }
        body.push_str(&link);
        count += 1;
    }
    body.push_str(END);
    Ok((body, count))
}

/// Reads the answers about these codes; `None` if the answer is malformed or about other codes.
pub fn read<A: DeserializeOwned>(answer: &[u8], codes: &[&str]) -> Option<Vec<A>> {
    #[derive(Deserialize)]
    struct Answers<A> {
        results: Vec<AboutCode<A>>,
    }
    #[derive(Deserialize)]
    struct AboutCode<A> {
        code: String,
        #[serde(flatten)]
        answer: A,
    }
    let Answers { results } = serde_json::from_slice::<Answers<A>>(answer).ok()?;
    let about = results.iter().map(|result| result.code.as_str());
    let fits = about.eq(codes.iter().copied());
    fits.then(|| results.into_iter().map(|result| result.answer).collect())
}
