//! PgBouncer before the PostgreSQL of the tests.

use anyhow::Result;
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use super::{DATABASE, engine, free_ports, lifetime::Folder};
use crate::blocking::block_on;

/// Writes the settings to the file that PgBouncer reads, and becomes PgBouncer.
const START: &str = r#"printf "%s\n" "$SETTINGS" >/tmp/pgbouncer.ini && unset SETTINGS && exec pgbouncer /tmp/pgbouncer.ini"#;

/// Starts PgBouncer in this mode, with at most so many sessions of the server for each database, and returns its URL. It has
/// no setting that makes it accept more of its clients.
pub(super) fn start(folder: &Folder, mode: &str, sessions: u32) -> Result<[String; 1]> {
    let image = engine::image("POOLER_IMAGE")?;
    let [url] = DATABASE.addresses()?;
    let server: PgConnectOptions = url.parse()?;
    let (host, behind, user) = (server.get_host(), server.get_port(), server.get_username());
    let [port] = free_ports();
    let settings = format!(
        "--env=SETTINGS=[databases]\n\
         * = host={host} port={behind} user={user}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = {mode}\n\
         default_pool_size = {sessions}\n\
         max_client_conn = 1000\n\
         max_prepared_statements = 200"
    );
    // PgBouncer refuses to run as root.
    let options: [&str; 2] = ["--user=999:999", &settings];
    let pooler = engine::container(&image, &options, &["sh", "-c", START]);
    let url = format!("postgres://{user}@127.0.0.1:{port}/postgres");
    let address: PgConnectOptions = url.parse()?;
    let address = address.extra_float_digits(None);
    let pooler = folder.start(&pooler)?;
    pooler.ready(|_| block_on(|| async { address.connect().await.is_ok() }).then_some(()))?;
    Ok([url])
}
