//! Futures in functions that are not async.

use std::thread;

use tokio::runtime::Builder;

/// Runs a future to its end on a thread of its own, because the thread of a test already runs one.
pub(crate) fn block_on<F: Future<Output: Send>>(future: impl FnOnce() -> F + Send) -> F::Output {
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future())
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}
