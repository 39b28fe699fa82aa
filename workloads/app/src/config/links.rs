//! The settings of links.

use clap::{ArgAction, Args};
use http::HeaderValue;

use crate::{location, target};

/// What visitors get who follow no link, or a link with more than its code.
#[derive(Clone, Debug, Args)]
pub struct LinksArgs {
    /// URL to which `/` redirects. Without it, the answer is 404.
    #[arg(long, env, value_parser = destination)]
    pub links_root_target: Option<HeaderValue>,
    /// URL to which a code redirects that was never given out. Without it, the answer is 404.
    #[arg(long, env, value_parser = destination)]
    pub links_unknown_target: Option<HeaderValue>,
    /// URL to which a link redirects that has expired. Without it, the answer is 410.
    #[arg(long, env, value_parser = destination)]
    pub links_expired_target: Option<HeaderValue>,
    /// Adds the query of a request to the destination if true.
    #[arg(long, env, default_value_t = false, action = ArgAction::Set)]
    pub links_forward_query: bool,
}

/// Parses a URL by the rules of destinations. Returns the value of `Location`.
fn destination(text: &str) -> Result<HeaderValue, String> {
    target::parse(text).map_err(|error| error.to_string())?;
    HeaderValue::from_str(&location::ascii(text)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_destination_like_any_other() {
        assert_eq!(
            destination("https://bücher.example/ü").unwrap(),
            "https://xn--bcher-kva.example/%C3%BC"
        );
        for wrong in [
            "",
            "/welcome",
            "example.com",
            "javascript:alert(1)",
            "https://a b/",
        ] {
            assert!(destination(wrong).is_err(), "{wrong:?}");
        }
    }
}
