//! From the collected material to the report. Pure.
//!
//! The report is one YAML document. It holds no Secret's data, no value of a variable that its name calls a credential,
//! and no text that equals a credential.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::RECORD;

use super::mask::{self, MASKED, Mask};
use crate::cli::observed::{ObservedStack, text};

/// Annotation with a copy of an object, in which credentials are hard to find, as they are in a record.
const COPY: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Words in the names of variables and annotations whose values are credentials.
const CREDENTIAL_WORDS: [&str; 11] = [
    "ACCESSKEY",
    "APIKEY",
    "AUTHORIZATION",
    "CREDENTIAL",
    "DSN",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATEKEY",
    "SECRET",
    "TOKEN",
];
/// Endings of the names of variables and annotations whose values are credentials.
const CREDENTIAL_ENDINGS: [&str; 2] = ["KEY", "PASS"];
/// Endings of names whose values only tell where a credential is.
const HARMLESS_ENDINGS: [&str; 3] = ["FILE", "NAME", "PATH"];
/// Characters of the shortest value of a variable that is searched for in the whole report.
const SHORTEST_VARIABLE: usize = 6;

/// Everything that a report is made from.
pub struct Material {
    /// The stack and its objects.
    pub observed: ObservedStack,
    /// The Secrets of the stack, for their credentials and the names of their keys.
    pub secrets: Vec<Secret>,
    /// Deployments and pods of the operator.
    pub operator: Vec<Value>,
    /// Versions of Kubernetes.
    pub kubernetes: Value,
    /// Nodes with their versions.
    pub nodes: Vec<Value>,
    /// Last lines of each log, by namespace, pod and container.
    pub logs: BTreeMap<String, String>,
}

/// Renders the report, made at this time.
///
/// # Errors
/// The report cannot be written as YAML.
pub fn render(material: &Material, made: &str) -> Result<String, serde_yaml::Error> {
    let (sections, variables) = sections(material, made);
    let secrets = material.secrets.iter().flat_map(mask::credentials);
    written(&sections, &Mask::new(secrets.chain(variables)))
}

/// Returns the sections with their titles, and the values of variables that were taken out of them.
fn sections(material: &Material, made: &str) -> (Vec<(&'static str, Value)>, Vec<Vec<u8>>) {
    let Material {
        observed,
        secrets,
        operator,
        kubernetes,
        nodes,
        logs,
    } = material;
    let unmasked = secrets.iter().flat_map(mask::unsearchable);
    let notes: Vec<String> = observed.unread.iter().cloned().chain(unmasked).collect();
    let keys = |secret: &Secret| {
        let keys: Vec<&String> = secret.data.iter().flat_map(BTreeMap::keys).collect();
        json!({"name": secret.name_any(), "keys": keys})
    };
    let secrets: Value = secrets.iter().map(keys).collect();
    let mut sections = vec![
        (
            "report",
            json!({"made": made, "by": concat!("kubectl-shortener ", env!("CARGO_PKG_VERSION"))}),
        ),
        ("notes", notes.into()),
        ("kubernetes", kubernetes.clone()),
        ("nodes", nodes.clone().into()),
        ("stack", observed.stack.clone()),
        ("events", observed.events.clone().into()),
        ("secrets", secrets),
        ("objects", observed.objects.clone().into()),
        ("operator", operator.clone().into()),
        ("logs", json!(logs)),
    ];
    let mut variables = Vec::new();
    for (_, section) in &mut sections {
        take_out(section, &mut variables);
    }
    (sections, variables)
}

/// Writes the sections as one YAML document.
fn written(sections: &[(&str, Value)], mask: &Mask) -> Result<String, serde_yaml::Error> {
    let mut report = String::new();
    for (title, content) in sections {
        let section = BTreeMap::from([(*title, mask.value(content))]);
        report.push_str(&serde_yaml::to_string(&section)?);
    }
    Ok(report)
}

/// Removes the credentials that their names tell, and what makes a report long without saying anything.
fn take_out(value: &mut Value, variables: &mut Vec<Vec<u8>>) {
    match value {
        Value::Array(items) => {
            for item in items {
                take_out(item, variables);
            }
        }
        Value::Object(fields) => {
            fields.remove("managedFields");
            let name = fields.get("name").map(text).unwrap_or_default();
            let of_credential = is_credential(name);
            if let Some(value) = fields.get_mut("value").filter(|_| of_credential) {
                hide(value, variables);
            }
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                for copy in [COPY, RECORD] {
                    annotations.remove(copy);
                }
                let named = annotations
                    .iter_mut()
                    .filter(|(name, _)| is_credential(name));
                for (_, value) in named {
                    hide(value, variables);
                }
            }
            for value in fields.values_mut() {
                take_out(value, variables);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide(value: &mut Value, variables: &mut Vec<Vec<u8>>) {
    let Value::String(hidden) = value else {
        return;
    };
    if hidden.len() >= SHORTEST_VARIABLE {
        variables.push(hidden.as_bytes().to_vec());
    }
    *value = MASKED.into();
}

/// Returns true when the value of a variable or annotation of this name is a credential.
fn is_credential(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.map(|c| c.to_ascii_uppercase()).collect();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let known = CREDENTIAL_WORDS.iter().any(|word| name.contains(word));
    !ends(&HARMLESS_ENDINGS) && (known || ends(&CREDENTIAL_ENDINGS))
}

#[cfg(test)]
mod tests {
    use base64::{
        Engine,
        engine::general_purpose::{STANDARD, URL_SAFE},
    };
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    /// Password of the database, password of a broker's URL, API key, key of a client, value of a variable.
    const CREDENTIALS: [&str; 5] = [
        "n0t-4-secret?><word",
        "rabbit hole/&~~?",
        "qdrant-api-key-0123",
        "shop-key-0123456789abcdef0123456789abcdef",
        "variable-of-the-user",
    ];

    /// Returns the forms in which a credential is searched for, independently of the code under test.
    fn forms(credential: &str) -> Vec<String> {
        let upper = utf8_percent_encode(credential, NON_ALPHANUMERIC).to_string();
        // Capital letters of the credential would change as well, so they have none.
        let lower = upper.to_lowercase();
        let json = serde_json::to_string(credential).unwrap();
        let json = json.trim_matches('"').to_owned();
        let html = json.replace('<', "\\u003c").replace('>', "\\u003e");
        let form = upper.replace("%20", "+");
        let base64 = [STANDARD.encode(credential), URL_SAFE.encode(credential)];
        let bare = base64.each_ref().map(|text| text.replace('=', ""));
        [credential.to_owned(), upper, lower, json, html, form]
            .into_iter()
            .chain(base64)
            .chain(bare)
            .collect()
    }

    fn secret(name: &str, data: &[(&str, &str)]) -> Secret {
        let data: BTreeMap<&str, String> = data
            .iter()
            .map(|(key, value)| (*key, STANDARD.encode(value)))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
    }

    /// Returns material that has every credential in every form, in each of its parts.
    fn material() -> Material {
        let every: Vec<String> = CREDENTIALS.iter().flat_map(|c| forms(c)).collect();
        let lines = every.join("\n");
        let inside = format!("level=error url=postgres://shortener:{}@db/links", every[1]);
        let url = utf8_percent_encode(CREDENTIALS[1], NON_ALPHANUMERIC);
        let url = format!("amqp://shortener:{url}@mq:5672/links");
        let line = format!("{}\n", CREDENTIALS[3]);
        let object = json!({
            "kind": "Deployment",
            "metadata": {
                "name": "acme-app",
                "managedFields": [{"manager": "kubectl"}],
                "annotations": {"note": lines, COPY: lines, RECORD: lines, "x-api-key": "short"},
            },
            "spec": {"template": {"spec": {"containers": [{"name": "app", "env": [
                {"name": "EXTRA_TOKEN", "value": CREDENTIALS[4]},
                {"name": "DATABASE_PASSWORD_FILE", "value": "/etc/password"},
                {"name": "LIMIT", "value": "60"},
            ]}]}}},
        });
        Material {
            observed: ObservedStack {
                stack: object.clone(),
                objects: vec![object.clone()],
                events: vec![json!({"message": lines})],
                unread: vec![format!("cannot read pods: {}", every[0])],
            },
            secrets: vec![
                secret(
                    "acme-postgres",
                    &[("username", "shortener"), ("password", CREDENTIALS[0])],
                ),
                secret("mq", &[("uri", url.as_str())]),
                secret("acme-qdrant", &[("api-key", CREDENTIALS[2])]),
                secret("keys", &[("shop", line.as_str())]),
            ],
            operator: vec![object],
            kubernetes: json!({"gitVersion": "v1.36.0"}),
            nodes: vec![json!({"name": "node-a"})],
            logs: BTreeMap::from([
                ("links/acme-app-0/app".to_owned(), lines.clone()),
                ("links/acme-app-1/app".to_owned(), inside),
            ]),
        }
    }

    /// Returns the forms of credentials that a text contains.
    fn leaked(text: &str) -> Vec<String> {
        let every = CREDENTIALS.iter().flat_map(|c| forms(c));
        every.filter(|form| text.contains(form.as_str())).collect()
    }

    #[test]
    fn no_credential_is_in_the_report_in_any_form() {
        let material = material();
        // Without a mask the search finds every form, so it looks for the right texts.
        let (sections, _) = sections(&material, "now");
        let unmasked = written(&sections, &Mask::default()).unwrap();
        let every = CREDENTIALS.iter().flat_map(|c| forms(c)).count();
        assert_eq!(leaked(&unmasked).len(), every, "{unmasked}");

        let report = render(&material, "now").unwrap();
        assert_eq!(leaked(&report), Vec::<String>::new(), "{report}");
    }

    #[test]
    fn the_report_is_one_document_that_keeps_what_is_no_credential() {
        let report = render(&material(), "2026-01-01T00:00:00Z").unwrap();
        let document: serde_yaml::Value = serde_yaml::from_str(&report).unwrap();
        assert_eq!(document["report"]["made"], "2026-01-01T00:00:00Z");
        assert_eq!(document["kubernetes"]["gitVersion"], "v1.36.0");
        assert_eq!(document["secrets"][0]["keys"][0], "password");
        assert_eq!(document["secrets"][0]["keys"][1], "username");
        let container = &document["stack"]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][0]["value"], MASKED);
        assert_eq!(container["env"][1]["value"], "/etc/password");
        assert_eq!(container["env"][2]["value"], "60");
        let metadata = &document["objects"][0]["metadata"];
        assert_eq!(metadata["annotations"]["x-api-key"], MASKED);
        assert!(metadata.get("managedFields").is_none());
        for copy in [COPY, RECORD] {
            assert!(metadata["annotations"].get(copy).is_none());
        }
        let log = &document["logs"]["links/acme-app-1/app"];
        assert_eq!(
            log,
            "level=error url=postgres://shortener:[masked]@db/links"
        );
    }

    #[test]
    fn variables_are_credentials_by_their_names() {
        for name in [
            "API_TOKEN",
            "x-api-key",
            "smtp.password",
            "DB_PASS",
            "AwsSecretAccessKey",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in [
            "",
            "LIMIT",
            "DATABASE_PASSWORD_FILE",
            "KEYBOARD",
            "SECRET_NAME",
        ] {
            assert!(!is_credential(name), "{name}");
        }
    }
}
