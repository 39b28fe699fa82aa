//! What the chart renders. `e2e/chart/renderings.txt` lists the renderings, which `e2e/checks/chart.sh` compares with the
//! schemas of Kubernetes, too.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{VERSION, default_images, documents, entries, files, lines, read, report, run};

pub const CHART: &str = "charts/shortener-operator";
const REPOSITORY: &str = env!("IMAGE_REPOSITORY");

/// Renders the chart with these arguments of helm.
pub fn template(arguments: &str) -> Result<Vec<Value>> {
    let namespace = "--namespace shortener-system";
    documents(&run(&format!(
        "helm template test {CHART} {namespace} {arguments}"
    ))?)
}

fn rendering(name: &str) -> Result<Vec<Value>> {
    for line in lines("e2e/chart/renderings.txt")? {
        let (found, arguments) = line.split_once(' ').unwrap_or((&line, ""));
        if found == name {
            return template(arguments);
        }
    }
    anyhow::bail!("renderings.txt has no {name}")
}

/// Returns what an object lacks of another: a map has its keys, a list has its elements.
fn lacks(object: &Value, part: &Value) -> Option<String> {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => part.iter().find_map(|(key, part)| {
            let value = object.get(key).unwrap_or(&Value::Null);
            Some(format!(".{key}{}", lacks(value, part)?))
        }),
        (Value::Array(object), Value::Array(part)) => part.iter().find_map(|part| {
            let lacks: Option<Vec<String>> =
                object.iter().map(|value| lacks(value, part)).collect();
            let lacks = lacks?;
            let only = lacks.first().filter(|_| lacks.len() == 1);
            Some(only.cloned().unwrap_or_else(|| format!(" has no {part}")))
        }),
        _ => (object != part).then(|| format!(" is {object} and not {part}")),
    }
}

#[test]
fn a_rendering_has_what_its_values_set() -> Result<()> {
    let path = REPOSITORY
        .split_once('/')
        .context("the repository has no path")?
        .1;
    let mut complaints = BTreeSet::new();
    for file in files("e2e/chart/expected/*.yaml")? {
        let name = file
            .rsplit(['/', '.'])
            .nth(1)
            .context("the file has no name")?;
        let text = read(&file)?
            .replace("%REPOSITORY%", REPOSITORY)
            .replace("%PATH%", path)
            .replace("%VERSION%", VERSION)
            .replace("%GATEWAY%", &default_images()?["GATEWAY_IMAGE"]);
        let objects = rendering(name)?;
        for part in documents(&text)? {
            let alike = objects
                .iter()
                .filter(|object| object["kind"] == part["kind"]);
            let lack: Option<Vec<String>> = alike.map(|object| lacks(object, &part)).collect();
            complaints.extend(lack.map(|lack| format!("{name}: {}{lack:?}", part["kind"])));
        }
    }
    report(&complaints)
}

#[test]
fn a_rendering_lacks_what_its_values_switch_off() -> Result<()> {
    for line in lines("e2e/chart/absent.txt")? {
        let (name, absent) = line
            .split_once(' ')
            .context("a rendering lacks something")?;
        let mut objects = rendering(name)?;
        for object in &mut objects {
            // A schema has the names of all fields.
            if object["kind"] == "CustomResourceDefinition" {
                object["spec"].take();
            }
        }
        let entries = objects.iter().flat_map(entries);
        let words = entries
            .flat_map(|(key, value)| [Some(key), value.as_str()])
            .flatten();
        let words: BTreeSet<&str> = words.collect();
        let found = absent.split(' ').find(|word| words.contains(word));
        ensure!(found.is_none(), "the rendering {name} has {found:?}");
    }
    Ok(())
}

#[test]
fn the_images_are_those_of_the_operator() -> Result<()> {
    let schema: Value = serde_json::from_str(&read(format!("{CHART}/values.schema.json"))?)?;
    let schema = schema["properties"]["images"]["properties"].as_object();
    let values = documents(&read("e2e/chart/everything.yaml")?)?;
    let values = values[0]["images"]
        .as_object()
        .context("it sets no images")?;
    let schema = schema.context("the schema has no images")?;
    ensure!(
        schema.keys().eq(values.keys()),
        "everything.yaml and the schema have other images"
    );
    let objects = rendering("everything")?;
    let names = objects
        .iter()
        .flat_map(entries)
        .filter(|(key, _)| *key == "name");
    let names = names.filter_map(|(_, name)| name.as_str());
    let variables: BTreeSet<_> = names.filter(|name| name.ends_with("_IMAGE")).collect();
    let images = default_images()?;
    ensure!(
        images.keys().eq(variables.iter()),
        "the chart has {variables:?}, images.rs {images:?}"
    );
    Ok(())
}

#[test]
fn common_labels_are_everywhere_but_in_selectors() -> Result<()> {
    let mut objects = rendering("everything")?;
    objects.retain(|object| object["kind"] != "ConfigMap");
    for object in &objects {
        let labels = &object["metadata"]["labels"];
        ensure!(
            labels["team"] == "links",
            "{} lacks commonLabels",
            object["kind"]
        );
    }
    let labels = objects
        .iter()
        .flat_map(entries)
        .filter(|(key, _)| *key == "team")
        .count();
    // One is in the pod template. A selector with one could not be changed.
    ensure!(
        labels == objects.len() + 1,
        "{labels} labels for {} objects",
        objects.len()
    );
    Ok(())
}

/// The same rule as in operator/src/cli/settings/registry.rs.
#[test]
fn a_registry_goes_in_front_of_every_image() -> Result<()> {
    let digest = format!("sha256:{}", "0".repeat(64));
    for (original, copy) in [
        ("postgres", "library/postgres"),
        ("docker.io/postgres", "library/postgres"),
        ("grafana/lgtm", "grafana/lgtm"),
        ("ghcr.io/a/b", "a/b"),
        ("ghcr.io/b", "b"),
        ("localhost/a/b", "a/b"),
        ("r.example:80/a", "a"),
    ] {
        let image = format!("image.repository={original},image.digest={digest}");
        let objects = template(&format!("--set global.imageRegistry=m.example,{image}"))?;
        let wanted = Value::from(format!("m.example/{copy}:{VERSION}@{digest}"));
        let found = objects
            .iter()
            .flat_map(entries)
            .any(|entry| entry == ("image", &wanted));
        ensure!(
            found,
            "{original} does not become m.example/{copy}: see _helpers.tpl"
        );
    }
    Ok(())
}

#[test]
fn a_variable_that_the_chart_sets_is_refused_in_extra_env() -> Result<()> {
    for name in ["RUST_LOG", "POD_NAME"] {
        let refused = template(&format!("--set extraEnv[0].name={name}"));
        let message = refused.err().context("the chart accepts it")?.to_string();
        ensure!(
            message.contains(&format!("extraEnv: {name} is already set")),
            "{message}"
        );
    }
    Ok(())
}

#[test]
fn the_values_schema_refuses_what_is_misspelt_or_of_the_wrong_type() -> Result<()> {
    let by_schema = [
        "values.schema.json",
        "meet the specifications of the schema",
    ];
    for line in lines("e2e/chart/refused.txt")? {
        let refused = template(&line).err();
        let message = refused
            .with_context(|| format!("it accepts {line}"))?
            .to_string();
        ensure!(
            by_schema.iter().any(|part| message.contains(part)),
            "{line}: {message}"
        );
    }
    Ok(())
}
