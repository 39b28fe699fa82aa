//! The ShortenerStack in a file.

use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use shortener_operator_core::{api::ShortenerStack, definition};

use super::PlanError;

/// Parses the stack. Fields that do not exist are refused, because a misspelt one would change nothing.
pub(super) fn parse(text: &str) -> Result<ShortenerStack, PlanError> {
    let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let documents = documents.collect::<Result<Vec<Value>, _>>();
    let mut documents =
        documents.map_err(|error| format!("the file is neither YAML nor JSON: {error}"))?;
    documents.retain(|document| !document.is_null());
    let count = documents.len();
    let Some(document) = documents.pop().filter(|_| count == 1) else {
        return Err(format!(
            "the file has {count} documents: plan takes exactly one ShortenerStack"
        )
        .into());
    };
    let wanted = ShortenerStack::api_version(&());
    let text = |field: &str| document[field].as_str().unwrap_or("none").to_owned();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if kind != ShortenerStack::kind(&()) || version != wanted {
        return Err(format!(
            "the file has a {kind} ({version}): plan takes a ShortenerStack ({wanted})"
        )
        .into());
    }
    let unknown = definition::unknown_fields(&document["spec"]);
    if !unknown.is_empty() {
        return Err(format!(
            "{} is not a field of a ShortenerStack: correct or remove it",
            unknown.join(", ")
        )
        .into());
    }
    let stack: ShortenerStack = serde_json::from_value(document)
        .map_err(|error| format!("the ShortenerStack cannot be parsed: {error}"))?;
    match stack.metadata.name {
        Some(_) => Ok(stack),
        None => Err("the ShortenerStack has no metadata.name: set it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "apiVersion: shortener.dev/v1alpha1\nkind: ShortenerStack\nmetadata:\n  name: acme\nspec:\n";

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn one_stack_is_read_and_empty_documents_do_not_count() {
        let stack = parse(&format!("---\n{STACK}  profiles: [caching]\n---\n")).unwrap();
        assert_eq!(stack.metadata.name.as_deref(), Some("acme"));
        assert_eq!(stack.spec.profiles.len(), 1);
    }

    #[test]
    fn a_file_without_exactly_one_stack_is_refused_with_what_it_has() {
        let two = format!("{STACK}  paused: true\n---\n{STACK}  paused: true\n");
        assert!(refusal(&two).contains("2 documents"));
        assert!(refusal("# nothing\n").contains("0 documents"));
        let other = refusal("apiVersion: v1\nkind: Secret\n");
        assert!(other.contains("a Secret (v1)"), "{other}");
        let unnamed = STACK.replace("  name: acme\n", "  labels: {}\n");
        assert!(refusal(&format!("{unnamed}  paused: true\n")).contains("no metadata.name"));
        assert!(refusal("a: [").contains("neither YAML nor JSON"));
    }

    #[test]
    fn a_field_that_does_not_exist_is_refused_by_its_path() {
        let misspelt = refusal(&format!("{STACK}  app: {{replica: 3}}\n"));
        assert!(
            misspelt.starts_with("spec.app.replica is not"),
            "{misspelt}"
        );
        let type_ = refusal(&format!("{STACK}  paused: maybe\n"));
        assert!(type_.contains("cannot be parsed"), "{type_}");
    }
}
