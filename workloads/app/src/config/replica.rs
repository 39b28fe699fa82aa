//! The settings of the servers that follow the database.

use clap::Args;
use shortener_common::config::{given, port};
use sqlx::postgres::PgConnectOptions;

/// Servers with copies of the database, such as the standby servers of CloudNativePG.
#[derive(Clone, Debug, Default, Args)]
pub struct ReplicaArgs {
    /// Host of servers that follow the database. Links are read from them while the database is down; without it, they are
    /// not.
    #[arg(long, env)]
    pub database_replica_host: Option<String>,
    /// Port of these servers; that of the database by default.
    #[arg(long, env, value_parser = port)]
    pub database_replica_port: Option<u16>,
}

impl ReplicaArgs {
    /// Returns the options of a connection to these servers, which are those of the database but for the address; `None`
    /// without such servers.
    pub fn connect_options(&self, database: &PgConnectOptions) -> Option<PgConnectOptions> {
        let options = database.clone().host(given(&self.database_replica_host)?);
        Some(match self.database_replica_port {
            Some(port) => options.port(port),
            None => options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_has_the_users_and_the_limits_of_the_database() {
        let database: PgConnectOptions = "postgres://ann@primary:5433/links".parse().unwrap();
        let replica = |host: Option<&str>, port| {
            let args = ReplicaArgs {
                database_replica_host: host.map(str::to_owned),
                database_replica_port: port,
            };
            let options = args.connect_options(&database)?;
            assert_eq!(
                (options.get_username(), options.get_database()),
                ("ann", Some("links"))
            );
            Some((options.get_host().to_owned(), options.get_port()))
        };
        assert_eq!(replica(None, Some(1)), None);
        assert_eq!(replica(Some(""), None), None);
        let at = |port| Some(("standby".to_owned(), port));
        assert_eq!(replica(Some("standby\n"), None), at(5433));
        assert_eq!(replica(Some("standby"), Some(5434)), at(5434));
    }
}
