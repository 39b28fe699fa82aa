//! PostgreSQL.

use anyhow::Result;
use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};

use super::{certificates, engine, free_ports, lifetime::Folder};
use crate::blocking::block_on;

/// Writes the certificates to files of the server's user, and becomes the server.
const START_WITH_TLS: &str = r#"printf "%s" "$CERTIFICATE" >/tmp/server.crt && printf "%s" "$KEY" >/tmp/server.key &&
printf "%s" "$AUTHORITY" >/tmp/ca.crt && chmod 600 /tmp/server.key &&
printf "local all all trust\nhostssl all all all trust clientcert=verify-ca\n" >/tmp/pg_hba.conf &&
if [ "$(id -u)" = 0 ]; then chown postgres /tmp/server.key; fi &&
unset CERTIFICATE KEY AUTHORITY && exec docker-entrypoint.sh postgres "$@""#;

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

/// Starts a server with this certificate that demands one of its clients, and returns its port.
pub(super) fn start_with_tls(folder: &Folder, certificate: &str) -> Result<[String; 1]> {
    let image = engine::image("POSTGRES_IMAGE")?;
    let [port] = free_ports();
    let [certificate, key, authority] = [
        certificates::variable("CERTIFICATE", certificate)?,
        certificates::variable("KEY", "server.key")?,
        certificates::variable("AUTHORITY", "ca.crt")?,
    ];
    let options: [&str; 7] = [
        "--tmpfs=/var/lib/postgresql",
        "--env=PGDATA=/var/lib/postgresql/test",
        "--env=POSTGRES_HOST_AUTH_METHOD=trust",
        "--env=POSTGRES_INITDB_ARGS=--encoding UTF8 --locale C --no-sync",
        &certificate,
        &key,
        &authority,
    ];
    let port_setting = format!("port={port}");
    let settings: [&str; 8] = [
        &port_setting,
        "listen_addresses=127.0.0.1",
        "fsync=off",
        "hba_file=/tmp/pg_hba.conf",
        "ssl=on",
        "ssl_cert_file=/tmp/server.crt",
        "ssl_key_file=/tmp/server.key",
        "ssl_ca_file=/tmp/ca.crt",
    ];
    let mut command = vec!["sh", "-c", START_WITH_TLS, "sh"];
    command.extend(settings.iter().flat_map(|setting| ["-c", *setting]));
    let address = PgConnectOptions::new_without_pgpass()
        .host("localhost")
        .port(port)
        .username("postgres")
        .database("postgres")
        // The certificate may have expired.
        .ssl_mode(PgSslMode::Require)
        .ssl_client_cert(certificates::path("client.crt")?)
        .ssl_client_key(certificates::path("client.key")?);
    let server = folder.start(&engine::container(&image, &options, &command))?;
    server.ready(|_| block_on(|| async { address.connect().await.is_ok() }).then_some(()))?;
    Ok([port.to_string()])
}
