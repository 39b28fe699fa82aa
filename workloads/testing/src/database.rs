//! A separate database at the PostgreSQL of the tests.

use std::ops::Deref;

use sqlx::{AssertSqlSafe, ConnectOptions, postgres::PgConnectOptions};
use uuid::Uuid;

use crate::{blocking::block_on, servers};

/// An empty database, dropped with this value.
pub struct TestDatabase {
    name: String,
    options: PgConnectOptions,
    server: PgConnectOptions,
}

impl TestDatabase {
    pub async fn new() -> Self {
        let [url] = servers::DATABASE
            .addresses()
            .unwrap_or_else(|error| panic!("{error}"));
        let server: PgConnectOptions = url.parse().unwrap();
        // The URL may be that of a pooler, which refuses this setting.
        let server = server.extra_float_digits(None);
        let name = format!("test_{}", Uuid::now_v7().simple());
        run(&server, format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        Self {
            options: server.clone().database(&name),
            name,
            server,
        }
    }
}

impl Deref for TestDatabase {
    type Target = PgConnectOptions;

    fn deref(&self) -> &PgConnectOptions {
        &self.options
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A test may leave tasks with open connections behind.
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        if let Err(error) = block_on(|| run(&self.server, statement)) {
            eprintln!("the database {} is not dropped: {error}", self.name);
        }
    }
}

async fn run(server: &PgConnectOptions, statement: String) -> Result<(), sqlx::Error> {
    let mut connection = server.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await?;
    Ok(())
}
