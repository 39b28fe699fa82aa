//! The threads that serve connections, one for each core.
//!
//! Each has a runtime of its own. A connection stays on its thread from its first request to its last, so no thread has to
//! be woken for what another one has received, and no request goes from core to core. A new connection goes to the thread
//! with the fewest.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{
    net::TcpStream,
    runtime::{Builder, Handle},
    sync::oneshot,
    task::JoinHandle,
};

/// The threads; cheap to clone. They end when the last clone is dropped, and their connections with them.
#[derive(Clone, Debug)]
pub struct Cores(Arc<[Core]>);

/// A thread that serves connections.
#[derive(Debug)]
struct Core {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// The thread ends when this is dropped. That of the caller has none.
    _end: Option<oneshot::Sender<()>>,
}

impl Cores {
    /// Returns the thread of the caller alone, or all threads of its runtime.
    #[must_use]
    pub fn only_this() -> Self {
        Self([Core::this()].into())
    }

    /// Returns the thread of the caller, and starts one for each further core that the process may use. The caller's
    /// runtime has to be one of a single thread.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub fn all() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let others = (1..cores).map(Core::start);
        // The caller's thread also has all other tasks of the program, so it comes last.
        let all = others.chain(std::iter::once(Ok(Core::this())));
        Ok(Self(all.collect::<io::Result<_>>()?))
    }

    /// Takes a place for a connection on the thread that has the fewest.
    pub(super) fn place(&self) -> Place {
        let count = |core: &&Core| core.connections.load(Ordering::Relaxed);
        let fewest = self.0.iter().min_by_key(count);
        let place = fewest.map_or_else(|| Core::this().place(), Core::place);
        place.connections.fetch_add(1, Ordering::Relaxed);
        place
    }
}

impl Core {
    fn this() -> Self {
        Self {
            runtime: Handle::current(),
            connections: Arc::default(),
            _end: None,
        }
    }

    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let core = Self {
            runtime: runtime.handle().clone(),
            connections: Arc::default(),
            _end: Some(end),
        };
        // Its runtime is dropped there as well, because a task must not do that.
        thread::Builder::new()
            .name(format!("core-{number}"))
            .spawn(move || runtime.block_on(ended))?;
        Ok(core)
    }

    fn place(&self) -> Place {
        let (runtime, connections) = (self.runtime.clone(), Arc::clone(&self.connections));
        Place {
            runtime,
            connections,
        }
    }
}

/// A connection's place on a thread, counted until it is dropped.
pub(super) struct Place {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Place {
    /// Moves a stream from the runtime of the caller to that of the place.
    ///
    /// # Errors
    /// Fails if the process lacks the resources.
    pub(super) fn adopt(&self, stream: TcpStream) -> io::Result<TcpStream> {
        if self.runtime.id() == Handle::current().id() {
            return Ok(stream);
        }
        let stream = stream.into_std()?;
        let _its_runtime = self.runtime.enter();
        TcpStream::from_std(stream)
    }

    /// Starts the task of the connection, which has the place until its end.
    pub(super) fn spawn(self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            task.await;
            drop(self);
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, SocketAddr},
        thread::ThreadId,
    };

    use tokio::{io::AsyncReadExt, net::TcpListener, sync::mpsc, task::yield_now};

    use super::*;

    /// Returns this thread and two others.
    fn three() -> Cores {
        let others = [1, 2].map(|number| Core::start(number).unwrap());
        Cores(std::iter::once(Core::this()).chain(others).collect())
    }

    /// Places a connection that stays until its client leaves; returns the client, and the thread that serves it.
    async fn connect(cores: &Cores) -> (std::net::TcpStream, ThreadId, JoinHandle<()>) {
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = TcpListener::bind(any).await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let place = cores.place();
        let mut stream = place.adopt(stream).unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let task = place.spawn(async move {
            tell.send(thread::current().id()).unwrap();
            // It ends only if its runtime hears of the end of the stream.
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        });
        (client, told.recv().await.unwrap(), task)
    }

    #[tokio::test]
    async fn connections_are_spread_and_a_new_one_goes_where_one_has_ended() {
        let cores = three();
        let mut all = Vec::new();
        for _ in 0..6 {
            all.push(connect(&cores).await);
        }
        let mut threads: Vec<_> = all.iter().map(|(_, thread, _)| *thread).collect();
        threads.sort_by_key(|thread| format!("{thread:?}"));
        threads.dedup();
        assert_eq!(threads.len(), 3, "each has some");
        assert!(threads.contains(&thread::current().id()));
        for _ in 0..all.len() {
            let (client, of_ended, task) = all.remove(0);
            drop(client);
            task.await.unwrap();
            let next = connect(&cores).await;
            assert_eq!(next.1, of_ended);
            all.push(next);
        }
    }

    #[tokio::test]
    async fn the_threads_and_their_connections_end_with_the_last_clone() {
        let cores = three();
        let clone = cores.clone();
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (client, thread, task) = connect(&cores).await;
            if thread != thread::current().id() {
                clients.push(client);
                tasks.push(task);
            }
        }
        drop(cores);
        yield_now().await;
        assert!(!tasks.iter().any(JoinHandle::is_finished));
        drop(clone);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
}
