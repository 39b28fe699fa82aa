//! RabbitMQ.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::Result;

use super::{certificates, engine, free_ports, lifetime::Folder};

/// The header with the default credentials, `guest:guest`.
pub(crate) const AUTHORIZATION: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
/// Writes the settings to the files that the server reads, and becomes the server.
const START: &str = r#"printf "%s\n" "$SETTINGS" >/tmp/rabbitmq.conf && echo "[rabbitmq_management,rabbitmq_prometheus]." >/tmp/enabled_plugins &&
unset SETTINGS && exec docker-entrypoint.sh rabbitmq-server"#;

/// Writes the settings and the certificates to files, and becomes the server.
const START_WITH_TLS: &str = r#"printf "%s\n" "$SETTINGS" >/tmp/rabbitmq.conf && echo "[]." >/tmp/enabled_plugins &&
printf "%s" "$CERTIFICATE" >/tmp/server.crt && printf "%s" "$KEY" >/tmp/server.key && printf "%s" "$AUTHORITY" >/tmp/ca.crt &&
chmod 644 /tmp/server.key && unset SETTINGS CERTIFICATE KEY AUTHORITY && exec docker-entrypoint.sh rabbitmq-server"#;

/// Starts a server and returns its AMQP URL and the addresses of its management API and of its metrics.
pub(super) fn start(folder: &Folder) -> Result<[String; 3]> {
    let image = engine::image("RABBITMQ_IMAGE")?;
    let [amqp, management, metrics, distribution, names] = free_ports();
    // The server runs as a user of the image, which may not read this user's files, so its settings are passed in the
    // environment. The low disk limit keeps a full disk from blocking the tests.
    let settings = format!(
        "--env=SETTINGS=listeners.tcp.local = 127.0.0.1:{amqp}\n\
         management.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {management}\n\
         prometheus.tcp.ip = 127.0.0.1\n\
         prometheus.tcp.port = {metrics}\n\
         log.console = true\n\
         log.console.level = warning\n\
         disk_free_limit.absolute = 1MB"
    );
    let distribution = format!("--env=RABBITMQ_DIST_PORT={distribution}");
    let names = format!("--env=ERL_EPMD_PORT={names}");
    let options: [&str; 10] = [
        "--tmpfs=/var/lib/rabbitmq:mode=1777",
        &settings,
        "--env=RABBITMQ_CONFIG_FILE=/tmp/rabbitmq.conf",
        "--env=RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins",
        "--env=RABBITMQ_NODENAME=rabbit@localhost",
        &distribution,
        "--env=ERL_EPMD_ADDRESS=127.0.0.1",
        &names,
        "--env=ERL_MAX_PORTS=4096",
        "--env=RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none",
    ];
    let server = engine::container(&image, &options, &["sh", "-c", START]);
    let [amqp, api, metrics] = [amqp, management, metrics].map(local);
    folder.start(&server)?.ready(|_| {
        let listens = [amqp, metrics].map(|port| TcpStream::connect(port).is_ok());
        let ready = listens == [true, true] && answers(api).unwrap_or(false);
        ready.then_some(())
    })?;
    Ok([
        format!("amqp://guest:guest@{amqp}"),
        api.to_string(),
        metrics.to_string(),
    ])
}

/// Starts a server with TLS that demands a certificate of its clients, and returns its port.
pub(super) fn start_with_tls(folder: &Folder) -> Result<[String; 1]> {
    let image = engine::image("RABBITMQ_IMAGE")?;
    let [amqps, distribution, names] = free_ports();
    let settings = format!(
        "--env=SETTINGS=listeners.tcp = none\n\
         listeners.ssl.local = 127.0.0.1:{amqps}\n\
         ssl_options.cacertfile = /tmp/ca.crt\n\
         ssl_options.certfile = /tmp/server.crt\n\
         ssl_options.keyfile = /tmp/server.key\n\
         ssl_options.verify = verify_peer\n\
         ssl_options.fail_if_no_peer_cert = true\n\
         log.console = true\n\
         log.console.level = warning\n\
         disk_free_limit.absolute = 1MB"
    );
    let [certificate, key, authority] = [
        certificates::variable("CERTIFICATE", "server.crt")?,
        certificates::variable("KEY", "server.key")?,
        certificates::variable("AUTHORITY", "ca.crt")?,
    ];
    let distribution = format!("--env=RABBITMQ_DIST_PORT={distribution}");
    let names = format!("--env=ERL_EPMD_PORT={names}");
    let options: [&str; 13] = [
        "--tmpfs=/var/lib/rabbitmq:mode=1777",
        &settings,
        &certificate,
        &key,
        &authority,
        "--env=RABBITMQ_CONFIG_FILE=/tmp/rabbitmq.conf",
        "--env=RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins",
        "--env=RABBITMQ_NODENAME=rabbit@localhost",
        &distribution,
        "--env=ERL_EPMD_ADDRESS=127.0.0.1",
        &names,
        "--env=ERL_MAX_PORTS=4096",
        "--env=RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none",
    ];
    let server = engine::container(&image, &options, &["sh", "-c", START_WITH_TLS]);
    // The server listens last of all.
    folder
        .start(&server)?
        .ready(|_| TcpStream::connect(local(amqps)).is_ok().then_some(()))?;
    Ok([amqps.to_string()])
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns true if the management API answers a request of the default user.
fn answers(api: SocketAddr) -> io::Result<bool> {
    const SUCCESS: &[u8] = b"HTTP/1.1 200";
    let mut stream = TcpStream::connect(api)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        stream,
        "GET /api/overview HTTP/1.1\r\nhost: test\r\n{AUTHORIZATION}connection: close\r\n\r\n"
    )?;
    let mut head = [0; SUCCESS.len()];
    stream.read_exact(&mut head)?;
    Ok(head == SUCCESS)
}
