//! The fields in which two renderings of pods differ, as paths for people.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::model::{drift, metadata::CONFIG_CHECKSUM, record::RenderedPods};

/// Number of fields that are named. The rest is counted.
const NAMED: usize = 12;

/// Returns the paths of the fields that differ: in the pod template, and in the ConfigMap.
pub(super) fn differences(old: &RenderedPods, new: &RenderedPods) -> Vec<String> {
    let [before, after] = [&old.template, &new.template].map(value);
    let changed = drift::differences(&before, &after).into_iter();
    let removed = drift::differences(&after, &before);
    let in_template: BTreeSet<String> = changed.chain(removed).map(|field| field.path).collect();
    let mut paths: Vec<String> = in_template.into_iter().collect();
    if paths.is_empty() && before != after {
        // Only the order of a list.
        paths.push("spec".to_owned());
    }
    let files: BTreeSet<&String> = old.config.keys().chain(new.config.keys()).collect();
    let changed = files
        .into_iter()
        .filter(|file| old.config.get(*file) != new.config.get(*file));
    paths.extend(changed.map(|file| format!("ConfigMap.data[{file}]")));
    if paths.is_empty() {
        // Of a file in another ConfigMap.
        paths.push(format!("metadata.annotations[{CONFIG_CHECKSUM}]"));
    }
    let more = paths.len().saturating_sub(NAMED);
    if more > 0 {
        paths.truncate(NAMED);
        paths.push(format!("and {more} more"));
    }
    paths
}

/// Returns a pod template as a value, without the checksum, which names no cause.
fn value(template: &PodTemplateSpec) -> Value {
    let mut template = template.clone();
    let metadata = template.metadata.as_mut();
    if let Some(annotations) = metadata.and_then(|metadata| metadata.annotations.as_mut()) {
        annotations.remove(CONFIG_CHECKSUM);
    }
    serde_json::to_value(template).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods(template: Value, config: &[(&str, &str)]) -> RenderedPods {
        let config = config.iter();
        RenderedPods {
            template: serde_json::from_value(template).unwrap(),
            config: config
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn app(image: &str, env: Value) -> Value {
        json!({"spec": {"containers": [{"name": "app", "image": image, "env": env}]}})
    }

    #[test]
    fn each_field_that_differs_is_named_by_its_path() {
        let variable = |name: &str, value: &str| json!({"name": name, "value": value});
        let (a, b) = (variable("A", "1"), variable("B", "1"));
        let table = [
            (
                app("app:1", json!([])),
                vec!["spec.containers[app].env[A]", "spec.containers[app].env[B]"],
            ),
            (
                app("app:2", json!([a, b])),
                vec!["spec.containers[app].image"],
            ),
            (
                app("app:1", json!([a, variable("B", "2")])),
                vec!["spec.containers[app].env[B].value"],
            ),
            (
                app("app:1", json!([a])),
                vec!["spec.containers[app].env[B]"],
            ),
            (app("app:1", json!([b, a])), vec!["spec"]),
            (
                json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": []}}),
                vec!["metadata", "spec.containers[app]"],
            ),
        ];
        let old = pods(app("app:1", json!([a, b])), &[("a.conf", "1")]);
        for (new, expected) in table {
            let new = pods(new, &[("a.conf", "1")]);
            assert_eq!(differences(&old, &new), expected);
        }
        let new = pods(app("app:1", json!([a, b])), &[("b.conf", "1")]);
        assert_eq!(
            differences(&old, &new),
            ["ConfigMap.data[a.conf]", "ConfigMap.data[b.conf]"]
        );
    }

    #[test]
    fn a_long_list_is_cut_and_a_checksum_alone_is_named() {
        let with = |count: usize| {
            let labels = (0..count).map(|number| (format!("label-{number:02}"), json!("x")));
            let labels: serde_json::Map<String, Value> = labels.collect();
            pods(json!({"metadata": {"labels": labels}}), &[])
        };
        let found = differences(&with(1), &with(20));
        assert_eq!(found.len(), NAMED + 1);
        assert_eq!(found[NAMED], "and 7 more");
        let with = |checksum: &str| {
            let annotations = json!({CONFIG_CHECKSUM: checksum});
            pods(json!({"metadata": {"annotations": annotations}}), &[])
        };
        let path = format!("metadata.annotations[{CONFIG_CHECKSUM}]");
        assert_eq!(differences(&with("1"), &with("2")), [path]);
    }
}
