//! The jobs that were sent and have no result yet, in the order in which they were sent.
//!
//! The library attaches a returned message to whichever confirmation arrives next, so the confirmation of one job may carry
//! the message of another one, and one that carries nothing does not show that its own job was routed. Two rules of the
//! broker make the results certain all the same: a message is returned before it is confirmed, and messages are returned in
//! the order in which they were sent. A returned message that no confirmation has taken yet thus always has a job that is
//! not confirmed yet, itself or one before it. Once a job and all jobs before it are confirmed, some confirmation that has
//! arrived carries its message, if it was returned. Results are therefore given in order, and only after a look at every
//! confirmation that has arrived, also at those of later jobs.

use std::{
    collections::{HashSet, VecDeque},
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use futures::future::{MaybeDone, maybe_done};
use shortener_common::trace::SpanId;

use super::Refusal;

/// The maximum number of jobs without a result.
const MOST: usize = 512;

/// A confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// False if the broker refuses the job. A job that was returned is accepted, too.
    pub(super) is_accepted: bool,
    /// The publication whose returned message the confirmation carries, of this job or of another one.
    pub(super) returned: Option<SpanId>,
}

/// The jobs that have results now.
#[derive(Debug)]
pub(super) struct Decided<J> {
    /// The jobs with their results, in the order in which they were sent.
    pub(super) results: Vec<(J, Result<(), Refusal>)>,
    /// The error that ended the channel, if one did. Every later job of the window is lost with it.
    pub(super) failure: Option<lapin::Error>,
}

/// A job without a result.
struct Sent<J, F: Future> {
    job: J,
    /// The span of its publication, which no other publication has: a job may be published twice at the same time.
    publication: SpanId,
    confirmation: MaybeDone<F>,
}

/// The jobs without a result.
pub(super) struct Window<J, F: Future> {
    sent: VecDeque<Sent<J, F>>,
    /// The publications whose messages were returned, and whose jobs are still in the window.
    returned: HashSet<SpanId>,
}

impl<J, F> Window<J, F>
where
    F: Future<Output = lapin::Result<Answer>> + Unpin,
{
    pub(super) fn new() -> Self {
        Self {
            sent: VecDeque::new(),
            returned: HashSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns true if another job may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.sent.len() < MOST
    }

    /// Sends a job, which is what the first poll of its confirmation does.
    pub(super) fn push(&mut self, job: J, publication: SpanId, confirmation: F) {
        let mut confirmation = maybe_done(confirmation);
        // Whether it is already done is seen at the next look.
        let _ = Pin::new(&mut confirmation).poll(&mut Context::from_waker(Waker::noop()));
        self.sent.push_back(Sent {
            job,
            publication,
            confirmation,
        });
    }

    /// Takes the jobs that have results. Pending while the first job is not confirmed, and while there is none.
    pub(super) fn poll_decided(&mut self, context: &mut Context<'_>) -> Poll<Decided<J>> {
        let Some(first) = self.sent.front_mut() else {
            return Poll::Pending;
        };
        ready!(Pin::new(&mut first.confirmation).poll(context));
        // Nothing can be decided before the next job that is not confirmed. Later ones need not wake the task.
        let mut unwoken = Context::from_waker(Waker::noop());
        let mut are_done = true;
        for sent in &mut self.sent {
            let context = if are_done {
                &mut *context
            } else {
                &mut unwoken
            };
            let mut confirmation = Pin::new(&mut sent.confirmation);
            if confirmation.as_mut().poll(context).is_pending() {
                are_done = false;
            } else if let Some(Ok(answer)) = confirmation.output_mut() {
                self.returned.extend(answer.returned.take());
            }
        }
        Poll::Ready(self.take_decided())
    }

    /// Takes the jobs up to the first one that is not confirmed.
    fn take_decided(&mut self) -> Decided<J> {
        let mut decided = Decided {
            results: Vec::new(),
            failure: None,
        };
        while let Some(first) = self.sent.front_mut()
            && let Some(answer) = Pin::new(&mut first.confirmation).take_output()
            && let Some(Sent {
                job, publication, ..
            }) = self.sent.pop_front()
        {
            let was_returned = self.returned.remove(&publication);
            let result = match answer {
                Err(error) => {
                    decided.failure.get_or_insert(error);
                    Err(Refusal::NotConnected)
                }
                // The returned messages of later jobs may be lost with the confirmation of this one.
                Ok(_) if decided.failure.is_some() => Err(Refusal::NotConnected),
                Ok(_) if was_returned => Err(Refusal::Unroutable),
                Ok(answer) if answer.is_accepted => Ok(()),
                Ok(_) => Err(Refusal::Rejected),
            };
            decided.results.push((job, result));
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use futures::future::{BoxFuture, FutureExt};
    use proptest::prelude::*;
    use shortener_common::trace::TraceContext;
    use tokio::sync::oneshot;

    use super::*;

    type Outcome = Result<(), Refusal>;

    const UNROUTABLE: Outcome = Err(Refusal::Unroutable);
    const REJECTED: Outcome = Err(Refusal::Rejected);

    /// A window whose jobs are numbered, with the library below it: a returned message waits for the next confirmation.
    struct Library {
        window: Window<usize, BoxFuture<'static, lapin::Result<Answer>>>,
        /// Each job with the span of its publication and the sender of its confirmation, until it is confirmed.
        jobs: Vec<(SpanId, Option<oneshot::Sender<lapin::Result<Answer>>>)>,
        returned: VecDeque<SpanId>,
        wakes: Arc<Wakes>,
    }

    /// Counts how often the task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Library {
        /// Returns a window with this many jobs, which are all in flight.
        fn with(jobs: usize) -> Self {
            let mut library = Self {
                window: Window::new(),
                jobs: Vec::new(),
                returned: VecDeque::new(),
                wakes: Arc::default(),
            };
            (0..jobs).for_each(|_| library.send());
            library
        }

        fn send(&mut self) {
            let publication = TraceContext::root().span_id;
            let (confirm, confirmed) = oneshot::channel();
            let confirmation = async move { confirmed.await.unwrap() }.boxed();
            self.window.push(self.jobs.len(), publication, confirmation);
            self.jobs.push((publication, Some(confirm)));
        }

        /// The broker returns the message of a job.
        fn give_back(&mut self, job: usize) {
            self.returned.push_back(self.jobs[job].0);
        }

        /// The broker confirms a job.
        fn confirm(&mut self, job: usize, is_accepted: bool) {
            let answer = Answer {
                is_accepted,
                returned: self.returned.pop_front(),
            };
            let confirm = self.jobs[job].1.take().unwrap();
            confirm.send(Ok(answer)).unwrap();
        }

        /// The broker confirms several jobs as one, and the library takes them in any order.
        fn confirm_all(&mut self, jobs: impl IntoIterator<Item = usize>) {
            jobs.into_iter().for_each(|job| self.confirm(job, true));
        }

        /// The connection ends.
        fn end(&mut self) {
            let error = lapin::Error::from(io::Error::from(io::ErrorKind::ConnectionReset));
            for (_, confirm) in &mut self.jobs {
                if let Some(confirm) = confirm.take() {
                    confirm.send(Err(error.clone())).unwrap();
                }
            }
        }

        fn poll(&mut self) -> Poll<Decided<usize>> {
            let waker = Waker::from(Arc::clone(&self.wakes));
            self.window.poll_decided(&mut Context::from_waker(&waker))
        }

        /// Returns the results that are known now.
        fn results(&mut self) -> Vec<(usize, Outcome)> {
            match self.poll() {
                Poll::Ready(decided) => {
                    assert!(decided.failure.is_none(), "{decided:?}");
                    decided.results
                }
                Poll::Pending => Vec::new(),
            }
        }
    }

    #[test]
    fn a_job_is_accepted_once_it_is_confirmed() {
        let mut library = Library::with(2);
        assert!(library.results().is_empty());
        library.confirm(0, true);
        assert_eq!(library.results(), [(0, Ok(()))]);
        assert!(library.results().is_empty());
        library.confirm(1, true);
        assert_eq!(library.results(), [(1, Ok(()))]);
        assert!(library.window.is_empty());
    }

    #[test]
    fn one_returned_job_among_many_confirmed_ones_is_the_only_one_that_is_unroutable() {
        let mut library = Library::with(100);
        library.confirm_all(0..10);
        let mut results = library.results();
        library.give_back(41);
        // An earlier confirmation carries the message.
        library.confirm_all(10..50);
        results.extend(library.results());
        library.confirm_all(50..100);
        results.extend(library.results());
        let expected = |job| if job == 41 { UNROUTABLE } else { Ok(()) };
        let expected: Vec<_> = (0..100).map(|job| (job, expected(job))).collect();
        assert_eq!(results, expected);
    }

    #[test]
    fn a_message_that_a_later_confirmation_carries_is_known_in_time() {
        let mut library = Library::with(3);
        library.give_back(0);
        library.confirm(2, true);
        assert!(library.results().is_empty());
        library.confirm(0, true);
        assert_eq!(library.results(), [(0, UNROUTABLE)]);
        library.confirm(1, true);
        assert_eq!(library.results(), [(1, Ok(())), (2, Ok(()))]);
    }

    #[test]
    fn jobs_that_are_confirmed_as_one_have_results_of_their_own() {
        let mut library = Library::with(6);
        library.give_back(1);
        library.give_back(3);
        // Each confirmation is looked at while the library is not yet through with the others.
        let mut results = Vec::new();
        for job in [4, 3, 0, 2, 1] {
            library.confirm(job, true);
            results.extend(library.results());
        }
        let expected = [Ok(()), UNROUTABLE, Ok(()), UNROUTABLE, Ok(())];
        assert_eq!(results, Vec::from_iter(expected.into_iter().enumerate()));
        library.confirm(5, true);
        assert_eq!(library.results(), [(5, Ok(()))]);
    }

    #[test]
    fn one_rejected_job_is_rejected_and_no_other_one() {
        let mut library = Library::with(3);
        library.confirm(1, false);
        library.confirm_all([0, 2]);
        let expected = [(0, Ok(())), (1, REJECTED), (2, Ok(()))];
        assert_eq!(library.results(), expected);
    }

    #[test]
    fn no_more_jobs_are_sent_than_fit() {
        let mut library = Library::with(0);
        while library.window.has_room() {
            library.send();
        }
        assert_eq!(library.jobs.len(), MOST);
        library.confirm(1, true);
        assert!(library.results().is_empty());
        assert!(!library.window.has_room());
        library.confirm(0, true);
        assert_eq!(library.results().len(), 2);
        library.send();
        assert!(library.window.has_room());
    }

    #[test]
    fn a_lost_connection_decides_a_full_window_at_once() {
        let mut library = Library::with(MOST);
        library.confirm_all([0, 1, 3]);
        library.end();
        let Poll::Ready(decided) = library.poll() else {
            panic!("nothing is decided")
        };
        assert!(decided.failure.is_some());
        // The message of job 3 may have been returned, and waited for the confirmation of job 2.
        let expected = |job| match job {
            0 | 1 => Ok(()),
            _ => Err(Refusal::NotConnected),
        };
        let expected = (0..MOST).map(|job| (job, expected(job)));
        assert_eq!(decided.results, Vec::from_iter(expected));
        assert!(library.window.is_empty());
    }

    #[test]
    fn only_the_next_job_wakes_the_task() {
        let mut library = Library::with(4);
        let wakes = Arc::clone(&library.wakes);
        let wakes = || wakes.0.load(Ordering::Relaxed);
        assert!(library.results().is_empty());
        library.confirm_all([1, 3]);
        assert_eq!(wakes(), 0);
        library.confirm(0, true);
        assert_eq!(wakes(), 1);
        assert_eq!(library.results().len(), 2);
        library.confirm(2, true);
        assert_eq!(wakes(), 2);
        assert_eq!(library.results().len(), 2);
    }

    proptest! {
        #[test]
        fn every_job_has_its_own_result_in_whatever_order_confirmations_arrive(
            jobs in prop::collection::vec((0..3_usize, any::<u8>(), any::<bool>()), 1..40),
            times in prop::collection::vec(any::<u8>(), 40),
        ) {
            const OUTCOMES: [Outcome; 3] = [Ok(()), REJECTED, UNROUTABLE];
            let mut library = Library::with(jobs.len());
            // Messages return in the order in which they were sent, each before its confirmation.
            let mut returns = times;
            returns.sort_unstable();
            let mut events = Vec::new();
            for (job, (fate, confirmed, _)) in jobs.iter().enumerate() {
                let is_returned = OUTCOMES[*fate] == UNROUTABLE;
                let earliest = if is_returned { returns[job] } else { 0 };
                if is_returned {
                    events.push((returns[job], false, job));
                }
                events.push((earliest.max(*confirmed), true, job));
            }
            events.sort_unstable();
            let mut results = Vec::new();
            for (_, is_confirmation, job) in events {
                let (fate, _, is_looked_at) = jobs[job];
                if is_confirmation {
                    library.confirm(job, OUTCOMES[fate] != REJECTED);
                } else {
                    library.give_back(job);
                }
                if is_looked_at {
                    results.extend(library.results());
                }
            }
            results.extend(library.results());
            let expected = jobs.iter().map(|(fate, ..)| OUTCOMES[*fate]).enumerate();
            prop_assert_eq!(results, Vec::from_iter(expected));
        }
    }
}
