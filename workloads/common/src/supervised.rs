//! Background tasks that a program cannot do without.

use std::{process::exit, time::Duration};

use tokio::{task::JoinSet, time::sleep};

/// The exit code of a program whose background task panicked: an internal error (`EX_SOFTWARE`).
const INTERNAL_ERROR: i32 = 70;
/// The time for the log to be written.
const FLUSH: Duration = Duration::from_millis(200);

/// Runs a background task. If it panics, the process ends, and Kubernetes starts the container again: without the task
/// the program would go on as if nothing had happened.
pub async fn supervised(name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
    if has_panicked(name, work).await {
        sleep(FLUSH).await;
        exit(INTERNAL_ERROR);
    }
}

/// Returns true if the work panicked, which is logged. The work ends with the future.
async fn has_panicked(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> bool {
    let mut task = JoinSet::new();
    task.spawn(work);
    let ended = task.join_next().await;
    let has_panicked = ended.is_some_and(|ended| ended.is_err_and(|error| error.is_panic()));
    if has_panicked {
        tracing::error!(event = "task_panicked", task = name, "task_panicked");
    }
    has_panicked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_is_noticed_and_its_end_is_not() {
        assert!(!has_panicked("ends", async {}).await);
        let panics = async {
            sleep(Duration::from_millis(1)).await;
            panic!("as it should");
        };
        assert!(has_panicked("panics", panics).await);
    }
}
