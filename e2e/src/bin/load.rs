//! Sends a flood to a Service of its namespace for some time, then prints what became of the requests, as JSON.
//!
//! It speaks HTTP by itself, because no client library sends what is malformed, slow or half closed on purpose.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use shortener_e2e::{FLOOD_BEGINS, Flood, FloodArguments, Head, Tally};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, interval_at, timeout, timeout_at},
};

/// The time for which a client waits for the answer to a complete request.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The time for which a client sends a slow body. The server ends it much earlier.
const LONGEST_BODY: Duration = Duration::from_secs(60);
/// The pause between two drops of a slow body, and a drop.
const PAUSE: Duration = Duration::from_secs(1);
const DROP: [u8; 128] = [b'x'; 128];
/// The largest head of an answer in bytes.
const MOST_HEAD: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Ok(arguments) = <[&str; 5]>::try_from(arguments) else {
        println!("usage: load <flood> <service>:<port> <host> <clients> <seconds>");
        return Ok(());
    };
    let arguments = FloodArguments::read(arguments)?;
    let address = lookup_host(&arguments.to).await?.next();
    let address = address.with_context(|| format!("{} has no address", arguments.to))?;
    println!("{FLOOD_BEGINS}");
    let tally = flood(address, arguments).await?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}

async fn flood(address: SocketAddr, arguments: FloodArguments) -> anyhow::Result<Tally> {
    let end = Instant::now() + arguments.time;
    let (clients, period) = (arguments.clients, arguments.flood.period());
    let client = Arc::new(Client { address, arguments });
    let mut running = JoinSet::new();
    for number in 0..clients {
        // The clients begin one after the other, in the time of one request.
        let begin = Instant::now() + period.mul_f64(number as f64 / clients as f64);
        running.spawn(Arc::clone(&client).until(begin, end));
    }
    let mut all = Tally::default();
    while let Some(tally) = running.join_next().await {
        all.add(tally?);
    }
    Ok(all)
}

struct Client {
    address: SocketAddr,
    arguments: FloodArguments,
}

impl Client {
    /// Sends requests from one time to another, and counts them.
    async fn until(self: Arc<Self>, begin: Instant, end: Instant) -> Tally {
        let mut tally = Tally::default();
        let requests = self.requests(begin, &mut tally);
        // They do not end by themselves.
        let _ = timeout_at(end, requests).await;
        tally
    }

    async fn requests(&self, begin: Instant, tally: &mut Tally) {
        let mut clock = interval_at(begin, self.arguments.flood.period());
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut connection = None;
        loop {
            clock.tick().await;
            let answer = match self.arguments.flood {
                Flood::SlowBodies => timeout(LONGEST_BODY, self.drip()).await,
                Flood::HalfClosed => timeout(LONGEST_WAIT, self.close_half()).await,
                Flood::KnownCode | Flood::LongPaths | Flood::UnknownCodes | Flood::LargeJobs => {
                    timeout(LONGEST_WAIT, self.ask(&mut connection)).await
                }
            };
            tally.count(answer.ok().and_then(Result::ok));
        }
    }

    /// Sends a request on the connection of the last one, if there is one, and returns the status of the answer. The
    /// connection is gone if this fails or is given up.
    async fn ask(&self, connection: &mut Option<TcpStream>) -> anyhow::Result<u16> {
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address).await?,
        };
        stream.write_all(&self.request()).await?;
        let head = answer(&mut stream).await?;
        if head.stays {
            *connection = Some(stream);
        }
        Ok(head.status)
    }

    /// Sends a body drop by drop until the server answers.
    async fn drip(&self) -> anyhow::Result<u16> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(&self.request()).await?;
        let (mut reader, writer) = stream.split();
        tokio::select! {
            head = answer(&mut reader) => Ok(head?.status),
            error = drops(writer) => Err(error.into()),
        }
    }

    /// Sends a request, closes the sending side, and waits for an answer.
    async fn close_half(&self) -> anyhow::Result<u16> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(&self.request()).await?;
        stream.shutdown().await?;
        Ok(answer(&mut stream).await?.status)
    }

    fn request(&self) -> Vec<u8> {
        self.arguments.flood.request(&self.arguments.host)
    }
}

/// Sends drops until that fails.
async fn drops(mut writer: impl AsyncWrite + Unpin) -> std::io::Error {
    let mut clock = interval(PAUSE);
    loop {
        clock.tick().await;
        if let Err(error) = writer.write_all(&DROP).await {
            return error;
        }
    }
}

/// Reads an answer with its body, and returns its head.
async fn answer(reader: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Head> {
    let mut bytes = Vec::with_capacity(4096);
    let end = loop {
        let read = reader.read_buf(&mut bytes).await?;
        anyhow::ensure!(read > 0, "the connection ended before the answer");
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        anyhow::ensure!(
            bytes.len() < MOST_HEAD,
            "the head of the answer is too large"
        );
    };
    let head = Head::read(&String::from_utf8_lossy(&bytes[..end]));
    let head = head.context("the answer is not one of HTTP/1.1")?;
    let had = (bytes.len() - end - 4) as u64;
    let rest = head.length.unwrap_or_default().saturating_sub(had);
    copy(&mut reader.take(rest), &mut sink()).await?;
    Ok(head)
}
