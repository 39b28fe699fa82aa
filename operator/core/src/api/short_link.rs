//! The custom resource `ShortLink`: a link of a stack, with its fields, defaults and admission rules. It contains no
//! behaviour.

use std::collections::BTreeSet;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use super::{names, schema};

/// Finalizer of a ShortLink whose link the stack has.
pub const SHORT_LINK_FINALIZER: &str = "shortener.dev/short-link";

/// A link that a stack serves. The link belongs to its ShortLink, so the API of the stack refuses changes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    crates(kube = "::kube_derive", kube_core = "::kube_core"),
    group = "shortener.dev",
    version = "v1alpha1",
    kind = "ShortLink",
    plural = "shortlinks",
    shortname = "sl",
    namespaced,
    derive = "PartialEq",
    status = "ShortLinkStatus",
    doc = "A short link: a code that redirects to a destination, kept in the database of a ShortenerStack.",
    printcolumn(name = "Code", type_ = "string", json_path = ".spec.code"),
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.url"),
    printcolumn(name = "Short URL", type_ = "string", json_path = ".status.shortURL"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[expect(
    clippy::duplicated_attributes,
    reason = "columns may have the same type"
)]
#[serde(rename_all = "camelCase")]
pub struct ShortLinkSpec {
    /// The stack that serves the link.
    #[x_kube(validation = cannot_change("stackRef", "create a new ShortLink that names the other stack"))]
    pub stack_ref: StackRef,
    /// Code of the link: the path of its short URL. Upper and lower case differ.
    #[schemars(length(min = 1, max = 64), regex(pattern = names::CODE))]
    #[x_kube(validation = cannot_change("code", "create a new ShortLink with the other code"))]
    pub code: String,
    /// Destination of the link.
    #[schemars(length(max = 2048))]
    #[x_kube(
        validation = cannot_change("url", "a link is immutable, so create a new ShortLink with another code"),
        validation = Rule::new(r"self.matches('^https?://[^\\s\\\\]+$')").message(
            "url is not an http(s) address: write http:// or https:// and a host, without white space, such as https://www.example.com/welcome"
        )
    )]
    pub url: String,
    /// Title for people who manage links: one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 200),
        regex(pattern = r"^[^\x00-\x1f\x7f-\x9f\x{2028}\x{2029}]*$")
    )]
    pub title: Option<String>,
    /// Tags by which people find the link, in any case of letters, without commas.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(schema_with = "tags")]
    pub tags: BTreeSet<String>,
    /// Redirects when true. When false, the code is answered with 410.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Time (RFC 3339) at which the link expires, at most 5 years of 365 days from now. If unset, it never does. A time in
    /// the past ends the link at once, and the time of an expired link cannot change.
    // A text, because the API server admits times that do not parse here, such as one in the year 9999. The app refuses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub expires_at: Option<String>,
    #[serde(default, deserialize_with = "known_or_default")]
    pub adopt: Adopt,
    #[serde(default, deserialize_with = "known_or_default")]
    pub deletion_policy: LinkDeletionPolicy,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackRef {
    /// Name of the stack.
    #[schemars(length(min = 1, max = 40), regex(pattern = names::NAMESPACE))]
    pub name: String,
    /// Namespace of the stack, which must allow links from here with `links.allowedNamespaces`. If unset, the ShortLink's
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = names::NAMESPACE))]
    pub namespace: Option<String>,
}

/// Policy for a code that exists and belongs to no ShortLink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum Adopt {
    /// The link stays as it is, and the ShortLink does not become ready.
    #[default]
    Never,
    /// A link with the same destination becomes that of the ShortLink.
    IfSame,
}

/// Policy for the link when the ShortLink is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum LinkDeletionPolicy {
    /// The link is disabled: its code is answered with 410.
    #[default]
    Disable,
    /// The link is deleted. Its code is answered with 410 and never given out again.
    Delete,
    /// The link stays as it is, and the API of the stack can change it.
    Retain,
}

/// The observed state of a link, written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
// Until the operator has seen a link, `kubectl` and GitOps tools read a generation that no link has, and wait.
#[schemars(extend("default" = {"observedGeneration": -1}))]
#[serde(rename_all = "camelCase")]
pub struct ShortLinkStatus {
    /// The `metadata.generation` that this status describes; -1 until the operator has seen the ShortLink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the link, one entry per type: `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<Condition>")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Public URL of the link, while the stack has it.
    #[serde(default, rename = "shortURL", skip_serializing_if = "Option::is_none")]
    pub short_url: Option<String>,
}

impl ShortLinkSpec {
    /// Returns true if the expiry time is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        let end = self.expires_at.as_ref();
        let end = end.and_then(|end| end.parse::<Timestamp>().ok());
        end.is_some_and(|end| end <= now)
    }
}

/// Reads a value that a newer definition may have as the default. A ShortLink must parse, or its deletion would never end.
fn known_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

fn default_true() -> bool {
    true
}

/// Returns the schema of a set of tags.
fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 50, "pattern": r"^[^,\x00-\x1f\x7f-\x9f]*[^,\x00-\x1f\x7f-\x9f\s][^,\x00-\x1f\x7f-\x9f]*$"},
    })
}

/// Returns the rule that a required field keeps its value.
fn cannot_change(field: &str, remedy: &str) -> Rule {
    Rule::new("self == oldSelf").message(format!("{field} cannot change: {remedy}").as_str())
}

#[cfg(test)]
mod tests {
    use kube_cel::Validator;
    use kube_core::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    fn link(changes: Value) -> ShortLink {
        let mut spec =
            json!({"stackRef": {"name": "acme"}, "code": "sale", "url": "https://example.com/"});
        let fields = spec.as_object_mut().unwrap();
        fields.extend(changes.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "shortener.dev/v1alpha1",
            "kind": "ShortLink",
            "metadata": {"name": "sale", "namespace": "links"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn schema() -> Value {
        let definition = json!(ShortLink::crd());
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    /// Returns the errors that an API server would answer with, or an empty text.
    fn admit(new: &ShortLink, old: Option<&ShortLink>) -> String {
        let old = old.map(|old| json!(old));
        Validator::new()
            .validate(&schema(), &json!(new), old.as_ref())
            .map_or_else(|errors| format!("{errors:?}"), |()| String::new())
    }

    #[test]
    fn the_stack_the_code_and_the_destination_never_change() {
        let other = json!({"name": "acme", "namespace": "other"});
        for (changes, message) in [
            (
                json!({"stackRef": {"name": "other"}}),
                "stackRef cannot change: create a new ShortLink",
            ),
            (
                json!({"stackRef": other}),
                "stackRef cannot change: create a new ShortLink",
            ),
            (
                json!({"code": "Sale"}),
                "code cannot change: create a new ShortLink with the other code",
            ),
            (
                json!({"url": "https://example.com"}),
                "url cannot change: a link is immutable, so create a new ShortLink with another code",
            ),
        ] {
            let (old, new) = (link(json!({})), link(changes.clone()));
            assert_eq!(admit(&new, None), "", "{changes}");
            for (new, old) in [(&new, &old), (&old, &new)] {
                let refusal = admit(new, Some(old));
                assert!(refusal.contains(message), "{changes}: {refusal}");
            }
        }
    }

    #[test]
    fn titles_and_tags_that_the_app_refuses_are_refused_at_once() {
        let spec = &schema()["properties"]["spec"]["properties"];
        let title = spec["title"]["pattern"].as_str().unwrap();
        let tag = spec["tags"]["items"]["pattern"].as_str().unwrap();
        for (pattern, text, expected) in [
            (title, "Sale ä, 50 %", true),
            (title, "a\nb", false),
            (title, "a\u{2028}b", false),
            (tag, "two words", true),
            (tag, "ä", true),
            (tag, "a,b", false),
            (tag, " ", false),
            (tag, "a\u{0}", false),
        ] {
            let found = regex::Regex::new(pattern).unwrap().is_match(text);
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn everything_else_can_change() {
        let set = link(json!({
            "title": "Sale", "tags": ["shop"], "enabled": false, "expiresAt": "2030-06-01T00:00:00Z",
            "adopt": "IfSame", "deletionPolicy": "Retain",
        }));
        let unset = link(json!({}));
        for (new, old) in [(&set, &unset), (&unset, &set), (&set, &set)] {
            assert_eq!(admit(new, Some(old)), "");
        }
    }

    #[test]
    fn a_destination_has_a_scheme_and_no_white_space() {
        for url in ["http://a", "https://example.com/ä?b=c#d", "https://[::1]/"] {
            assert_eq!(admit(&link(json!({"url": url})), None), "", "{url}");
        }
        for url in [
            "",
            "example.com",
            "https://",
            "HTTPS://example.com",
            "ftp://example.com",
            "https://example.com/a b",
            "https://example.com\n",
            r"https:\\example.com",
            r"https://example.com\a",
        ] {
            let refusal = admit(&link(json!({"url": url})), None);
            let message = "url is not an http(s) address";
            assert!(refusal.contains(message), "{url}: {refusal}");
        }
    }

    #[test]
    fn what_the_api_server_admits_can_always_be_read() {
        let newer = link(json!({
            "expiresAt": "9999-12-31T23:59:59Z", "adopt": "Newer", "deletionPolicy": "Newer",
        }));
        assert_eq!(newer.spec.adopt, Adopt::Never);
        assert_eq!(newer.spec.deletion_policy, LinkDeletionPolicy::Disable);
        assert!(!newer.spec.is_over(Timestamp::MAX));
        let ended = link(json!({"expiresAt": "2030-06-01T00:00:00+02:00"})).spec;
        let end: Timestamp = "2030-05-31T22:00:00Z".parse().unwrap();
        assert!(ended.is_over(end) && !ended.is_over(Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let stored = json!(link(json!({})).spec);
        let expected = json!({
            "stackRef": {"name": "acme"}, "code": "sale", "url": "https://example.com/",
            "enabled": true, "adopt": "Never", "deletionPolicy": "Disable",
        });
        assert_eq!(stored, expected);
        let schema = schema();
        let spec = &schema["properties"]["spec"];
        assert_eq!(spec["required"], json!(["code", "stackRef", "url"]));
        for field in ["enabled", "adopt", "deletionPolicy"] {
            let default = &spec["properties"][field]["default"];
            assert_eq!(*default, expected[field], "{field}");
        }
        let status = &schema["properties"]["status"];
        assert_eq!(status["default"], json!({"observedGeneration": -1}));
        assert!(status["properties"]["shortURL"].is_object());
    }
}
