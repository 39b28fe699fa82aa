//! The settings of keys, and of a proxy that signs people in.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use http::HeaderName;
use ipnet::IpNet;

use crate::{
    auth::ProxySettings,
    scope::{Scope, Scopes},
};

/// The keys of clients, and what needs one.
#[derive(Clone, Debug, Args)]
pub struct AuthArgs {
    /// Folders with the keys of clients, separated by commas. Each is a mounted Secret with an entry for each client. A
    /// change takes effect at once. Without a folder no route needs a key, and management is refused.
    #[arg(long, env, value_delimiter = ',')]
    pub auth_keys_directory: Vec<PathBuf>,
    /// What needs a key, separated by commas: any of shorten, jobs, docs and metrics. Management always does.
    #[arg(long, env, default_value = "shorten,jobs,docs,metrics", value_parser = protected)]
    pub auth_protect: Scopes,
    /// Rate limit of new links per key and minute; 0 turns the limit off. The default is the one per address.
    #[arg(long, env)]
    pub auth_limit_shorten_per_minute: Option<u32>,
    /// Burst of new links per key. The default is the one per address.
    #[arg(long, env)]
    pub auth_limit_shorten_burst: Option<u32>,
    /// Rate limit of other requests per key and second; 0 turns the limit off. The default is the one per address.
    #[arg(long, env)]
    pub auth_limit_requests_per_second: Option<u32>,
    /// Burst of other requests per key. The default is the one per address.
    #[arg(long, env)]
    pub auth_limit_requests_burst: Option<u32>,
    /// The proxy that signs people in.
    #[command(flatten)]
    pub proxy: AuthProxyArgs,
}

/// A proxy that signs people in, and names them in headers.
#[derive(Clone, Debug, Args)]
pub struct AuthProxyArgs {
    /// Folder with the secret of the proxy: a mounted Secret with one or two values of 32 to 256 characters, one a line. The
    /// proxy sends it as `X-Auth-Proxy-Secret`. A change takes effect at once. Without the folder, no header names anybody.
    #[arg(long, env, requires_all = ["auth_proxy_user_header", "auth_proxy_groups_header"])]
    pub auth_proxy_secret_directory: Option<PathBuf>,
    /// Header with the name of the person.
    #[arg(long, env)]
    pub auth_proxy_user_header: Option<HeaderName>,
    /// Header with the groups of the person, between commas.
    #[arg(long, env)]
    pub auth_proxy_groups_header: Option<HeaderName>,
    /// Addresses of the proxy as CIDRs, separated by commas. Without any, the gateway has checked the address.
    #[arg(long, env, value_delimiter = ',')]
    pub auth_proxy_trusted_peers: Option<Vec<IpNet>>,
    /// Scopes of each group as a JSON object, such as `{"staff": ["links:all"]}`; `*` stands for everybody who is signed in.
    #[arg(long, env, default_value = "{}", value_parser = scopes_of_groups)]
    pub auth_proxy_scopes: ScopesOfGroups,
}

/// The scopes of each group.
pub type ScopesOfGroups = BTreeMap<String, Scopes>;

impl AuthProxyArgs {
    /// Returns the settings of the proxy with the folder of its secret, if there is one.
    pub fn settings(&self) -> Option<(ProxySettings, PathBuf)> {
        let settings = ProxySettings {
            user: self.auth_proxy_user_header.clone()?,
            groups: self.auth_proxy_groups_header.clone()?,
            peers: self.auth_proxy_trusted_peers.clone(),
            scopes: self.auth_proxy_scopes.clone(),
        };
        Some((settings, self.auth_proxy_secret_directory.clone()?))
    }
}

/// Parses the scopes of groups.
fn scopes_of_groups(text: &str) -> Result<ScopesOfGroups, String> {
    let groups: BTreeMap<String, Vec<String>> =
        serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"))?;
    let read = |(group, words): (String, Vec<String>)| match Scopes::read(&words.join(" ")) {
        (scopes, true) => Ok((group, scopes)),
        (_, false) => Err(format!("the group {group} has a word that is no scope")),
    };
    groups.into_iter().map(read).collect()
}

/// Parses the scopes that need a key.
fn protected(words: &str) -> Result<Scopes, String> {
    let (scopes, all_known) = Scopes::read(words);
    let mut known = Scope::ALL.into_iter();
    let has_management = known.any(|scope| scope.is_management() && scopes.contains(scope));
    if !all_known || scopes.is_empty() || has_management {
        return Err(
            "must be any of shorten, jobs, docs and metrics, separated by commas".to_owned(),
        );
    }
    Ok(scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_scopes_and_nothing_else() {
        let staff = Scopes::from_iter([Scope::LinksAll, Scope::Jobs]);
        let read = scopes_of_groups(r#"{"staff": ["links:all", "jobs"], "*": []}"#).unwrap();
        assert_eq!(
            read,
            [
                ("staff".to_owned(), staff),
                ("*".to_owned(), Scopes::default())
            ]
            .into()
        );
        for wrong in ["", "[]", r#"{"staff": "jobs"}"#, r#"{"staff": ["job"]}"#] {
            assert!(scopes_of_groups(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_needs_a_key_is_at_least_one_scope_and_never_management() {
        let jobs_and_docs = Scopes::from_iter([Scope::Docs, Scope::Jobs]);
        assert_eq!(protected("jobs,docs"), Ok(jobs_and_docs));
        for wrong in [
            "",
            ",",
            "admin",
            "jobs,admin",
            "links:own",
            "docs,links:all",
            "job",
            "*",
        ] {
            assert!(protected(wrong).is_err(), "{wrong:?}");
        }
    }
}
