//! The OpenAPI document of the public port: one file, with the address, the hosts and the size of vectors of this service.

use axum::{
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header::CONTENT_TYPE};

use crate::{config::ServeArgs, state::AppState};

const DOCUMENT: &str = include_str!("../../openapi.json");

/// Returns the OpenAPI 3.1 description of this API.
pub async fn openapi(State(state): State<AppState>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], state.openapi.clone()).into_response()
}

/// Returns the document of a service with these settings. A URL has no character that JSON writes in another way.
pub fn document(config: &ServeArgs) -> Bytes {
    let address = config.public_url.as_str().trim_end_matches('/');
    let size = config.vector.vector_size;
    let hosts = config.hosts();
    let hosts: String = hosts.iter().map(|host| format!("\"{host}\", ")).collect();
    DOCUMENT
        .replace("http://localhost:8080", address)
        .replace("\"localhost\", ", &hosts)
        .replace("\"minItems\": 4,", &format!("\"minItems\": {size},"))
        .replace("\"maxItems\": 4,", &format!("\"maxItems\": {size},"))
        .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use serde::{
        Deserialize, Deserializer,
        de::{Error, Visitor, value},
        forward_to_deserialize_any,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        config::{Cli, Command},
        route::{CONSOLE, ROUTES, Route},
        router,
        routes::{
            admin::{
                clients::bodies::{EraseRequest, TransferRequest},
                dead_letters::bodies::SweepRequest,
                links::bodies::{DisableRequest, LinksRequest, ReasonRequest},
                webhooks::bodies::RetryRequest,
            },
            docs::bodies::{DocumentRequest, QueryRequest},
            shorten::ShortenRequest,
        },
        store::management::PortableLink,
    };

    fn config(flags: &[&str]) -> ServeArgs {
        let arguments = ["app", "serve", "--database-url=postgres://db/x"];
        let arguments = arguments.iter().chain(flags);
        let Command::Serve(config) = Cli::parse_from(arguments).command else {
            unreachable!()
        };
        *config
    }

    fn described() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn names(object: &Value) -> BTreeSet<&str> {
        let object = object.as_object().unwrap();
        object.keys().map(String::as_str).collect()
    }

    /// Reads no value, but the names of the fields of a struct.
    struct Fields<'a>(&'a mut BTreeSet<&'static str>);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            self.deserialize_any(visitor)
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Self::Error::custom("no value"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields_of<T: for<'de> Deserialize<'de>>() -> BTreeSet<&'static str> {
        let mut fields = BTreeSet::new();
        assert!(T::deserialize(Fields(&mut fields)).is_err());
        fields
    }

    #[test]
    fn every_row_of_the_table_has_a_handler_and_a_description() {
        let rows: BTreeSet<&str> = ROUTES[1..].iter().map(|row| row.template).collect();
        let document = described();
        let described: BTreeSet<&str> = names(&document["paths"])
            .into_iter()
            .chain(CONSOLE)
            .collect();
        assert_eq!(described, rows);
        let handlers = router::handlers().into_iter().map(|(template, _)| template);
        // A redirect passes on the preview, and what follows links also follows those with arguments.
        let others = ["/{code}+", "/{code}/{arguments}"];
        let handlers: BTreeSet<&str> = handlers.chain(others).collect();
        assert_eq!(handlers, rows);
    }

    #[test]
    fn a_request_body_has_the_fields_that_are_read() {
        let document = described();
        for (name, read) in [
            ("ShortenRequest", fields_of::<ShortenRequest>()),
            ("DocumentRequest", fields_of::<DocumentRequest>()),
            ("QueryRequest", fields_of::<QueryRequest>()),
            ("LinksRequest", fields_of::<LinksRequest>()),
            ("DisableRequest", fields_of::<DisableRequest>()),
            ("ReasonRequest", fields_of::<ReasonRequest>()),
            ("TransferRequest", fields_of::<TransferRequest>()),
            ("EraseRequest", fields_of::<EraseRequest>()),
            ("RetryRequest", fields_of::<RetryRequest>()),
            ("SweepRequest", fields_of::<SweepRequest>()),
            ("PortableLink", fields_of::<PortableLink>()),
        ] {
            let schema = &document["components"]["schemas"][name];
            assert_eq!(names(&schema["properties"]), read, "{name}");
        }
    }

    #[test]
    fn an_operation_takes_a_key_where_its_route_has_a_scope() {
        let document = described();
        let keys = [json!({"bearer": []}), json!({"key": []})];
        for (template, item) in document["paths"].as_object().unwrap() {
            let expected = match Route::from_template(Some(template)).row().scope {
                None => Value::Null,
                Some(scope) if scope.is_management() => json!(keys),
                Some(_) => json!([{}, keys[0], keys[1]]),
            };
            for operation in item.as_object().unwrap().values() {
                assert_eq!(operation["security"], expected, "{template}");
                for status in ["401", "403"] {
                    let answer = operation["responses"].get(status);
                    assert_eq!(answer.is_some(), !expected.is_null(), "{template}");
                }
            }
        }
    }

    #[test]
    fn the_settings_change_the_address_the_hosts_and_the_size_of_vectors() {
        assert_eq!(document(&config(&[])), DOCUMENT);
        let flags = [
            "--vector-size=7",
            "--public-url=https://go.example.com/",
            "--gateway-hosts=b.test,go.example.com",
        ];
        let text = document(&config(&flags));
        let document: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["servers"][0]["url"], "https://go.example.com");
        assert!(!document.to_string().contains("localhost"));
        let host = "/components/schemas/ShortenRequest/properties/host/enum";
        assert_eq!(
            document.pointer(host),
            Some(&json!(["go.example.com", "b.test", null]))
        );
        let vector = &document["components"]["schemas"]["Vector"];
        for bound in ["minItems", "maxItems"] {
            assert_eq!(vector[bound], 7);
        }
    }

    #[test]
    fn the_version_is_that_of_the_release() {
        assert_eq!(described()["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
