//! The management port: links that belong to ShortLinks.

mod cache;
mod ownership;
mod requests;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use shortener_testing::database::TestDatabase;
use sqlx::{ConnectOptions, Executor, PgConnection, postgres::PgConnectOptions};

use crate::{
    client::{Response, json_bytes, send},
    management::Keys,
    support::App,
};

const KEY: &str = "5d0c7e9a1b2f48c6a3e4d5f60718293a";
const URL: &str = "https://example.com/sale";

/// Starts an app with the management port, and with the API of management.
async fn start(database: &PgConnectOptions) -> (App, Keys) {
    let keys = Keys::new();
    let app = App::start_with(database, |config| {
        keys.configure(config);
        config.management.management_key = Some(KEY.to_owned());
    })
    .await;
    (app, keys)
}

/// Sends a request to the management port.
async fn ask(app: &App, path: &str, body: &Value) -> Response {
    let headers = format!("authorization: Bearer {KEY}\r\n");
    let body = body.to_string();
    let request = json_bytes("POST", path, &headers, body.as_bytes());
    send(app.management.unwrap(), request).await
}

/// Returns the link that the ShortLink `team/<name>` with this identity asks for.
fn wish(code: &str, uid: &str, name: &str) -> Value {
    json!({
        "code": code, "url": URL, "title": null, "tags": [], "enabled": true, "expires_at": null, "adopt": "Never",
        "owner": {"uid": uid, "namespace": "team", "name": name},
    })
}

/// Returns a wish with other fields.
fn with(mut wish: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        wish[name] = value.clone();
    }
    wish
}

/// Applies links, and returns the results.
async fn apply(app: &App, wishes: &[Value]) -> Vec<Value> {
    let applied = ask(app, "/links/apply", &json!({"links": wishes})).await;
    assert_eq!(applied.status, 200, "{applied:?}");
    let results = applied.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), wishes.len());
    results
}

/// Applies one link, and returns the word for the result.
async fn apply_one(app: &App, wish: Value) -> String {
    let results = apply(app, &[wish]).await;
    results[0]["result"].as_str().unwrap().to_owned()
}

/// Releases a link, and returns the word for the result.
async fn release(app: &App, code: &str, uid: &str, policy: &str) -> String {
    let links = json!({"links": [{"code": code, "uid": uid, "policy": policy}]});
    let released = ask(app, "/links/release", &links).await;
    assert_eq!(released.status, 200, "{released:?}");
    let result = released.json()["results"][0].clone();
    assert_eq!(result["code"], code);
    result["result"].as_str().unwrap().to_owned()
}

/// Returns a time in some days, as the API writes it.
fn later() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now + 1000.hours()).to_string()
}

async fn execute(database: &PgConnectOptions, statement: &'static str) {
    let mut connection: PgConnection = database.connect().await.unwrap();
    connection.execute(statement).await.unwrap();
}

/// A database and an app on it.
async fn world() -> (TestDatabase, App, Keys) {
    let database = TestDatabase::new().await;
    let (app, keys) = start(&database).await;
    (database, app, keys)
}
