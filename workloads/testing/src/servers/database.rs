//! PostgreSQL.

use anyhow::Result;
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use super::{engine, free_ports, lifetime::Folder};
use crate::blocking::block_on;

/// Starts a server and returns its URL.
pub(super) fn start(folder: &Folder) -> Result<[String; 1]> {
    let image = engine::image("POSTGRES_IMAGE")?;
    let [port] = free_ports();
    let options = [
        "--tmpfs=/var/lib/postgresql",
        "--shm-size=256m",
        "--env=PGDATA=/var/lib/postgresql/test",
        "--env=POSTGRES_HOST_AUTH_METHOD=trust",
        "--env=POSTGRES_INITDB_ARGS=--encoding UTF8 --locale C --no-sync",
    ];
    let port_setting = format!("port={port}");
    // The data need not survive a crash, so no write waits for the disk.
    let settings: [&str; 7] = [
        &port_setting,
        "listen_addresses=127.0.0.1",
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
        "max_connections=300",
        "shared_buffers=32MB",
    ];
    let mut command = vec!["docker-entrypoint.sh", "postgres"];
    command.extend(settings.iter().flat_map(|setting| ["-c", *setting]));
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let address: PgConnectOptions = url.parse()?;
    let server = folder.start(&engine::container(&image, &options, &command))?;
    server.ready(|_| block_on(|| async { address.connect().await.is_ok() }).then_some(()))?;
    Ok([url])
}
