//! The packages of the charts, and what their metadata, their pages and their notes repeat from other files.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    VERSION,
    chart::{CHART, DEFINITION},
    documents, read, run, same,
};

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// The files of the resource definitions.
const DEFINITIONS: [&str; 3] = [
    "shortenerstack.yaml",
    "shortlink.yaml",
    "shortenerdrill.yaml",
];
/// A folder for temporary files.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn chart_file(name: &str) -> Result<Value> {
    yaml(&format!("{CHART}/{name}"))
}

fn yaml(path: &str) -> Result<Value> {
    Ok(serde_yaml::from_str(&read(path)?)?)
}

/// Returns an annotation of a chart for Artifact Hub.
fn annotation(chart: &str, name: &str) -> Result<Value> {
    let metadata = yaml(&format!("{chart}/Chart.yaml"))?;
    let text = metadata["annotations"][format!("artifacthub.io/{name}")].as_str();
    Ok(serde_yaml::from_str(text.context("it is no text")?)?)
}

#[test]
fn a_package_renders_the_objects_of_the_folder() -> Result<()> {
    // A tool that reads the folder, such as Flux, omits symbolic links.
    let links = run("find charts -type l")?;
    ensure!(links.is_empty(), "these are symbolic links: {links}");
    let render = |chart: &str| run(&format!("helm template test {chart}"));
    for chart in [CHART, DEFINITION] {
        run(&format!("helm package {chart} --destination {FOLDER}"))?;
        let name = chart.trim_start_matches("charts/");
        let packed = render(&format!("{FOLDER}/{name}-{VERSION}.tgz"))?;
        same(chart, &render(chart)?, "the package", &packed)?;
    }
    let package = format!("{FOLDER}/shortener-definition-{VERSION}.tgz");
    for file in DEFINITIONS {
        let inside = format!("shortener-definition/files/{file}");
        let packed = run(&format!("tar -xOf {package} {inside}"))?;
        same(&inside, &packed, "crds/", &read(format!("crds/{file}"))?)?;
    }
    Ok(())
}

#[test]
fn the_annotations_for_artifact_hub_are_true() -> Result<()> {
    let images = ["operator", "app", "worker"].map(|program| {
        let image = format!("{}/{program}:{VERSION}", env!("IMAGE_REPOSITORY"));
        json!({"name": program, "image": image})
    });
    assert_eq!(annotation(CHART, "images")?, json!(images));
    let sample = documents(&read("e2e/samples/demo.yaml")?)?;
    let links = documents(&read("examples/kustomize/links/links.yaml")?)?;
    let drill = documents(&read("examples/drill.yaml")?)?;
    let examples = json!([sample[0], links[1], drill[0]]);
    assert_eq!(annotation(DEFINITION, "crdsExamples")?, examples);
    let level = annotation(CHART, "operatorCapabilities")?;
    let level = level.as_str().context("the level is no text")?;
    let claims = read("docs/capabilities.md")?.contains(&format!("**{level}**"));
    ensure!(
        claims,
        "docs/capabilities.md claims another level than {level}"
    );
    let crds = annotation(DEFINITION, "crds")?;
    for (place, file) in DEFINITIONS.iter().enumerate() {
        let (crd, definition) = (&crds[place], yaml(&format!("crds/{file}"))?);
        assert_eq!(crd["name"], definition["metadata"]["name"]);
        assert_eq!(crd["kind"], definition["spec"]["names"]["kind"]);
        assert_eq!(crd["version"], definition["spec"]["versions"][0]["name"]);
    }
    Ok(())
}

#[test]
fn the_chart_names_the_repository_and_its_pages() -> Result<()> {
    let (chart, values) = (chart_file("Chart.yaml")?, chart_file("values.yaml")?);
    for chart in [&chart, &yaml(&format!("{DEFINITION}/Chart.yaml"))?] {
        assert_eq!(chart["home"], REPOSITORY);
        assert_eq!(chart["sources"], json!([REPOSITORY]));
    }
    // The alerts of a stack use the same address.
    let runbooks = format!("{REPOSITORY}/blob/main/docs/runbooks.md");
    assert_eq!(values["prometheusRule"]["runbookBaseUrl"], runbooks);
    Ok(())
}

/// The README has a row for each of these.
#[test]
fn values_yaml_has_every_value_that_the_schema_accepts() -> Result<()> {
    let (schema, values) = (
        chart_file("values.schema.json")?,
        chart_file("values.yaml")?,
    );
    let (schema, images) = (&schema["properties"], "images");
    for (schema, values) in [
        (schema, &values),
        (&schema[images]["properties"], &values[images]),
    ] {
        let keys = schema.as_object().context("the schema has no keys")?;
        let absent = keys.keys().find(|key| values.get(key.as_str()).is_none());
        assert_eq!(absent, None, "values.yaml lacks it");
    }
    Ok(())
}

/// Returns the notes of an installation. A shell must be able to parse their commands as they are.
fn notes(name: &str, arguments: &str) -> Result<String> {
    let namespace = "--namespace shortener-system";
    let command = format!("helm install test {CHART} {namespace} --dry-run=client {arguments}");
    let printed = run(&command)?;
    let notes = printed.split_once("\nNOTES:\n");
    let notes = notes.context("there are no notes")?.1;
    let mut inside = false;
    let is_command = |line: &&str| {
        inside |= line.ends_with("<<STACK");
        let mut programs = ["kubectl ", "helm ", "curl "].into_iter();
        let is_command = inside || programs.any(|name| line.starts_with(name));
        inside &= *line != "STACK";
        is_command
    };
    let commands: Vec<&str> = notes.lines().filter(is_command).collect();
    // An open here-document is only a warning.
    ensure!(!inside, "the notes do not end their here-document");
    let script = format!("{FOLDER}/notes-{name}");
    std::fs::write(&script, commands.join("\n"))?;
    run(&format!("bash -n {script}"))?;
    Ok(notes.to_owned())
}

#[test]
fn the_notes_have_the_commands_for_what_was_installed() -> Result<()> {
    let default = notes("default", "")?;
    assert!(
        default.contains("\nhelm -n shortener-system test"),
        "{default}"
    );
    // Without a cluster, Helm has no kinds of others.
    assert!(
        default.contains("waits for the resource definition"),
        "{default}"
    );
    let watching = notes("watching", "--set watchNamespaces={red,blue}")?;
    assert!(watching.contains("\nkubectl -n red apply"), "{watching}");
    let off = "--set replicaCount=0,prometheusRule.enabled=true";
    let off = notes("off", off)?;
    assert!(!off.contains("kubectl"), "{off}");
    assert!(off.contains("ShortenerOperatorDown"), "{off}");
    Ok(())
}
