//! The search for links in the list of management.

use serde_json::json;
use shortener_app::store::management::{Filter, IN_ORDER, LinkState, Listing, Order, Position};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection, QueryBuilder, Row, postgres::PgConnectOptions};

use crate::{
    client::shorten,
    management::{manage, managed, pages},
    support::App,
};

/// Queries, and the pages of links that they find.
const FOUND: [(&str, &str); 26] = [
    ("", "ab1 ab2 b1 AB3 desk1"),
    ("order=oldest&limit=3", "ab1 ab2 b1 | AB3 desk1"),
    ("order=newest&limit=3", "desk1 AB3 b1 | ab2 ab1"),
    ("code=ab", "ab1 ab2"),
    ("code=a&order=newest&limit=1", "ab2 | ab1"),
    ("code=ab1&limit=1", "ab1"),
    ("code=ab11", ""),
    ("tag=SHOP", "ab1 ab2"),
    ("tag=spring&order=newest&limit=1", "b1 | ab1"),
    ("tag=none", ""),
    ("title=SALE", "ab1 ab2"),
    ("title=sale+spring", "ab1 ab2"),
    ("title=of-sale", "ab2"),
    ("title=gr%C3%96%C3%9Fe", "AB3"),
    ("title=spri", ""),
    ("created_by=desk", "desk1"),
    ("host=a.example", "ab1 b1 AB3"),
    ("host=a.example&order=newest&limit=2", "AB3 b1 | ab1"),
    ("state=live", "ab1 ab2 AB3 desk1"),
    ("state=disabled", "b1"),
    ("state=disabled&tag=spring", "b1"),
    (
        "code=ab&tag=shop&title=sale&host=a.example&state=live",
        "ab1",
    ),
    ("tag=spring&title=sale", "ab1"),
    ("title=spring&host=b.example", "ab2"),
    ("created_by=desk&host=a.example", ""),
    ("created_by=desk&code=desk", "desk1"),
];

#[tokio::test]
async fn links_are_found_by_everything_that_they_have_in_common() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    for (code, url, title, tags) in [
        (
            "ab1",
            "https://a.example/",
            "Spring sale",
            json!(["shop", "spring"]),
        ),
        (
            "ab2",
            "https://b.example/",
            "A sale in spring, of springs",
            json!(["Shop"]),
        ),
        ("b1", "https://a.example/", "Sales", json!(["spring"])),
        ("AB3", "https://a.example/", "Größe 42", json!([])),
    ] {
        let link = json!({"url": url, "code": code, "title": title, "tags": tags});
        shorten(app.public, link).await;
    }
    let link =
        json!({"links": [{"url": "https://c.example/", "code": "desk1", "title": "spring"}]});
    manage(&app, "POST", "", Some(link)).await;
    manage(&app, "POST", "/b1/disable", Some(json!({"reason": "spam"}))).await;
    for (query, listed) in FOUND {
        assert_eq!(pages(&app, query).await, listed, "{query}");
    }
    manage(&app, "DELETE", "/ab1", None).await;
    manage(&app, "DELETE", "/desk1", None).await;
    for (query, listed) in [
        ("tag=shop", "ab2"),
        ("title=spring", "ab2"),
        ("state=deleted", "ab1 desk1"),
        ("state=deleted&order=newest&limit=1", "desk1 | ab1"),
        ("state=deleted&created_by=desk", "desk1"),
        ("state=deleted&code=ab", "ab1"),
    ] {
        assert_eq!(pages(&app, query).await, listed, "{query}");
    }
}

#[tokio::test]
async fn what_matches_rarely_is_found_page_by_page_in_both_orders() {
    let database = TestDatabase::new().await;
    let (app, _keys) = managed(&database).await;
    let mut connection = database.connect().await.unwrap();
    let links = "INSERT INTO links (code, url, host, created_at) SELECT 'x' || lpad(n::text, 5, '0'), 'https://a.example/', \
            CASE n WHEN 1 THEN 'rare.example' WHEN 2500 THEN 'rare.example' ELSE 'a.example' END, \
            now() - interval '1 hour' + n * interval '1 ms' FROM generate_series(1, 2500) n; \
        INSERT INTO link_tags SELECT 'all', created_at, code FROM links; \
        INSERT INTO link_title_words SELECT word, created_at, code FROM links, unnest('{every,one}'::text[]) word";
    connection.execute(links).await.unwrap();
    let (first, last) = ("x00001", "x02500");
    for search in [
        "code=x",
        "tag=all",
        "title=every",
        "title=every+one",
        "tag=all&title=one",
    ] {
        let query = format!("{search}&host=rare.example");
        let forward = format!("{first} |  | {last}");
        assert_eq!(pages(&app, &query).await, forward, "{query}");
    }
    let newest = "tag=all&host=rare.example&order=newest";
    assert_eq!(pages(&app, newest).await, format!("{last} |  | {first}"));
    let live = pages(&app, "state=live").await;
    let codes = live.split_whitespace().filter(|code| *code != "|");
    assert_eq!(codes.count(), 2500);
}

/// Fills the tables with so many links that the planner chooses between indexes. Returns a connection with the settings of
/// lists.
async fn fill(database: &PgConnectOptions) -> PgConnection {
    let mut connection = database.connect().await.unwrap();
    let rows = "INSERT INTO links (code, url, host, created_by, created_at, disabled_at, disabled_as) \
            SELECT 'c' || n, 'https://example.com/', 'h' || n % 40 || '.example', 'by' || n % 20, \
            now() - interval '1 day' + n * interval '1 ms', CASE WHEN n % 50 < 2 THEN now() - n * interval '1 s' END, \
            CASE n % 50 WHEN 0 THEN 'gone' WHEN 1 THEN 'deleted' END FROM generate_series(1, 120000) n; \
        INSERT INTO link_labels SELECT code, 'Title', NULL FROM links; \
        INSERT INTO link_tags SELECT 't' || right(code, 1), created_at, code FROM links; \
        INSERT INTO link_title_words SELECT 'w' || right(code, 1), created_at, code FROM links; \
        ANALYZE links, link_labels, link_tags, link_title_words";
    connection.execute(rows).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    connection.execute(IN_ORDER).await.unwrap();
    connection
}

/// Returns a filter for each index, with the index and its table.
fn filters() -> Vec<(Filter, &'static str, &'static str)> {
    let text = |text: &str| Some(text.to_owned());
    let none = Filter::default;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let of_state = |state| Filter {
        state: Some(state),
        ..none()
    };
    let (code, tag) = (text("c1"), text("t3"));
    let (by, host) = (text("by7"), text("h9.example"));
    let own = by.clone();
    vec![
        (Filter { own, ..none() }, "links_by_creator", "links"),
        (Filter { code, ..none() }, "links_pkey", "links"),
        (Filter { tag, ..none() }, "link_tags_pkey", "link_tags"),
        (
            Filter {
                words: words(&["w3"]),
                ..none()
            },
            "link_title_words_pkey",
            "link_title_words",
        ),
        (
            Filter {
                words: words(&["v", "w3"]),
                ..none()
            },
            "link_title_words_pkey",
            "link_title_words",
        ),
        (
            Filter {
                created_by: by,
                ..none()
            },
            "links_by_creator",
            "links",
        ),
        (Filter { host, ..none() }, "links_by_host", "links"),
        (of_state(LinkState::Disabled), "links_down", "links"),
        (of_state(LinkState::Deleted), "links_deleted", "links"),
        (of_state(LinkState::Live), "links_by_creation", "links"),
        (none(), "links_by_creation", "links"),
    ]
}

/// Returns a filter with all others beside it that do not take precedence over its own.
fn narrowed(filter: &Filter) -> Filter {
    let text = |text: &str| Some(text.to_owned());
    let mut full = filter.clone();
    let precedence = [
        filter.own.is_some(),
        filter.code.is_some(),
        filter.tag.is_some(),
        !filter.words.is_empty(),
        filter.created_by.is_some(),
        filter.host.is_some(),
    ];
    match precedence.iter().position(|is_given| *is_given) {
        Some(first) => {
            full.code = full.code.or(text("c1").filter(|_| first < 1));
            full.tag = full.tag.or(text("t3").filter(|_| first < 2));
            if first < 3 {
                full.words = vec!["v".to_owned(), "w3".to_owned()];
            }
            full.created_by = full.created_by.or(text("by9").filter(|_| first < 4));
            full.host = full.host.or(text("h9.example").filter(|_| first < 5));
            full.state = Some(LinkState::Disabled);
        }
        None => full.state = full.state.or(Some(LinkState::Expired)),
    }
    full
}

/// Returns the plans of the statements for a page: with their parameters, and for any parameters.
async fn plans(connection: &mut PgConnection, listing: &Listing) -> String {
    let last = Position::parse("99999999999999999.z");
    let mut plans = String::new();
    for explain in ["EXPLAIN ", "EXPLAIN (GENERIC_PLAN) "] {
        let mut queries = [0; 3].map(|_| QueryBuilder::new(explain));
        listing.select(&mut queries[0], None);
        listing.select(&mut queries[1], last.as_ref());
        listing.select_last(&mut queries[2]);
        for mut query in queries {
            let rows = match explain {
                "EXPLAIN " => query.build().fetch_all(&mut *connection).await,
                _ => sqlx::raw_sql(query.sql()).fetch_all(&mut *connection).await,
            };
            let rows = rows.unwrap();
            let lines: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
            plans += &format!("{}\n\n", lines.join("\n"));
        }
    }
    plans
}

#[tokio::test]
async fn every_search_reads_its_index_in_order_and_nothing_as_a_whole() {
    let database = TestDatabase::new().await;
    let _app = App::start(&database).await;
    let mut connection = fill(&database).await;
    for (filter, index, table) in filters() {
        let narrow = narrowed(&filter);
        for filter in [filter, narrow] {
            for order in Order::ALL {
                for after in [None, Position::parse("1795392000000000.c7")] {
                    let filter = filter.clone();
                    let listing = Listing {
                        filter,
                        order,
                        limit: 100,
                        after,
                    };
                    let plans = plans(&mut connection, &listing).await;
                    let used = plans
                        .matches(&format!("using {index} on {table} entry"))
                        .count();
                    assert_eq!(used, 6, "{listing:?}, {index}\n{plans}");
                    let of_all_links = "using link_tags_pkey on link_tags  (";
                    for bad in [
                        "Seq Scan",
                        "Sort Key: code",
                        "Sort Key: entry",
                        "Bitmap",
                        of_all_links,
                    ] {
                        assert!(!plans.contains(bad), "{listing:?}, {bad}\n{plans}");
                    }
                }
            }
        }
    }
}
