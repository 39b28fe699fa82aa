//! Connecting to a broker that accepts connections and answers nothing, or to none at all: what is given up leaves
//! nothing behind, however often it is tried again.

#![expect(
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::fs;

use shortener_common::{
    queue::{Broker, connect},
    tls::ClientTls,
};
use shortener_testing::broker::until;
use tokio::{io::AsyncReadExt, net::TcpListener, runtime::Handle};

/// The name of the threads of the library.
const THREAD: &str = "lapin-io-loop\n";
/// The first bytes of a client: the protocol and its version.
const HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// Returns the number of threads of the library in this process, and the number of tasks of this test.
fn running() -> (usize, usize) {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end before its name is read.
    let names = threads.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let threads = names.filter(|name| name == THREAD).count();
    (threads, Handle::current().metrics().num_alive_tasks())
}

async fn nothing_runs() {
    until("threads and tasks to end", async || match running() {
        (0, 0) => Ok(()),
        (threads, tasks) => Err(format!("{threads} threads and {tasks} tasks")),
    })
    .await;
}

/// Both cases are one test, because a process has one list of threads.
#[tokio::test]
async fn a_connection_that_is_refused_or_given_up_leaves_no_thread_and_no_task() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("amqp://{}", listener.local_addr().unwrap());
    let broker = Broker {
        uri: uri.parse().unwrap(),
        tls: ClientTls::default(),
    };
    for _ in 0..3 {
        let header = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut header = [0; HEADER.len()];
            connection.read_exact(&mut header).await.unwrap();
            assert_eq!(header, HEADER);
            connection
        };
        let mut connection = tokio::select! {
            connected = connect(&broker, "test") => unreachable!("{connected:?}"),
            connection = header => connection,
        };
        assert_eq!(running().0, 1);
        nothing_runs().await;
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "{rest:?}");
    }
    drop(listener);
    assert!(connect(&broker, "test").await.is_err());
    nothing_runs().await;
}
