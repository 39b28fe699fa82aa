//! A pooler between a program and the database.

use clap::ValueEnum;
use sqlx::postgres::PgConnectOptions;

/// The limits of a session: the server aborts statements that the client no longer waits for.
pub const LIMITS: [(&str, &str); 3] = [
    ("statement_timeout", "5s"),
    ("lock_timeout", "4s"),
    ("idle_in_transaction_session_timeout", "10s"),
];

/// The extent to which clients of a pooler share sessions of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pooler {
    /// Each transaction may be in another session, as with `pool_mode = transaction` of PgBouncer.
    Transaction,
}

/// Adds the settings of a session. A pooler refuses settings that it cannot give to the session of each transaction;
/// behind one, the database's role has the limits.
pub(super) fn with_session_settings(
    options: PgConnectOptions,
    pooler: Option<Pooler>,
) -> PgConnectOptions {
    match pooler {
        None => options.options(LIMITS),
        // The library would set this for numbers in text, which no supported server rounds.
        Some(Pooler::Transaction) => options.extra_float_digits(None),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn settings(pooler: Option<Pooler>) -> Option<String> {
        let options: PgConnectOptions = "postgres://db/x?options=-c%20a%3Db".parse().unwrap();
        let options = with_session_settings(options, pooler);
        options.get_options().map(str::to_owned)
    }

    #[test]
    fn a_pooler_gets_the_settings_of_the_url_alone() {
        assert_eq!(
            settings(Some(Pooler::Transaction)).as_deref(),
            Some("-c a=b")
        );
        let all = settings(None).unwrap();
        for (name, value) in LIMITS {
            assert!(all.contains(&format!("-c {name}={value}")), "{all}");
        }
    }

    #[test]
    fn the_documents_have_the_limits_for_the_role() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/external-stores.md");
        let page = fs::read_to_string(page).unwrap();
        for (name, value) in LIMITS {
            let statement = format!("ALTER ROLE app SET {name} = '{value}';");
            assert!(page.contains(&statement), "{statement}");
        }
    }
}
