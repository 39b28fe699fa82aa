//! The pods of this version beside those of the last release: whoever upgrades the operator gets a restart for each
//! difference, so none may come about by accident.
//!
//! `operator/releases` has the pod templates of each release. `.ci/release/baseline.sh` writes those of this version.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Service,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::CONFIG_CHECKSUM;

use crate::testing::world::{NAMESPACE, World};

/// Variable with which `.ci/release/baseline.sh` asks for the file of this version.
const WRITE: &str = "WRITE_BASELINE";
/// The phrase of CHANGELOG.md. Names of components follow, up to a full stop.
const PHRASE: &str = "Restarts the pods of: ";
/// Digits of the digest of a configuration in a checksum. The other parts differ between stacks.
const DIGEST: usize = 64;

/// A stack, and the pods that a release makes for it.
#[derive(Debug, Deserialize, Serialize)]
struct Baseline {
    spec: Value,
    templates: BTreeMap<String, Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("releases")
}

/// Returns the last release that has a file.
fn last_release() -> (String, Vec<Baseline>) {
    let files = fs::read_dir(folder()).unwrap();
    let versions = files.filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        Some(name.strip_suffix(".yaml")?.to_owned())
    });
    let number = |version: &String| -> Vec<u64> {
        let numbers = version.split('.');
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    let version = versions.max_by_key(number).unwrap();
    let text = fs::read_to_string(folder().join(format!("{version}.yaml"))).unwrap();
    (version, serde_yaml::from_str(&text).unwrap())
}

/// Returns the specs of which a release keeps the pods.
fn specs() -> [Value; 2] {
    let profiles = ["caching", "queue", "observability", "vector"];
    [
        json!({}),
        json!({
            "profiles": profiles,
            "gateway": {"provider": "Standalone"},
            "observability": {"backend": {"managed": {}}},
        }),
    ]
}

/// Returns the pod templates that this version makes for a spec, without what differs between stacks.
async fn templates(spec: &Value) -> BTreeMap<String, Value> {
    let world = World::with_stack(spec.clone()).await;
    // A gateway of its own needs the address of the app.
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into()
        });
    world.settle().await;
    let template = |child: &str| -> Option<Value> {
        let template = match child.split_once('/')? {
            ("deployments", name) => {
                world
                    .server
                    .get::<Deployment>(NAMESPACE, name)?
                    .spec?
                    .template
            }
            ("statefulsets", name) => {
                world
                    .server
                    .get::<StatefulSet>(NAMESPACE, name)?
                    .spec?
                    .template
            }
            _ => return None,
        };
        let mut template = serde_json::to_value(template).unwrap();
        let checksum = &mut template["metadata"]["annotations"][CONFIG_CHECKSUM];
        let parts = checksum.as_str().unwrap().split('.');
        let lasting = parts.map(|part| if part.len() == DIGEST { part } else { "-" });
        *checksum = lasting.collect::<Vec<_>>().join(".").into();
        Some(template)
    };
    let children = world.children().into_iter();
    children
        .filter_map(|child| Some((child.clone(), template(&child)?)))
        .collect()
}

/// Returns the components whose pods restart on purpose after a release: those that the first section of the changes names,
/// unless that is the section of the release itself.
fn announced(changes: &str, release: &str) -> BTreeSet<String> {
    let section = changes.split("\n## ").nth(1).unwrap_or_default();
    let words: Vec<&str> = section.split_whitespace().collect();
    if words.first() == Some(&release) {
        return BTreeSet::new();
    }
    let text = words.join(" ");
    let lists = text.split(PHRASE).skip(1);
    lists
        .filter_map(|rest| rest.split('.').next())
        .flat_map(|list| list.split(", "))
        .map(str::to_owned)
        .collect()
}

/// Returns the component of a workload, as in `deployments/acme-app`.
fn component(workload: &str) -> String {
    let name = workload.rsplit_once("/acme-").map(|(_, name)| name);
    name.unwrap_or(workload).to_owned()
}

/// Writes the file of this version if that was asked for.
async fn write() {
    if std::env::var_os(WRITE).is_none() {
        return;
    }
    let mut baselines = Vec::new();
    for spec in specs() {
        let templates = templates(&spec).await;
        baselines.push(Baseline { spec, templates });
    }
    let name = concat!(env!("CARGO_PKG_VERSION"), ".yaml");
    let text = serde_yaml::to_string(&baselines).unwrap();
    fs::write(folder().join(name), text).unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_pod_restarts_with_a_release_that_does_not_say_so() {
    write().await;
    let (version, baselines) = last_release();
    let mut restarted = BTreeSet::new();
    for Baseline {
        spec,
        templates: old,
    } in baselines
    {
        let new = templates(&spec).await;
        // A new workload restarts nothing.
        let changed = old
            .iter()
            .filter(|(name, template)| new.get(*name) != Some(*template));
        restarted.extend(changed.map(|(name, _)| component(name)));
    }
    let changes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../CHANGELOG.md");
    let announced = announced(&fs::read_to_string(changes).unwrap(), &version);
    let silent: Vec<&String> = restarted.difference(&announced).collect();
    assert!(
        silent.is_empty(),
        "{silent:?} get other pods than in {version}, so an upgrade restarts them. If that is meant, name them in the first \
         section of CHANGELOG.md: `{PHRASE}app, worker.`"
    );
}

#[test]
fn only_the_section_of_what_is_not_released_announces_restarts() {
    let changes = "# Changes\n\n## Unreleased\n\n- New. Restarts the pods of: app,\n  worker. So do\n- Restarts the pods of: \
                   cache.\n\n## 0.1.0\n\n- Restarts the pods of: postgres.\n";
    let expected = ["app", "cache", "worker"].map(str::to_owned);
    assert_eq!(announced(changes, "0.1.0"), BTreeSet::from(expected));
    assert_eq!(announced("# Changes\n", "0.1.0"), BTreeSet::new());
    let released = "# Changes\n\n## 0.1.0\n\n- Restarts the pods of: app.\n";
    assert_eq!(announced(released, "0.1.0"), BTreeSet::new());
}
