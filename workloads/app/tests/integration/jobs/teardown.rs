//! The end of a connection to a broker that confirms nothing.

use std::time::Duration;

use prometheus_client::registry::Registry;
use shortener_app::{
    job_ids::JobIds,
    publisher::{NewJob, Publisher, metrics::PublisherMetrics},
};
use shortener_common::{
    memory::Memory,
    queue::{decision::Decision, origin::Origin},
    telemetry::span::Tracer,
};
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::JOB;
use crate::support::config;

/// The class and the number of a method of AMQP.
type Method = (u16, u16);

const CONNECTION_CLOSE: Method = (10, 50);
const CHANNEL_CLOSE: Method = (20, 40);
const PUBLISH: Method = (60, 40);
const METHOD: u8 = 1;
const FRAME_END: u8 = 0xce;

async fn send(stream: &mut TcpStream, channel: u16, (class, number): Method, arguments: &[u8]) {
    let mut payload = class.to_be_bytes().to_vec();
    payload.extend(number.to_be_bytes());
    payload.extend(arguments);
    let mut frame = vec![METHOD];
    frame.extend(channel.to_be_bytes());
    frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend(payload);
    frame.push(FRAME_END);
    stream.write_all(&frame).await.unwrap();
}

/// Returns the channel and the payload of the next frame, with its type before them.
async fn receive(stream: &mut TcpStream) -> io::Result<(u8, u16, Vec<u8>)> {
    let (kind, channel) = (stream.read_u8().await?, stream.read_u16().await?);
    let mut payload = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut payload).await?;
    stream.read_u8().await?;
    Ok((kind, channel, payload))
}

/// Accepts one connection as a broker does, and confirms no job. Returns the first method after a job that closes
/// something.
async fn first_close(listener: TcpListener) -> Method {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut header = [0; 8];
    stream.read_exact(&mut header).await.unwrap();
    // Version 0.9, no properties, one mechanism and one locale.
    let start = b"\x00\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US";
    send(&mut stream, 0, (10, 10), start).await;
    let mut has_job = false;
    loop {
        let (kind, channel, payload) = receive(&mut stream).await.unwrap();
        if kind != METHOD {
            continue;
        }
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        let method = (number(0), number(2));
        let answer: Vec<u8> = match method {
            // 2,047 channels, frames of 128 KiB, and a heartbeat each minute.
            (10, 11) => {
                send(&mut stream, 0, (10, 30), b"\x07\xff\0\x02\0\0\0\x3c").await;
                continue;
            }
            (10, 40) => vec![0],
            (20, 10) => vec![0; 4],
            // The name of the queue, which stands behind a reserved number, and no messages and no consumers.
            (50, 10) => {
                let end = 7 + usize::from(payload[6]);
                [&payload[6..end], &[0; 8]].concat()
            }
            (40, 10 | 30) | (50, 20) | (85, 10) => Vec::new(),
            PUBLISH => {
                has_job = true;
                continue;
            }
            CONNECTION_CLOSE | CHANNEL_CLOSE if has_job => return method,
            CHANNEL_CLOSE => Vec::new(),
            _ => continue,
        };
        send(&mut stream, channel, (method.0, method.1 + 1), &answer).await;
    }
}

/// The library sends the end of a channel before the jobs that it holds back. A broker that gets the rest of a job on a
/// closed channel ends the connection with an error.
#[tokio::test]
async fn the_connection_is_closed_before_its_channels() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = config("postgres://u:p@db/x");
    config.queue.queue_url = Some(format!("amqp://u:p@{address}/%2f"));
    let broker = config.queue.broker().unwrap().unwrap();
    let metrics = PublisherMetrics::register(&mut Registry::default());
    let room = Memory::default().jobs;
    let publisher = Publisher::start(broker, JobIds::default(), room, metrics, Tracer::default());
    let publish = async {
        // The first ones are refused, because the publisher is not connected yet.
        for _ in 0..600 {
            let job = NewJob {
                id: publisher.ids.mint(&Origin::Internal),
                origin: Origin::Internal,
                decision: Decision::default(),
                body: JOB.as_bytes().into(),
                request: None,
                tracestate: None,
            };
            let _ = publisher.publish(job).await;
            sleep(Duration::from_millis(50)).await;
        }
    };
    let first = tokio::select! {
        first = first_close(listener) => first,
        () = publish => panic!("nothing was closed"),
    };
    assert_eq!(first, CONNECTION_CLOSE);
}
