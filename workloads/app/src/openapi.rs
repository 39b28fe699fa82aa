//! The OpenAPI document of the public port.
//!
//! In: what the handlers say about their routes, and the settings. Out: a document that promises what this service
//! takes and answers, with everything that applies to a request beside its handler: keys, limits, problems and pages.
//! No operation stands for a preflight, because browsers send those by themselves.

mod answers;
mod bodies;

use serde_json::{Value, json};
use utoipa::{PartialSchema, openapi::OpenApi};

use self::answers::Terms;
use crate::{
    auth::X_API_KEY,
    config::ServeArgs,
    error::{FieldError, Problem},
    route::Route,
    routes::jobs::{IDEMPOTENCY_KEY, MAX_KEY},
    scope::Scope,
};

/// Returns the document of a service with these settings.
#[must_use]
pub fn complete(routes: OpenApi, config: &ServeArgs) -> Value {
    let mut document = serde_json::to_value(routes).unwrap_or_default();
    let base = config.public_url.as_str().trim_end_matches('/');
    document["servers"] = json!([{ "url": base }]);
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "bearer": {"type": "http", "scheme": "bearer", "description": "A key of a client"},
        "key": {"type": "apiKey", "in": "header", "name": X_API_KEY.as_str(), "description": "A key of a client"},
    });
    components["headers"] = answers::fields();
    let schemas = &mut components["schemas"];
    schemas["Problem"] = json!(Problem::schema());
    schemas["FieldError"] = json!(FieldError::schema());
    bodies::complete(schemas, config);
    for (template, item) in members(&mut document["paths"]) {
        let row = Route::from_template(Some(template.as_str())).row();
        let terms = Terms::of(row, config);
        for (_, operation) in members(item) {
            operation["security"] = security(&terms);
            parameters(operation);
            answers::complete(&mut operation["responses"], &terms);
        }
    }
    document
}

/// Returns the members of an object; none of any other value.
fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// Returns the keys that an operation needs. Where it needs none, a key still counts: it has limits of its own.
fn security(terms: &Terms) -> Value {
    match terms.row.scope {
        Some(_) if terms.needs_key => json!([{"bearer": []}, {"key": []}]),
        Some(_) if terms.has_keys => json!([{}, {"bearer": []}, {"key": []}]),
        _ => json!([]),
    }
}

/// Completes the parameters of an operation. The types of optional ones have `null`, which no request can say.
fn parameters(operation: &mut Value) {
    let all = operation.get_mut("parameters");
    for parameter in all.and_then(Value::as_array_mut).into_iter().flatten() {
        let types = parameter.pointer_mut("/schema/type");
        if let Some(types) = types.and_then(Value::as_array_mut) {
            types.retain(|kind| kind.as_str() != Some("null"));
        }
        let name = parameter["name"].as_str().unwrap_or_default();
        if name.eq_ignore_ascii_case(IDEMPOTENCY_KEY.as_str()) {
            let key = format!("[!#-~]{{1,{MAX_KEY}}}");
            parameter["schema"]["pattern"] = format!("^(\"{key}\"|{key})$").into();
        }
    }
}

/// Returns true if this service can refuse a request to a route with this scope for want of a key.
fn needs_key(scope: Option<Scope>, config: &ServeArgs) -> bool {
    scope.is_some_and(|scope| {
        scope == Scope::Admin || has_keys(config) && config.auth.auth_protect.contains(scope)
    })
}

fn has_keys(config: &ServeArgs) -> bool {
    !config.auth.auth_keys_directory.is_empty()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        config::{Cli, Command},
        router,
        store::management::LinkState,
    };

    const KEYS: &str = "--auth-keys-directory=/etc/shortener/keys";

    fn document(flags: &[&str]) -> Value {
        let arguments = ["app", "serve", "--database-url=postgres://db/x"];
        let arguments = arguments.iter().chain(flags);
        let Command::Serve(config) = Cli::parse_from(arguments).command else {
            unreachable!()
        };
        complete(router::openapi(), &config)
    }

    fn statuses(operation: &Value) -> Vec<&str> {
        let responses = operation["responses"].as_object().unwrap();
        responses.keys().map(String::as_str).collect()
    }

    /// Returns the responses of all operations, with the path and the status of each.
    fn responses(document: &Value) -> Vec<(&str, &str, &Value)> {
        let mut found = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                let responses = operation["responses"].as_object().unwrap();
                let responses = responses.iter();
                found.extend(responses.map(|(status, one)| (path.as_str(), status.as_str(), one)));
            }
        }
        found
    }

    #[test]
    fn the_document_is_openapi_3_1_and_every_reference_leads_to_something() {
        let document = document(&[]);
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let text = document.to_string();
        let places = text.split("\"$ref\":\"#").skip(1);
        let places: Vec<&str> = places.map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(places.len() > 100, "{}", places.len());
        for place in places {
            assert!(document.pointer(place).is_some(), "{place}");
        }
    }

    #[test]
    fn every_error_is_a_problem_that_no_cache_keeps() {
        for (path, status, response) in responses(&document(&[])) {
            let is_error = status >= "400";
            let problem = &response["content"]["application/problem+json"];
            assert_eq!(problem.is_object(), is_error, "{path} {status}");
            let field = &response["headers"]["Cache-Control"];
            assert!(!is_error || field.is_object(), "{path} {status}");
            assert!(response["description"].is_string(), "{path} {status}");
        }
    }

    #[test]
    fn every_operation_can_answer_what_stands_before_its_handler() {
        let document = document(&[]);
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let found = statuses(operation);
                for status in ["414", "429", "431", "500", "503"] {
                    assert!(found.contains(&status), "{status}: {operation}");
                }
            }
        }
    }

    #[test]
    fn pages_stand_beside_problems_where_people_are() {
        let document = document(&[]);
        for (path, status, response) in responses(&document) {
            let is_page = response["content"]["text/html; charset=utf-8"].is_object();
            let is_for_people = ["/", "/{code}", "/{code}+"].contains(&path);
            let has_page = ["404", "410", "429", "451", "503"].contains(&status)
                || (path, status) == ("/{code}+", "200");
            assert_eq!(is_page, is_for_people && has_page, "{path} {status}");
        }
    }

    #[test]
    fn keys_are_needed_where_the_settings_say_so() {
        let needed = json!([{"bearer": []}, {"key": []}]);
        let with_keys = document(&[KEYS, "--auth-protect=docs"]);
        let without = document(&[]);
        let operation =
            |document: &Value, path: &str, method: &str| document["paths"][path][method].clone();
        for document in [&with_keys, &without] {
            let list = operation(document, "/api/admin/links", "get");
            assert_eq!(list["security"], needed);
            assert!(statuses(&list).contains(&"401"));
            assert_eq!(operation(document, "/{code}", "get")["security"], json!([]));
        }
        let put = operation(&with_keys, "/docs/{id}", "put");
        assert_eq!(put["security"], needed);
        assert!(statuses(&put).contains(&"403"));
        let shorten = operation(&with_keys, "/shorten", "post");
        assert_eq!(shorten["security"][0], json!({}));
        assert!(!statuses(&shorten).contains(&"401"));
        let put = operation(&without, "/docs/{id}", "put");
        assert_eq!(put["security"], json!([]));
        assert!(!statuses(&put).contains(&"401"));
        // A task that is not public needs a key, and without keys there is none.
        let jobs = |document| operation(document, "/jobs", "post");
        assert!(statuses(&jobs(&with_keys)).contains(&"401"));
        assert!(!statuses(&jobs(&without)).contains(&"401"));
        assert!(statuses(&jobs(&without)).contains(&"403"));
    }

    #[test]
    fn the_limit_is_told_wherever_it_may_be() {
        for (path, status, response) in responses(&document(&[])) {
            let told = response["headers"]["RateLimit"].is_object();
            let expected = path != "/metrics" && !status.starts_with('3');
            assert_eq!(told, expected, "{path} {status}");
        }
    }

    #[test]
    fn the_length_of_vectors_is_that_of_the_settings() {
        let document = document(&["--vector-size=7", "--public-url=https://go.example.com/"]);
        assert_eq!(document["servers"][0]["url"], "https://go.example.com");
        for body in ["DocumentRequest", "QueryRequest"] {
            let vector = &document["components"]["schemas"][body]["properties"]["vector"];
            assert_eq!(
                (&vector["minItems"], &vector["maxItems"]),
                (&json!(7), &json!(7))
            );
            assert_eq!(vector["items"]["type"], "number", "{vector}");
        }
    }

    #[test]
    fn the_states_of_a_list_are_those_of_links() {
        let document = document(&[]);
        let parameters = &document["paths"]["/api/admin/links"]["get"]["parameters"];
        let parameters = parameters.as_array().unwrap();
        let state = parameters
            .iter()
            .find(|one| one["name"] == "state")
            .unwrap();
        let words = LinkState::ALL.map(LinkState::as_str).join("|");
        assert_eq!(state["schema"]["pattern"], format!("^({words})$"));
        assert!(!state["schema"].to_string().contains("null"), "{state}");
    }
}
