//! Look-ups by key. Those that wait at the same time are one statement.
//!
//! While few statements are in flight, a look-up is a statement of its own, at once. Otherwise it waits, and the first one
//! that waits starts a task. When one of those statements ends, the task asks for every key that waits, up to a bound. If
//! none ends within a moment, it uses another connection: a slow statement keeps no other waiting while a connection is
//! free. A statement costs both sides far more than a key in it, so under load most of that cost is shared.
//!
//! Each look-up has a place of its own among the operations that wait, and together they need one connection. The task
//! refuses those that have waited for too long, so none needs a timer of its own. A request that leaves takes nothing from
//! the others, and an error is told to each of them.

mod queue;

use std::{
    collections::HashMap, future::Future, hash::Hash, pin::pin, slice, sync::Arc, time::Duration,
};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, sleep_until, timeout},
};

use self::queue::{Queue, Request, Told};
use super::{
    Database, StoreError,
    admission::{Admission, Lane, Turn, acquire},
    away, silence,
};
use crate::telemetry::{
    call,
    span::{self, Position, SpanKind, in_span},
};

/// The maximum number of keys in one statement. With ten connections, the results of 256 look-ups are in memory at most.
const MOST: usize = 32;

/// The number of statements in flight up to which a look-up does not wait for others. While the first one is on its way,
/// the keys for the next one gather; the second one keeps both sides busy meanwhile.
const AHEAD: usize = 2;
/// The time that look-ups wait for the end of a statement before they use another connection. It is the resolution of the
/// runtime's timers.
const MOMENT: Duration = Duration::from_millis(1);

/// A question about keys, which one statement answers for several of them.
pub trait Question: Send + Sync + 'static {
    /// The key that a look-up asks for.
    type Key: Eq + Hash + Send + Sync + 'static;
    /// The value that a key may have.
    type Value: Clone + Send + Sync + 'static;

    /// The verb and the table of the statement, for example `SELECT links`; it names the span of the statement.
    const STATEMENT: &'static str;
    /// The name of the span of a look-up that waits, for example `look up links`.
    const LOOK_UP: &'static str;

    /// Returns the values of those of these keys that have one.
    fn ask(
        &self,
        pool: PgPool,
        keys: &[Self::Key],
    ) -> impl Future<Output = Result<HashMap<Self::Key, Self::Value>, sqlx::Error>> + Send;
}

/// The values by key.
type Found<Q> = HashMap<<Q as Question>::Key, <Q as Question>::Value>;

/// The look-ups of one question.
pub struct Lookups<Q: Question> {
    database: Database,
    question: Q,
    /// The statements in flight whose end others wait for.
    ahead: Arc<Semaphore>,
    queue: Mutex<Queue<Q::Key, Q::Value>>,
}

/// The right to ask with one statement, until it is dropped.
struct Go {
    _turn: Turn,
    /// Unset for a statement whose end others do not wait for.
    _ahead: Option<OwnedSemaphorePermit>,
}

impl<Q: Question> Lookups<Q> {
    /// Returns the look-ups of this question.
    #[must_use]
    pub fn new(database: Database, question: Q) -> Self {
        Self {
            database,
            question,
            ahead: Arc::new(Semaphore::new(AHEAD)),
            queue: Mutex::default(),
        }
    }

    /// Looks up a key; `None` if it has no value.
    ///
    /// # Errors
    /// Returns the errors of [`Database::run`].
    pub async fn look_up(self: &Arc<Self>, key: Q::Key) -> Result<Option<Q::Value>, StoreError> {
        let mut go = None;
        if let Some(admission) = &self.database.admission
            && self.database.is_up()
        {
            // No look-up overtakes those that wait.
            if self.queue.lock().is_empty() {
                go = self.try_go(admission);
            }
            if go.is_none() {
                return self.wait(admission, key).await;
            }
        }
        let found = self.ask(slice::from_ref(&key)).await;
        drop(go);
        Ok(found?.remove(&key))
    }

    /// Returns the right to ask at once, if few statements are in flight and a connection is free.
    fn try_go(&self, admission: &Admission) -> Option<Go> {
        let ahead = Arc::clone(&self.ahead).try_acquire_owned().ok()?;
        Some(Go {
            _turn: admission.try_enter(Lane::LookUps)?,
            _ahead: Some(ahead),
        })
    }

    /// Waits for the right to ask on behalf of those that wait.
    async fn go(&self, admission: &Admission) -> Go {
        let ahead = timeout(MOMENT, acquire(&self.ahead)).await.ok();
        Go {
            _turn: admission.turn(Lane::LookUps).await,
            _ahead: ahead,
        }
    }

    /// Asks for these keys with one statement, in a span of its own. If its connection goes away because the watcher looked
    /// for the primary, the next one is asked: the statement changes nothing.
    async fn ask(&self, keys: &[Q::Key]) -> Result<Found<Q>, StoreError> {
        let ask = || self.database.operate(|pool| self.question.ask(pool, keys));
        let work = async {
            let pool = self.database.pool_number();
            match ask().await {
                Err(StoreError::Unavailable(_)) if self.database.has_replaced(pool) => ask().await,
                found => found,
            }
        };
        let server = &self.database.server;
        server.call_for(keys.len(), Q::STATEMENT, work).await
    }

    /// Looks up a key together with others, in a span that also shows the wait.
    async fn wait(
        self: &Arc<Self>,
        admission: &Arc<Admission>,
        key: Q::Key,
    ) -> Result<Option<Q::Value>, StoreError> {
        let Some(mut span) = span::part(SpanKind::Internal, || Q::LOOK_UP) else {
            return self.line_up(admission, key).await.answer;
        };
        let Told { answer, other } = in_span(&span, self.line_up(admission, key)).await;
        if let Some(mut description) = span.describe() {
            if let Some(other) = other {
                description.link_other(other);
            }
            if let Err(error) = &answer {
                description.fail(call::OTHER, &error.to_string());
            }
        }
        span.end();
        answer
    }

    /// Adds a look-up to those that wait, and waits for its answer. The first one starts the task.
    async fn line_up(self: &Arc<Self>, admission: &Arc<Admission>, key: Q::Key) -> Told<Q::Value> {
        let failed = |error| Told {
            answer: Err(error),
            other: None,
        };
        let place = match admission.place(Lane::LookUps) {
            Ok(place) => place,
            Err(refusal) => return failed(refusal),
        };
        let (answer, answered) = oneshot::channel();
        let request = Request {
            position: Position::current(),
            answer,
        };
        let (number, starts_task) = self.queue.lock().push(place, key, request);
        let _leave = Leave {
            lookups: self,
            number,
        };
        if starts_task {
            tokio::spawn(Arc::clone(self).serve(Arc::clone(admission)));
        }
        // Without an answer, the program ends.
        answered.await.unwrap_or_else(|_| failed(away()))
    }

    /// Asks for the keys that wait, until none waits.
    async fn serve(self: Arc<Self>, admission: Arc<Admission>) {
        let mut silent = self.database.silent.clone();
        let mut go = pin!(self.go(&admission));
        while let Some(end) = self.first_end() {
            tokio::select! {
                biased;
                ready = &mut go => {
                    go.set(self.go(&admission));
                    let (keys, requests) = self.queue.lock().take(MOST);
                    tokio::spawn(Arc::clone(&self).answer(ready, keys, requests));
                }
                _ = silent.wait_for(|silent| *silent) => {
                    let (_, requests) = self.queue.lock().take(usize::MAX);
                    for request in requests {
                        request.tell(Err(silence()), None);
                    }
                }
                () = sleep_until(end) => {
                    let late = self.queue.lock().take_late(Instant::now());
                    for request in late {
                        request.tell(Err(admission.refuse(Lane::LookUps)), None);
                    }
                }
            }
        }
    }

    /// Returns the end of the wait of the first look-up; `None` if the task has to end.
    fn first_end(&self) -> Option<Instant> {
        self.queue.lock().first_end()
    }

    /// Asks for these keys with this right, and answers the requests.
    async fn answer(self: Arc<Self>, _go: Go, keys: Vec<Q::Key>, requests: Vec<Request<Q::Value>>) {
        let refused = self.answer_together(&keys, requests).await;
        // What the database rejects about one key must be no error of the others.
        for (key, request) in keys.iter().zip(refused) {
            let keys = slice::from_ref(key);
            self.answer_together(keys, vec![request]).await;
        }
    }

    /// Asks for these keys with one statement, and answers the requests, unless all of them leave. Returns the requests
    /// if the database rejects a statement with several keys.
    async fn answer_together(
        &self,
        keys: &[Q::Key],
        mut requests: Vec<Request<Q::Value>>,
    ) -> Vec<Request<Q::Value>> {
        let Some(first) = requests.first() else {
            return requests;
        };
        let position = first.position.clone();
        let first = position.trace();
        let found = tokio::select! {
            biased;
            () = all_left(&mut requests) => return Vec::new(),
            found = position.run(self.ask(keys)) => found,
        };
        if keys.len() > 1 && matches!(found, Err(StoreError::Internal(_))) {
            return requests;
        }
        for (number, (key, request)) in keys.iter().zip(requests).enumerate() {
            let answer = match &found {
                Ok(values) => Ok(values.get(key).cloned()),
                Err(error) => Err(error.clone()),
            };
            request.tell(answer, first.filter(|_| number > 0));
        }
        Vec::new()
    }
}

/// Completes once all these requests have left.
async fn all_left<V>(requests: &mut [Request<V>]) {
    for request in requests {
        request.answer.closed().await;
    }
}

/// Removes a look-up that still waits when its request leaves.
struct Leave<'a, Q: Question> {
    lookups: &'a Lookups<Q>,
    number: u64,
}

impl<Q: Question> Drop for Leave<'_, Q> {
    fn drop(&mut self) {
        self.lookups.queue.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use tokio::{
        sync::{mpsc, watch},
        task::{JoinHandle, yield_now},
        time::advance,
    };

    use super::*;
    use crate::{
        backends::Health,
        database::{
            AdmissionMetrics, ConnectedPool, State,
            admission::{LONGEST_WAIT, WAITING_LOOK_UPS},
        },
        telemetry::call::Server,
    };

    type Answer = Result<Option<u32>, StoreError>;

    /// A statement that waits for its result.
    struct Statement {
        keys: Vec<u32>,
        result: oneshot::Sender<Result<(), sqlx::Error>>,
    }

    impl Statement {
        fn succeed(self) {
            self.result.send(Ok(())).unwrap();
        }

        fn fail(self, error: sqlx::Error) {
            self.result.send(Err(error)).unwrap();
        }
    }

    /// Finds ten times the key for every even key.
    struct Even(mpsc::UnboundedSender<Statement>);

    impl Question for Even {
        type Key = u32;
        type Value = u32;

        const STATEMENT: &'static str = "SELECT numbers";
        const LOOK_UP: &'static str = "look up numbers";

        async fn ask(&self, _: PgPool, keys: &[u32]) -> Result<HashMap<u32, u32>, sqlx::Error> {
            let (result, told) = oneshot::channel();
            let keys = keys.to_vec();
            let even = keys.clone().into_iter().filter(|key| key % 2 == 0);
            self.0.send(Statement { keys, result }).unwrap();
            told.await.unwrap()?;
            Ok(even.map(|key| (key, 10 * key)).collect())
        }
    }

    /// Look-ups in a database that the test plays.
    struct Scene {
        lookups: Arc<Lookups<Even>>,
        statements: mpsc::UnboundedReceiver<Statement>,
        state: watch::Sender<State>,
        silence: watch::Sender<bool>,
    }

    impl Scene {
        /// Sets the scene with connections for this number of statements, or for any number.
        fn new(most: Option<u32>) -> Self {
            let pool = PgPoolOptions::new().connect_lazy_with(PgConnectOptions::new());
            let (state, up) = watch::channel(Some(ConnectedPool { pool, number: 1 }));
            let (silence, silent) = watch::channel(false);
            let database = Database {
                state: up,
                silent,
                probes: Arc::default(),
                server: Server::database("postgresql", "db", 5432),
                health: Health::default(),
                admission: None,
            };
            let database = match most {
                // One more than look-ups take, if there are several.
                Some(most) => database.admitting(
                    most + u32::from(most > 1),
                    AdmissionMetrics::register(&mut Registry::default()),
                ),
                None => database,
            };
            let (sent, statements) = mpsc::unbounded_channel();
            Self {
                lookups: Arc::new(Lookups::new(database, Even(sent))),
                statements,
                state,
                silence,
            }
        }

        fn look_up(&self, key: u32) -> JoinHandle<Answer> {
            let lookups = Arc::clone(&self.lookups);
            tokio::spawn(async move { lookups.look_up(key).await })
        }

        /// Replaces the pool, as after a failover.
        fn replace_pool(&self, number: u64) {
            let pool = PgPoolOptions::new().connect_lazy_with(PgConnectOptions::new());
            let pool = ConnectedPool { pool, number };
            self.state.send_replace(Some(pool));
        }

        async fn until_waiting(&self, number: usize) {
            while self.lookups.queue.lock().len() != number {
                yield_now().await;
            }
        }

        /// Looks up these keys, all of which wait.
        async fn look_up_waiting(
            &self,
            keys: impl IntoIterator<Item = u32>,
        ) -> Vec<JoinHandle<Answer>> {
            let before = self.lookups.queue.lock().len();
            let asked: Vec<_> = keys.into_iter().map(|key| self.look_up(key)).collect();
            self.until_waiting(before + asked.len()).await;
            asked
        }

        /// Looks up these keys, which wait for the end of another statement and then are one.
        async fn look_up_behind_another(
            &mut self,
            keys: &[u32],
        ) -> (Vec<JoinHandle<Answer>>, Statement) {
            drop(self.look_up(0));
            let statement = self.statement(&[0]).await;
            let waiting = self.look_up_waiting(keys.iter().copied()).await;
            statement.succeed();
            (waiting, self.statement(keys).await)
        }

        /// Returns the next statement, which is for these keys.
        async fn statement(&mut self, keys: &[u32]) -> Statement {
            let statement = self.statements.recv().await.unwrap();
            assert_eq!(statement.keys, keys);
            statement
        }
    }

    async fn found(asked: JoinHandle<Answer>) -> Option<u32> {
        asked.await.unwrap().unwrap()
    }

    async fn error(asked: JoinHandle<Answer>) -> StoreError {
        asked.await.unwrap().unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_is_asked_for_at_once_while_few_statements_are_in_flight() {
        // Without a bound on the statements none waits.
        for (most, keys) in [(Some(4), 0..AHEAD as u32), (None, 0..4)] {
            let mut scene = Scene::new(most);
            let begun = Instant::now();
            let asked: Vec<_> = keys.clone().map(|key| scene.look_up(key)).collect();
            let mut statements = Vec::new();
            for key in keys.clone() {
                statements.push(scene.statement(&[key]).await);
            }
            statements.into_iter().for_each(Statement::succeed);
            for (asked, key) in asked.into_iter().zip(keys) {
                assert_eq!(found(asked).await, (key % 2 == 0).then_some(10 * key));
            }
            assert!(begun.elapsed().is_zero());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn others_wait_for_the_end_of_a_statement_or_for_a_moment() {
        let mut scene = Scene::new(Some(4));
        let _ahead = [0, 1].map(|key| scene.look_up(key));
        let first = scene.statement(&[0]).await;
        let _second = scene.statement(&[1]).await;
        let begun = Instant::now();
        let _waiting = scene.look_up_waiting([2, 3, 4]).await;
        first.succeed();
        let third = scene.statement(&[2, 3, 4]).await;
        assert!(begun.elapsed().is_zero());
        // Two connections are free, and no statement ends.
        for key in [6, 7] {
            let begun = Instant::now();
            let _waiting = scene.look_up_waiting([key]).await;
            let _statement = scene.statement(&[key]).await;
            let waited = begun.elapsed();
            assert!(waited >= MOMENT && waited < 5 * MOMENT, "{waited:?}");
        }
        third.succeed();
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_whose_connection_was_replaced_asks_the_next_one() {
        let mut scene = Scene::new(Some(4));
        let asked = scene.look_up(2);
        let lost = scene.statement(&[2]).await;
        // From this time on, a statement is given up with its connection.
        advance(Duration::from_secs(1)).await;
        scene.replace_pool(2);
        scene.statement(&[2]).await.succeed();
        assert_eq!(found(asked).await, Some(20));
        assert!(lost.result.is_closed());

        // A connection that is refused is replaced as well.
        let asked = scene.look_up(4);
        let refused = scene.statement(&[4]).await;
        scene.replace_pool(3);
        refused.fail(sqlx::Error::PoolClosed);
        scene.statement(&[4]).await.fail(sqlx::Error::PoolClosed);
        let error = error(asked).await;
        assert!(
            matches!(error, StoreError::Unavailable(_)),
            "once only: {error}"
        );
    }

    #[tokio::test]
    async fn those_that_wait_are_one_statement_and_each_has_its_answer() {
        let mut scene = Scene::new(Some(1));
        let first = scene.look_up(0);
        let statement = scene.statement(&[0]).await;
        // Two may ask for the same key.
        let waiting = scene.look_up_waiting([1, 2, 3, 4, 2]).await;
        statement.succeed();
        assert_eq!(found(first).await, Some(0));
        scene.statement(&[1, 2, 3, 4, 2]).await.succeed();
        let mut values = Vec::new();
        for asked in waiting {
            values.push(found(asked).await);
        }
        assert_eq!(values, [None, Some(20), None, Some(40), Some(20)]);
        assert!(scene.statements.try_recv().is_err());
        // The next one finds a free connection.
        let last = scene.look_up(6);
        scene.statement(&[6]).await.succeed();
        assert_eq!(found(last).await, Some(60));
    }

    #[tokio::test]
    async fn a_statement_has_a_bound_and_a_slow_one_keeps_no_other_waiting() {
        let mut scene = Scene::new(Some(2));
        let _first = [0, 1].map(|key| scene.look_up(key));
        let one = scene.statement(&[0]).await;
        let other = scene.statement(&[1]).await;
        let keys: Vec<u32> = (100..140).collect();
        let waiting = scene.look_up_waiting(keys.clone()).await;
        one.succeed();
        let slow = scene.statement(&keys[..MOST]).await;
        other.succeed();
        scene.statement(&keys[MOST..]).await.succeed();
        let mut waiting = waiting.into_iter().zip(keys);
        let late: Vec<_> = waiting.by_ref().take(MOST).collect();
        for (asked, key) in waiting {
            assert_eq!(found(asked).await, (key % 2 == 0).then_some(10 * key));
        }
        assert!(late.iter().all(|(asked, _)| !asked.is_finished()));
        slow.succeed();
        for (asked, key) in late {
            assert_eq!(found(asked).await, (key % 2 == 0).then_some(10 * key));
        }
    }

    #[tokio::test]
    async fn a_request_that_leaves_takes_nothing_from_the_others() {
        let mut scene = Scene::new(Some(1));
        let first = scene.look_up(0);
        let mut statement = scene.statement(&[0]).await;
        let waiting = scene.look_up_waiting([2, 4, 6]).await;
        waiting[0].abort();
        scene.until_waiting(2).await;
        // The one that is asked for may leave as well, and so may the first one of a statement.
        first.abort();
        statement.result.closed().await;
        let statement = scene.statement(&[4, 6]).await;
        waiting[1].abort();
        while !waiting[1].is_finished() {
            yield_now().await;
        }
        statement.succeed();
        let [_, _, last] = <[_; 3]>::try_from(waiting).unwrap();
        assert_eq!(found(last).await, Some(60));
    }

    #[tokio::test]
    async fn a_statement_that_all_have_left_is_given_up() {
        let mut scene = Scene::new(Some(1));
        let (waiting, mut statement) = scene.look_up_behind_another(&[2, 4]).await;
        waiting.iter().for_each(JoinHandle::abort);
        statement.result.closed().await;
        let next = scene.look_up(6);
        scene.statement(&[6]).await.succeed();
        assert_eq!(found(next).await, Some(60));
    }

    #[tokio::test]
    async fn an_error_is_told_to_each() {
        let mut scene = Scene::new(Some(1));
        let (waiting, statement) = scene.look_up_behind_another(&[2, 4, 6]).await;
        statement.fail(sqlx::Error::PoolClosed);
        for asked in waiting {
            let error = error(asked).await;
            assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        }
        assert!(scene.statements.try_recv().is_err());
    }

    #[tokio::test]
    async fn what_the_database_rejects_about_one_key_is_no_error_of_the_others() {
        let mut scene = Scene::new(Some(1));
        let (waiting, statement) = scene.look_up_behind_another(&[2, 4, 6]).await;
        statement.fail(sqlx::Error::RowNotFound);
        scene.statement(&[2]).await.succeed();
        scene.statement(&[4]).await.fail(sqlx::Error::RowNotFound);
        scene.statement(&[6]).await.succeed();
        let [one, rejected, other] = <[_; 3]>::try_from(waiting).unwrap();
        assert_eq!(found(one).await, Some(20));
        let error = error(rejected).await;
        assert!(matches!(error, StoreError::Internal(_)), "{error:?}");
        assert_eq!(found(other).await, Some(60));
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_fail_at_once_when_the_database_falls_silent_or_goes_down() {
        let mut scene = Scene::new(Some(1));
        let _first = scene.look_up(0);
        let _statement = scene.statement(&[0]).await;
        let waiting = scene.look_up_waiting([2, 4]).await;
        scene.silence.send_replace(true);
        for asked in waiting {
            assert_eq!(error(asked).await.to_string(), silence().to_string());
        }
        scene.silence.send_replace(false);
        let waiting = scene.look_up_waiting([6, 8]).await;
        scene.state.send_replace(None);
        for asked in waiting.into_iter().chain([scene.look_up(10)]) {
            assert_eq!(error(asked).await.to_string(), away().to_string());
        }
        assert!(scene.statements.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_refused_after_its_own_wait_and_one_too_many_at_once() {
        let mut scene = Scene::new(Some(1));
        // The connection is in use all the time.
        let admission = scene.lookups.database.admission.clone().unwrap();
        let turn = admission.try_enter(Lane::LookUps);
        let begun = Instant::now();
        let early = scene.look_up_waiting([1]).await;
        advance(LONGEST_WAIT / 2).await;
        let late = scene
            .look_up_waiting((1..).take(WAITING_LOOK_UPS - 1))
            .await;
        let refused = error(scene.look_up(2)).await;
        assert!(matches!(refused, StoreError::Busy), "{refused:?}");
        assert!(begun.elapsed() < LONGEST_WAIT);
        for (asked, times) in [(early, 2), (late, 3)] {
            for asked in asked {
                let refused = error(asked).await;
                assert!(matches!(refused, StoreError::Busy), "{refused:?}");
            }
            let waited = begun.elapsed();
            let end = LONGEST_WAIT * times / 2;
            assert!(
                waited >= end && waited < end + LONGEST_WAIT / 2,
                "{waited:?}"
            );
        }
        // Refused look-ups leave their places to others.
        let last = scene.look_up_waiting([2]).await.remove(0);
        drop(turn);
        scene.statement(&[2]).await.succeed();
        assert_eq!(found(last).await, Some(20));
    }
}
