//! The erasure of the name of a client.

use shortener_app::store::management::STEPS;

use super::*;
use crate::support::Blocker;

/// Returns the tables and columns that hold a text somewhere in a row.
async fn places(connection: &mut PgConnection, text: &str) -> Vec<String> {
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables)
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    let mut found = Vec::new();
    for table in tables {
        let count = format!("SELECT count(*) FROM {table} AS line WHERE line::text LIKE $1");
        let count = sqlx::query_scalar(sqlx::AssertSqlSafe(count)).bind(format!("%{text}%"));
        let count: i64 = count.fetch_one(&mut *connection).await.unwrap();
        if count > 0 {
            found.push(table);
        }
    }
    found
}

/// Rows with the name `jane` in every column for it, and with names that only begin like it.
const JANE: &str = "INSERT INTO links (code, url, created_by) \
        SELECT 'j' || n, 'https://a.example/', 'jane' FROM generate_series(1, 1500) n; \
    INSERT INTO links (code, created_by, disabled_at, disabled_as, disabled_by) \
        VALUES ('d1', 'mail', now(), 'deleted', 'jane'), ('d2', 'jan', now(), 'deleted', 'janet'); \
    INSERT INTO audit_log (actor, action, subject, detail) VALUES ('jane', 'link_enabled', 'j1', NULL), \
        ('desk', 'link_transferred', 'j1', '{\"from\": \"mail\", \"to\": \"jane\"}'), \
        ('desk', 'link_transferred', 'j2', '{\"from\": \"jane\", \"to\": \"mail\"}'); \
    INSERT INTO jobs (message_id, task, origin, state) VALUES (gen_random_uuid(), '', 'key:jane', 'running'), \
        (gen_random_uuid(), '', 'key:janet', 'running'); \
    INSERT INTO documents (id, origin) VALUES (1, 'key:jane'); \
    INSERT INTO link_keys (key, body_sha256) VALUES ('jane 1', ''), ('janet 1', ''); \
    INSERT INTO job_keys (key, body_sha256, message_id) VALUES ('jane 2', '', gen_random_uuid())";

#[tokio::test]
async fn a_name_is_erased_everywhere_and_one_pseudonym_takes_its_place() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    connection.execute(JANE).await.unwrap();
    let erase = async |client: &str| {
        let body = json!({"client": client, "reason": "asked for it"});
        world.send("boss", "POST", "/erase", Some(body)).await
    };
    erase("shop").await.problem(409, "client-has-key");
    for system in ["shortlink/team/sale", "pod/app-1", "erased/1"] {
        erase(system).await.problem(400, "invalid-fields");
    }
    let body = Some(json!({"client": "jane"}));
    let refused = world.send("desk", "POST", "/erase", body).await;
    refused.problem(403, "forbidden");

    let first = erase("jane").await.json();
    assert_eq!(first, json!({"erased": 1000, "remaining": true}));
    let second = erase("jane").await.json();
    assert_eq!(second, json!({"erased": 508, "remaining": false}));
    assert_eq!(
        erase("jane").await.json(),
        json!({"erased": 0, "remaining": false})
    );

    let pseudonyms = "SELECT DISTINCT created_by FROM links WHERE created_by LIKE 'erased/%'";
    let pseudonym: String = sqlx::query_scalar(pseudonyms)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let tables = [
        "audit_log",
        "documents",
        "job_keys",
        "jobs",
        "link_keys",
        "links",
    ];
    assert_eq!(places(&mut connection, &pseudonym).await, tables);
    // What is left of the letters are other names.
    connection
        .execute(
            "UPDATE links SET disabled_by = NULL; DELETE FROM jobs WHERE origin = 'key:janet'; \
            DELETE FROM link_keys WHERE key = 'janet 1'",
        )
        .await
        .unwrap();
    assert_eq!(places(&mut connection, "jane").await, [""; 0]);
    assert_eq!(places(&mut connection, "jan").await, ["links"]);
    let written = entries(&world, "action=client_erased").await;
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(
        (&written[0]["by"], &written[0]["subject"]),
        (&json!("boss"), &Value::Null)
    );
    assert_eq!(written[0]["detail"], json!({"pseudonym": pseudonym}));
}

#[tokio::test]
async fn two_erasures_that_cross_wait_for_each_other() {
    let database = TestDatabase::new().await;
    let world = World::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    // Each of them has links that the other one has disabled.
    let links = "INSERT INTO links (code, disabled_url, disabled_at, disabled_as, created_by, disabled_by) \
        SELECT 'a' || n, 'https://example.com/', now(), 'gone', 'ann', 'bob' FROM generate_series(1, 400) n \
        UNION ALL \
        SELECT 'b' || n, 'https://example.com/', now(), 'gone', 'bob', 'ann' FROM generate_series(1, 400) n";
    connection.execute(links).await.unwrap();
    let erase = async |client: &str| {
        let body = json!({"client": client, "reason": "asked for it"});
        world
            .send("boss", "POST", "/erase", Some(body))
            .await
            .json()
    };
    // Ann's erasure waits for its first link. Bob's takes all of its own, and would then wait for the same link, while Ann's
    // would wait for them.
    let mut blocker = Blocker::hold_link(&database).await;
    let bob = async {
        blocker.wait_for_blocked(1).await;
        let release = async {
            blocker.wait_for_blocked(2).await;
            blocker.release().await;
        };
        tokio::join!(erase("bob"), release).0
    };
    let all = json!({"erased": 800, "remaining": false});
    assert_eq!(tokio::join!(erase("ann"), bob), (all.clone(), all));
}

#[tokio::test]
async fn every_column_for_a_name_of_a_client_is_erased() {
    let database = TestDatabase::new().await;
    let _app = App::start(&database).await;
    let mut connection = database.connect().await.unwrap();
    let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns \
        WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations' \
        AND data_type IN ('text', 'json') ORDER BY 1";
    let columns: Vec<String> = sqlx::query_scalar(columns)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let without = [
        "audit_log.action",
        "audit_log.reason",
        "audit_log.subject",
        "clicks.code",
        "documents.payload",
        "erasures.client",
        "erasures.pseudonym",
        "jobs.client_id",
        "jobs.error",
        "jobs.payload",
        "jobs.state",
        "jobs.task",
        "link_keys.code",
        "link_labels.code",
        "link_labels.note",
        "link_labels.title",
        "link_owners.code",
        "link_owners.name",
        "link_owners.namespace",
        "link_owners.uid",
        "link_tags.code",
        "link_tags.tag",
        "link_title_words.code",
        "link_title_words.word",
        "links.code",
        "links.disabled_as",
        "links.disabled_url",
        "links.host",
        "links.notice",
        "links.reason",
        "links.url",
        "vector_target.target",
        "webhook_deliveries.code",
        "webhook_deliveries.event",
        "webhook_deliveries.last_error",
        "webhook_deliveries.receiver",
        "webhook_receivers.expired_code",
        "webhook_receivers.name",
        "webhook_receivers.url",
    ];
    for column in columns {
        let (table, name) = column.split_once('.').unwrap();
        let step = format!("UPDATE {table} SET {name} = ");
        let is_erased = STEPS.iter().any(|erased| erased.starts_with(&step));
        let has_none = without.contains(&column.as_str());
        assert!(is_erased != has_none, "{column}");
    }
}

#[tokio::test]
async fn an_erasure_reads_indexes_only() {
    let database = TestDatabase::new().await;
    let _app = App::start(&database).await;
    let mut connection = fill(&database).await;
    let off = "SET LOCAL enable_sort = on; SET LOCAL enable_bitmapscan = on; SET LOCAL enable_seqscan = off";
    connection.execute(off).await.unwrap();
    let indexes = [
        "links_by_creator",
        "links_by_disabler",
        "audit_log_by_actor",
        "audit_log_by_transfer",
        "jobs_by_client",
        "documents_by_client",
        "link_keys_pkey",
        "job_keys_pkey",
    ];
    for (number, (step, index)) in STEPS.iter().zip(indexes).enumerate() {
        let prepare = format!("PREPARE step{number} (text, text) AS {step}");
        connection
            .execute(sqlx::AssertSqlSafe(prepare))
            .await
            .unwrap();
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let set = format!("SET plan_cache_mode = {mode}");
            connection.execute(sqlx::AssertSqlSafe(set)).await.unwrap();
            let explain = format!("EXPLAIN EXECUTE step{number} ('jane', 'erased/1')");
            let plan = sqlx::query_scalar(sqlx::AssertSqlSafe(explain)).persistent(false);
            let plan: Vec<String> = plan.fetch_all(&mut connection).await.unwrap();
            let plan = plan.join("\n");
            assert!(
                plan.contains(index) && !plan.contains("Seq Scan"),
                "{index}\n{plan}"
            );
        }
    }
}
