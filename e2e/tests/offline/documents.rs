//! The pages: their links, their wording, and what they repeat from other files.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::Result;
use regex::Regex;
use serde_json::Value;
use shortener_e2e::checkout;

use crate::{
    VERSION,
    chart::{CHART, DEFINITION},
    files, lines, read, report, same,
};

/// The stack that `make up` and the tests apply.
const SAMPLE: &str = "e2e/samples/demo.yaml";

#[test]
fn the_readme_shows_the_sample() -> Result<()> {
    let (page, sample) = (read("README.md")?, read(SAMPLE)?);
    let block = page.split("\n```yaml\n").nth(1).unwrap_or_default();
    let block = block.split("```\n").next().unwrap_or_default();
    same("README.md", block, SAMPLE, &sample)?;
    assert!(sample.lines().count() <= 20, "{SAMPLE} is too long");
    Ok(())
}

#[test]
fn every_relative_link_leads_to_a_file_and_to_a_heading_of_it() -> Result<()> {
    let link = Regex::new(r"\]\(([^): \n]+)\)")?;
    let mut complaints = BTreeSet::new();
    for page in files("*.md")? {
        for found in link.captures_iter(&read(&page)?) {
            let (path, anchor) = found[1].split_once('#').unwrap_or((&found[1], ""));
            let target = match path {
                "" => PathBuf::from(&page),
                path => Path::new(&page).with_file_name(path),
            };
            if !checkout("..").join(&target).exists() {
                complaints.insert(format!("{page} links to {path}, which does not exist"));
            } else if found[1].contains('#')
                && target.extension().is_some_and(|kind| kind == "md")
                && !anchors(&read(&target)?).contains(anchor)
            {
                complaints.insert(format!("{page}: {path} has no heading #{anchor}"));
            }
        }
    }
    report(&complaints)
}

/// Returns the anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let texts = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |letter: &char| letter.is_alphanumeric() || "_-".contains(*letter);
    let anchor = |text: String| text.chars().filter(kept).collect();
    texts
        .map(|text| anchor(text.to_lowercase().replace(' ', "-")))
        .collect()
}

#[test]
fn no_page_has_a_phrase_that_is_no_plain_english() -> Result<()> {
    let list = lines("e2e/tests/offline/phrases.txt")?;
    let phrases = list.iter().filter_map(|line| line.split_once('='));
    let phrases = phrases.map(|(phrase, instead)| Ok((Regex::new(phrase)?, instead)));
    let phrases = phrases.collect::<Result<Vec<_>>>()?;
    assert!(!phrases.is_empty(), "phrases.txt is empty");
    let mut complaints = BTreeSet::new();
    for page in files("README.md CONTRIBUTING.md docs/*.md")? {
        let text = read(&page)?;
        // Generated pages have their text from the code.
        if text.contains("<!-- GENERATED") {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ").to_lowercase();
        for (phrase, instead) in &phrases {
            for found in phrase.find_iter(&text) {
                let context: String = text[found.start()..].chars().take(50).collect();
                complaints.insert(format!("{page}: \"{context}…\": write {instead}"));
            }
        }
    }
    report(&complaints)
}

#[test]
fn the_version_is_the_same_everywhere() -> Result<()> {
    let changes = read("CHANGELOG.md")?;
    let current = |line: &str| line.starts_with(&format!("## {VERSION}"));
    let current = |line: &str| current(line) || line.starts_with("## Unreleased");
    assert!(changes.lines().any(current), "CHANGELOG.md lacks {VERSION}");
    for chart in [CHART, DEFINITION] {
        let chart: Value = serde_yaml::from_str(&read(format!("{chart}/Chart.yaml"))?)?;
        assert_eq!(chart["version"], VERSION);
        assert_eq!(chart["appVersion"], VERSION);
    }
    // The names of our images, charts and actions, which users copy.
    let name = Regex::new(r"shortenerstack/[a-z/-]+[@:]v?([0-9]+\.[0-9]+\.[0-9]+)")?;
    for file in files("*.md examples/* :!CHANGELOG.md")? {
        for found in name.captures_iter(&read(&file)?) {
            assert_eq!(&found[1], VERSION, "{file}: {}", &found[0]);
        }
    }
    Ok(())
}
