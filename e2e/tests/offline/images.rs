//! The public images that the code names, and the programs of other projects that laptops fetch.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use regex::Regex;

use crate::{files, lines, read, report, run};

const LIST: &str = "e2e/images/public.txt";

/// Returns the images of the list with their digests; `-` is an unknown digest.
fn listed() -> Result<BTreeMap<String, String>> {
    let row = Regex::new(r"^(\S+) +(-|sha256:[0-9a-f]{64})$")?;
    let images = lines(LIST)?.into_iter().map(|line| {
        let row = row.captures(&line).context(line.clone())?;
        Ok((row[1].to_owned(), row[2].to_owned()))
    });
    images.collect()
}

#[test]
fn the_list_has_every_public_image_of_the_code_and_no_other() -> Result<()> {
    let named = run("e2e/checks/digests.sh --named")?;
    let named: BTreeSet<&str> = named.lines().collect();
    let listed = listed()?;
    let listed: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
    assert_eq!(named, listed, "run e2e/checks/digests.sh --write");
    let image = Regex::new(
        r"\b(docker\.io|registry\.k8s\.io|quay\.io|gcr\.io)/[a-z0-9/._-]+:v?[0-9][A-Za-z0-9._-]*",
    )?;
    let data = Regex::new("/(snapshots|golden|fixtures|invalid)/|^docs/")?;
    let mut complaints = BTreeSet::new();
    for file in files("*.sh *.yaml *Dockerfile *.rs *.tpl")? {
        if !data.is_match(&file) {
            let text = read(&file)?;
            let found = image.find_iter(&text).map(|image| image.as_str());
            let unknown = found.filter(|image| !named.contains(image));
            complaints.extend(unknown.map(|image| format!("{file} has {image}, digests.sh not")));
        }
    }
    report(&complaints)
}

#[test]
fn laptops_fetch_the_versions_that_closed_machines_build() -> Result<()> {
    let table = lines("e2e/cluster/tools/releases.txt")?.join("\n");
    let module = read("e2e/closed/modules/kubernetes/go.mod")?;
    let modules = [
        ("kind", "sigs.k8s.io/kind"),
        ("kubectl", "k8s.io/kubernetes"),
        ("helm", "helm.sh/helm/v4"),
    ];
    for (program, path) in modules {
        let minor = Regex::new(&format!(r"\n\t{path} (v\d+\.\d+\.)"))?.captures(&module);
        let minor = regex::escape(&minor.with_context(|| format!("go.mod has no {path}"))?[1]);
        let row = format!(r"(?m)^{program} +{minor}\S+ +(\S+) +(?:published|\S{{64}})$");
        let platforms = Regex::new(&row)?
            .captures_iter(&table)
            .map(|row| row[1].to_owned())
            .collect::<BTreeSet<_>>();
        assert_eq!(platforms.len(), 4, "{program} {minor} is for {platforms:?}");
    }
    Ok(())
}

#[test]
fn the_development_container_has_the_compiler_by_its_digest() -> Result<()> {
    let file = read(".devcontainer/Dockerfile")?;
    let mut images = listed()?
        .into_iter()
        .filter(|(image, _)| image.starts_with("rust:"));
    let (image, digest) = images.next().context("the list has no compiler")?;
    let line = format!("FROM {image}@{digest}");
    let found = file.lines().any(|found| found == line);
    assert!(found, ".devcontainer/Dockerfile has no line {line}");
    Ok(())
}
