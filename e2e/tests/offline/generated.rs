//! Generated files. With `UPDATE=1` the tests write them instead.

use std::fs;

use anyhow::{Context, Result};
use shortener_e2e::checkout;

use crate::{read, run, same};

/// Compares a file with its fresh text, or writes it.
fn generated(path: &str, fresh: &str, command: &str) -> Result<()> {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(checkout("..").join(path), fresh)?;
    }
    let fresh = same(path, &read(path)?, "its source", fresh);
    fresh.with_context(|| format!("run `{command}`"))
}

#[test]
fn api_page_shows_the_openapi_document() -> Result<()> {
    let document = "--slurpfile document workloads/app/openapi.json";
    let page = run(&format!("jq -nr {document} -f e2e/tests/offline/api.jq"))?;
    generated("docs/api.md", &page, "make api")
}
