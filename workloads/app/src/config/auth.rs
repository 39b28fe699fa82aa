//! The settings of keys.

use std::path::PathBuf;

use clap::Args;

use crate::scope::{Scope, Scopes};

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
