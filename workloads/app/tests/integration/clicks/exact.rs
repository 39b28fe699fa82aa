//! The numbers are exact: through outages, deletions, and the end of a replica.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use shortener_app::{
    clicks::{Batch, Counts, Entry, today},
    store::clicks::ClickWriter,
};
use shortener_common::time_limits::CLICKS_END;
use shortener_testing::{
    broker::until,
    database::TestDatabase,
    metrics::{value, wait_for},
    proxy::Path,
};
use sqlx::{ConnectOptions, Executor};
use uuid::Uuid;

use super::{BROWSER, URL, browse, counts, link, stored};
use crate::{
    cache::cache_is_up,
    cache_server::Redis,
    client::{Connection, shorten},
    management::{administer, managed},
    process::{addresses, migrated, serving, start},
    support::{App, Blocker, proxy_before},
};

fn batch(code: &str, people: u64) -> Batch {
    let entry = Entry {
        code: code.into(),
        day: today(),
        counts: Counts { people, bots: 0 },
    };
    Batch {
        id: Uuid::now_v7(),
        entries: vec![entry],
    }
}

#[tokio::test]
async fn clicks_during_an_outage_of_the_database_are_stored_once_afterwards() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (proxy, through) = proxy_before(&database).await;
    let cache_url = cache.url();
    let url = migrated(&through).await;
    let mut settings = serving(&url);
    settings.push(("CACHE_URL", &cache_url));
    let mut app = start(&["serve"], &settings);
    let (public, internal) = addresses(&mut app).await;
    wait_for(internal, "cache_up 1").await;
    shorten(public, json!({"url": URL, "code": "a"})).await;
    assert_eq!(browse(public, "/a").await, 302);
    until("the first click", async || {
        let found = stored(&database).await;
        (found == counts("a", 1, 0))
            .then_some(())
            .ok_or(format!("{found:?}"))
    })
    .await;
    // A batch is on its way when the database goes away, and its outcome stays unknown.
    let mut blocker = Blocker::hold(&database).await;
    for _ in 0..10 {
        assert_eq!(browse(public, "/a").await, 302);
    }
    blocker.wait_until_blocked().await;
    proxy.set(Path::Refused);
    blocker.release().await;
    for _ in 0..10 {
        assert_eq!(browse(public, "/a").await, 302);
    }
    for reason in ["the connection was cut", "a new one is refused"] {
        println!("{reason}: {}", app.event("clicks_not_stored").await);
    }
    assert_eq!(browse(public, "/a").await, 302);
    proxy.set(Path::Open);
    until("every click", async || {
        let found = stored(&database).await;
        (found == counts("a", 22, 0))
            .then_some(())
            .ok_or(format!("{found:?}"))
    })
    .await;
    let people = "clicks_stored_total{kind=\"people\"}";
    until("the metric", async || {
        let found = value(internal, people).await;
        (found == 22).then_some(()).ok_or(found.to_string())
    })
    .await;
    assert_eq!(
        value(internal, "clicks_lost_total{reason=\"full\"}").await,
        0
    );
    app.terminate().await;
    assert!(app.exit().await.success());
    assert_eq!(stored(&database).await, counts("a", 22, 0));
}

#[tokio::test]
async fn a_replica_that_ends_without_the_database_does_not_wait_for_it() {
    let database = TestDatabase::new().await;
    let cache = Redis::start().await;
    let (proxy, through) = proxy_before(&database).await;
    let app = App::start_with(&through, |config| cache.configure(config)).await;
    cache_is_up(&app).await;
    link(&app, "a").await;
    proxy.set(Path::Silent);
    assert_eq!(browse(app.public, "/a").await, 302);
    let start = Instant::now();
    assert!(app.stop().await.unwrap());
    let taken = start.elapsed();
    assert!(taken < CLICKS_END + Duration::from_secs(2), "{taken:?}");
    assert_eq!(stored(&database).await, []);
}

#[tokio::test]
async fn sigterm_stores_the_last_clicks() {
    let database = TestDatabase::new().await;
    let url = migrated(&database).await;
    let mut connection = database.connect().await.unwrap();
    let row = "INSERT INTO links (code, url) VALUES ('a', 'https://example.com/')";
    connection.execute(row).await.unwrap();
    let mut process = start(&["serve"], &serving(&url));
    let (public, _) = addresses(&mut process).await;
    process.terminate().await;
    process.event("draining").await;
    assert_eq!(browse(public, "/a").await, 302);
    assert!(process.exit().await.success());
    assert_eq!(stored(&database).await, counts("a", 1, 0));
}

#[tokio::test]
async fn a_batch_counts_once_however_often_it_arrives() {
    let database = TestDatabase::new().await;
    let app = App::start(&database).await;
    link(&app, "a").await;
    let batch = batch("a", 5);
    let writer = || ClickWriter::new((*database).clone());
    let [mut one, mut other] = [writer(), writer()];
    let (first, second) = tokio::join!(one.write(&batch), other.write(&batch));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    one.write(&batch).await.unwrap();
    assert_eq!(stored(&database).await, counts("a", 5, 0));
    one.write(&self::batch("none", 5)).await.unwrap();
    assert_eq!(stored(&database).await, counts("a", 5, 0));
}

#[tokio::test]
async fn a_deleted_link_has_no_clicks_even_if_some_were_on_their_way() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    for code in ["a", "b"] {
        link(&app, code).await;
    }
    let mut writer = ClickWriter::new((*database).clone());
    writer.write(&batch("a", 5)).await.unwrap();
    assert_eq!(browse(app.public, "/a").await, 302);
    let delete = administer(&app, "DELETE", "/api/admin/links/a", None).await;
    assert_eq!(delete.status, 204);
    assert_eq!(stored(&database).await, []);

    // This batch has found the link, and waits for the row of another one.
    writer.write(&batch("b", 1)).await.unwrap();
    let mut holder = database.connect().await.unwrap();
    let lock = "BEGIN; SELECT FROM clicks WHERE code = 'b' FOR UPDATE";
    holder.execute(lock).await.unwrap();
    let mut both = batch("b", 1);
    link(&app, "a0").await;
    both.entries.insert(0, batch("a0", 1).entries.remove(0));
    let mut observer = Blocker::of_nothing(&database).await;
    let work = async {
        let written = writer.write(&both).await;
        written.unwrap();
    };
    let deletion = async {
        observer.wait_for_blocked(1).await;
        let delete = async { administer(&app, "DELETE", "/api/admin/links/a0", None).await };
        let release = async {
            observer.wait_for_blocked(2).await;
            holder.execute("COMMIT").await.unwrap();
        };
        let (deleted, ()) = tokio::join!(delete, release);
        assert_eq!(deleted.status, 204);
    };
    tokio::join!(work, deletion);
    assert!(app.stop().await.unwrap());
    assert_eq!(stored(&database).await, counts("b", 2, 0));
}

#[tokio::test]
async fn the_numbers_agree_to_the_last_one_when_a_replica_ends_in_the_middle() {
    const REQUESTS: usize = 100_000;
    let database = TestDatabase::new().await;
    let first = App::start(&database).await;
    let second = App::start(&database).await;
    for code in ["a", "b", "c"] {
        link(&first, code).await;
    }
    let (ending, staying) = (first.public, second.public);
    let followed = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let followed = followed.clone();
            tokio::spawn(
                async move { follow(client, REQUESTS / 4, ending, staying, &followed).await },
            )
        })
        .collect();
    // A slow machine needs minutes, so no limit of time fits.
    while followed.load(Ordering::Relaxed) < REQUESTS / 2 {
        assert!(!clients.iter().all(|client| client.is_finished()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ended = first.stop();
    let mut redirects = [0; 3];
    for client in clients {
        for (sum, more) in redirects.iter_mut().zip(client.await.unwrap()) {
            *sum += more;
        }
    }
    assert!(ended.await.unwrap() && second.stop().await.unwrap());
    let expected = ["a", "b", "c"].into_iter().zip(redirects);
    let expected: Vec<_> = expected
        .map(|(code, people)| (code.to_owned(), people, 0))
        .collect();
    assert_eq!(stored(&database).await, expected);
    assert_eq!(redirects.iter().sum::<i64>(), REQUESTS as i64);
}

/// Follows the links in turn, by one replica until it ends and then by the other one. Returns the number of redirects,
/// and adds each to those of all clients.
async fn follow(
    client: usize,
    requests: usize,
    ending: SocketAddr,
    staying: SocketAddr,
    all: &AtomicUsize,
) -> [i64; 3] {
    let mut followed = [0; 3];
    let mut address = if client.is_multiple_of(2) {
        ending
    } else {
        staying
    };
    let mut connection = Connection::open(address).await;
    let mut sent = 0;
    while sent < requests {
        let link = (client + sent) % 3;
        let code = ["a", "b", "c"][link];
        let request = format!("GET /{code} HTTP/1.1\r\nhost: test\r\n{BROWSER}\r\n");
        let answer = match connection.write(request.as_bytes()).await {
            true => connection.response(true).await,
            false => None,
        };
        if let Some(answer) = &answer {
            assert_eq!(answer.status, 302, "{answer:?}");
            followed[link] += 1;
            sent += 1;
            all.fetch_add(1, Ordering::Relaxed);
        }
        if answer.is_none_or(|answer| answer.header("connection") == Some("close")) {
            address = staying;
            connection = Connection::open(address).await;
        }
    }
    followed
}
