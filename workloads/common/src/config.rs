//! Settings that more than one program reads. Every flag has an environment variable of the same name.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use sqlx::postgres::PgConnectOptions;

use crate::logging::{self, Logging};

/// Where the database is and how to log in.
#[derive(Clone, Debug, Args)]
pub struct DatabaseArgs {
    /// `postgres://host:port/database`, with or without credentials.
    #[arg(long, env, hide_env_values = true)]
    pub database_url: String,
    /// Takes precedence over the user in the URL.
    #[arg(long, env)]
    pub database_username: Option<String>,
    /// Takes precedence over the password in the URL.
    #[arg(long, env, hide_env_values = true)]
    pub database_password: Option<String>,
}

impl DatabaseArgs {
    /// Options for a connection.
    ///
    /// # Errors
    /// When the URL is malformed. The message does not repeat the URL, which may hold a password.
    pub fn connect_options(&self) -> anyhow::Result<PgConnectOptions> {
        let mut options: PgConnectOptions = self
            .database_url
            .parse()
            .map_err(|error| anyhow!("DATABASE_URL is invalid: {error}"))?;
        if let Some(username) = self
            .database_username
            .as_deref()
            .filter(|name| !name.is_empty())
        {
            options = options.username(username);
        }
        if let Some(password) = self
            .database_password
            .as_deref()
            .filter(|password| !password.is_empty())
        {
            options = options.password(password);
        }
        Ok(options)
    }
}

/// What every line of the log says.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// Which events are logged.
    #[arg(long, env, default_value = "info")]
    pub rust_log: String,
    /// The identity of this replica in `/health` and in the log; the machine's name when absent.
    #[arg(long, env)]
    pub hostname: Option<String>,
}

impl LogArgs {
    /// The identity of this replica.
    #[must_use]
    pub fn host(&self) -> String {
        let machine = || {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .ok()
                .map(|name| name.trim().to_owned())
        };
        self.hostname
            .clone()
            .or_else(machine)
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// Starts the log.
    ///
    /// # Errors
    /// When the filter is malformed.
    pub fn start(&self) -> anyhow::Result<Logging> {
        logging::init(&self.rust_log, &self.host())
            .map_err(|error| anyhow!(error))
            .context("RUST_LOG is invalid")
    }
}

/// Reads seconds, with or without a fraction.
///
/// # Errors
/// When the text is not a number, or negative.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Settings {
        #[command(flatten)]
        database: DatabaseArgs,
    }

    fn user_of(arguments: &[&str]) -> String {
        let url = ["program", "--database-url", "postgres://u:p@db/x"];
        let settings = Settings::parse_from(url.iter().chain(arguments));
        let options = settings.database.connect_options().unwrap();
        options.get_username().to_owned()
    }

    #[test]
    fn credentials_of_their_own_take_precedence_over_those_in_the_url() {
        assert_eq!(user_of(&[]), "u");
        assert_eq!(
            user_of(&[
                "--database-username",
                "alice",
                "--database-password",
                "s%e/c"
            ]),
            "alice"
        );
    }
}
