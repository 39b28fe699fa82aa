//! Generated files. With `UPDATE=1` the tests write them instead.

use std::fs;

use anyhow::{Context, Result};
use shortener_e2e::checkout;
use shortener_operator_core::definition;

use crate::{chart::CHART, chart_readme, read, run, same};

/// Compares a file with its fresh text, or writes it.
fn generated(path: &str, fresh: &str, command: &str) -> Result<()> {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(checkout("..").join(path), fresh)?;
    }
    let fresh = same(path, &read(path)?, "its source", fresh);
    fresh.with_context(|| format!("run `{command}`"))
}

#[test]
fn crds_are_those_of_the_rust_types() -> Result<()> {
    for (file, definition) in definition::yaml()? {
        // GitOps tools do not follow a symbolic link.
        for folder in ["crds", "charts/shortener-definition/files"] {
            generated(&format!("{folder}/{file}"), &definition, "make crds")?;
        }
    }
    generated("docs/reference.md", &definition::markdown(), "make crds")
}

#[test]
fn api_page_shows_the_openapi_document() -> Result<()> {
    let document = "--slurpfile document workloads/app/openapi.json";
    let page = run(&format!("jq -nr {document} -f e2e/tests/offline/api.jq"))?;
    generated("docs/api.md", &page, "make api")
}

#[test]
fn readme_of_the_chart_shows_its_values() -> Result<()> {
    let path = format!("{CHART}/README.md");
    generated(&path, &chart_readme::page()?, "make readme")
}
