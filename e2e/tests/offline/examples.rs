//! The examples: what they repeat from other files, and their values for the chart.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use regex::Regex;
use serde_json::{Value, json};
use shortener_e2e::Examples;

use crate::{chart::DEFINITION, default_images, documents, entries, read, run};

/// Returns every object of the examples, or those of a kind.
fn objects(kind: Option<&str>) -> Result<Vec<Value>> {
    let manifests = Examples::of_checkout()?.manifests.into_iter();
    let objects = manifests.map(|file| documents(&read(file)?));
    let mut objects = objects.collect::<Result<Vec<_>>>()?.concat();
    objects.retain(|object| kind.is_none_or(|kind| object["kind"] == kind));
    Ok(objects)
}

#[test]
fn the_page_links_to_every_example_or_its_folder() -> Result<()> {
    let (page, examples) = (read("examples/README.md")?, Examples::of_checkout()?);
    let all = [examples.manifests, examples.values, examples.overlays].concat();
    for path in all.iter().filter_map(|path| path.strip_prefix("examples/")) {
        let folder = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
        let links = [path, folder].map(|path| format!("]({path})"));
        let found = links.iter().any(|link| page.contains(link));
        assert!(found, "README.md does not link to {path}");
    }
    Ok(())
}

#[test]
fn no_drill_stands_beside_its_stack() -> Result<()> {
    for file in Examples::of_checkout()?.manifests {
        let objects = documents(&read(&file)?)?;
        let has = |kind: &str| objects.iter().any(|object| object["kind"] == kind);
        let refused = has("ShortenerDrill") && has("ShortenerStack");
        assert!(!refused, "{file}: a stack is not ready when it is created");
    }
    Ok(())
}

#[test]
fn the_images_are_defaults_of_the_operator() -> Result<()> {
    let (objects, images) = (objects(None)?, default_images()?);
    let used = objects.iter().flat_map(entries);
    let used = used.filter(|(key, image)| *key == "image" && image.is_string());
    for (_, image) in used {
        let known = images.values().any(|known| image == known);
        assert!(known, "{image} is no default of {images:?}");
    }
    Ok(())
}

#[test]
fn a_network_policy_opens_a_port_of_the_operators_own_policy() -> Result<()> {
    let policies = objects(Some("NetworkPolicy"))?;
    assert!(!policies.is_empty(), "no example has a NetworkPolicy");
    for policy in policies {
        let labels = &policy["spec"]["podSelector"]["matchLabels"];
        let (instance, component) = (
            &labels["app.kubernetes.io/instance"],
            &labels["app.kubernetes.io/component"],
        );
        let name = component.as_str().context("there is no component")?;
        let own = json!({
            "app.kubernetes.io/name": "shortener",
            "app.kubernetes.io/instance": instance.as_str().context("there is no instance")?,
            "app.kubernetes.io/component": name,
        });
        assert_eq!(*labels, own);
        let golden = format!("operator/core/snapshots/network-policy-{name}.snap");
        let golden = documents(&read(golden)?)?.pop().unwrap_or_default();
        let known = entries(&golden["spec"]["ingress"]);
        let opened = entries(&policy["spec"]["ingress"]).into_iter();
        for port in opened.filter(|(key, _)| *key == "port") {
            assert!(known.contains(&port), "the operator's {name}: {port:?}");
        }
    }
    Ok(())
}

#[test]
fn the_policies_of_an_external_broker_are_those_of_the_page() -> Result<()> {
    let command =
        Regex::new("(?m)^rabbitmqctl set_policy (\\S+) '(.*)' --apply-to (\\S+) '(.*)'$")?;
    let page = read("docs/queue.md")?;
    let policies = command.captures_iter(&page).map(|found| {
        let definition: Value = serde_json::from_str(&found[4])?;
        Ok(json!({"name": found[1], "pattern": found[2], "applyTo": found[3], "definition": definition}))
    });
    let policies = policies.collect::<Result<Vec<_>>>()?;
    let fields = ["name", "pattern", "applyTo", "definition"];
    let examples = objects(Some("Policy"))?.into_iter().map(|object| {
        let field = |name: &'static str| (name, object["spec"][name].clone());
        Value::from_iter(fields.map(field))
    });
    assert!(!policies.is_empty(), "docs/queue.md has no policy");
    assert_eq!(policies, examples.collect::<Vec<_>>());
    Ok(())
}

/// Returns the fields below a path that name Secrets, as kustomize writes them: without the elements of lists.
fn names_of_secrets(schema: &Value, above: &str) -> BTreeSet<String> {
    let items = &schema["items"];
    let schema = if items.is_null() { schema } else { items };
    let fields = schema["properties"].as_object().into_iter().flatten();
    let named = fields.flat_map(|(field, below)| {
        let path = format!("{above}/{field}");
        match field.as_str() {
            "secretName" => BTreeSet::from([path]),
            "imagePullSecrets" | "secretRef" => BTreeSet::from([format!("{path}/name")]),
            field if field.ends_with("SecretRef") => BTreeSet::from([format!("{path}/name")]),
            _ => names_of_secrets(below, &path),
        }
    });
    named.collect()
}

#[test]
fn kustomize_follows_every_field_that_names_a_secret() -> Result<()> {
    let definition = documents(&read("crds/shortenerstack.yaml")?)?;
    let schema = &definition[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"];
    let list = documents(&read("examples/kustomize/base/secret-references.yaml")?)?;
    let followed = entries(&list[0]).into_iter();
    let followed = followed.filter(|(key, _)| *key == "path");
    let followed = followed.filter_map(|(_, path)| Some(path.as_str()?.to_owned()));
    assert_eq!(
        followed.collect::<BTreeSet<_>>(),
        names_of_secrets(spec, "spec")
    );
    Ok(())
}

#[test]
fn gitops_tools_do_not_prune_the_resource_definition() -> Result<()> {
    let rendered = documents(&run(&format!("helm template test {DEFINITION}"))?)?;
    // Pruning the definition would delete every stack.
    let kept = json!({
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    });
    assert_eq!(rendered.len(), 3);
    for definition in rendered {
        assert_eq!(definition["kind"], "CustomResourceDefinition");
        assert_eq!(definition["metadata"]["annotations"], kept);
    }
    Ok(())
}
