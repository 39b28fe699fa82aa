//! A proxy that can cut connections, refuse them, stop responding, or hold all bytes for a while.

use std::{net::SocketAddr, pin::pin, time::Duration};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

/// The state of the connections through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Bytes pass.
    Open,
    /// Connections are cut, and new ones are refused.
    Refused,
    /// Connections are accepted, but nothing passes any more, like a stopped process.
    Silent,
    /// Nothing passes any more, and new connections are refused, like a pod that vanished behind a Service.
    Gone,
    /// Nothing passes now, and everything once it is open again, like a slow server.
    Held,
    /// Bytes of a new connection pass after this time, like a server on an overloaded node.
    Late(Duration),
}

impl Path {
    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Late(_))
    }
}

/// A proxy between a program and a server.
pub struct Proxy {
    /// The address for the program.
    pub address: SocketAddr,
    path: watch::Sender<Path>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `host:port`.
    pub async fn before(upstream: impl Into<String>) -> Self {
        let upstream = upstream.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (path, state) = watch::channel(Path::Open);
        tokio::spawn(forward(listener, upstream, state));
        Self { address, path }
    }

    /// Changes the state of all connections.
    pub fn set(&self, path: Path) {
        self.path.send_replace(path);
    }
}

async fn forward(listener: TcpListener, upstream: String, mut state: watch::Receiver<Path>) {
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        let path = *state.borrow_and_update();
        if matches!(path, Path::Refused | Path::Gone) {
            listener = None;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).await.unwrap());
        }
        if path == Path::Refused {
            connections.shutdown().await;
        }
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await.unwrap().0,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            client = accept => { connections.spawn(carry(client, upstream.clone(), state.clone())); }
        }
    }
}

/// Forwards bytes while the path is open, and keeps a silent connection open without forwarding.
async fn carry(mut client: TcpStream, upstream: String, mut state: watch::Receiver<Path>) {
    let Ok(path) = state
        .wait_for(|path| path.is_open())
        .await
        .map(|path| *path)
    else {
        return;
    };
    if let Path::Late(by) = path {
        sleep(by).await;
    }
    let mut server = TcpStream::connect(upstream).await.unwrap();
    let mut copied = pin!(copy_bidirectional(&mut client, &mut server));
    loop {
        let path = *state.borrow_and_update();
        if !path.is_open() && path != Path::Held {
            break;
        }
        tokio::select! {
            _ = &mut copied, if path.is_open() => return,
            changed = state.changed() => if changed.is_err() { return },
        }
    }
    // Bytes in flight are lost: this connection stays silent.
    std::future::pending::<()>().await;
}
