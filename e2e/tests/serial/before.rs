//! An upgrade from an earlier commit, the way back and the upgrade again. No field of the stack, no key of its clients and no
//! row of its database is lost. `e2e/before/make.sh` makes that release.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Provider, Release, Space, Stack, await_condition, base_spec, checkout, kubectl,
    merge, psql, settled,
};
use shortener_operator_core::definition::missing_fields;

use crate::{command, undisturbed};

const KEY: &str = "e2e-key-of-a-client-that-stays-the-same";
/// Fields that a running stack cannot get.
const WHEN_CREATED: [&str; 3] = [
    "spec.database.restoreFrom",
    "spec.database.cloudNativePG",
    "spec.queue.rabbitmqCluster",
];
const ROWS: &str = "select (select count(*) from links), (select count(*) from jobs)";

#[tokio::test]
async fn an_upgrade_the_way_back_and_the_next_upgrade_lose_nothing() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("before", async |space| {
        let release = Release::installed().await?;
        let outcome = match Before::install().await {
            Ok(before) => there_and_back(space, &release, &before).await,
            Err(error) => Err(error),
        };
        // The next tests need the operator as it was, whatever becomes of this one.
        forward(&release).await?;
        outcome
    })
    .await
}

async fn there_and_back(space: &Space, release: &Release, before: &Before) -> Result<()> {
    space.secret("keys", &json!({"shop": KEY})).await?;
    space.secret("auth-proxy", &json!({"secret": KEY})).await?;
    let first = json!({"profiles": ["queue"]});
    let (stack, gateway) = space.serve(Provider::IngressNginx, first.clone()).await?;
    let mut known = Known::fill(&stack, gateway).await?;

    let image = app_image(&stack).await?;
    forward(release).await?;
    runs_another(&stack, &image).await?;
    let mut spec = base_spec(space, Provider::IngressNginx);
    merge(&mut spec, first);
    merge(&mut spec, serde_yaml::from_str(&read("new.yaml")?)?);
    before.lacks_nothing_else(&spec)?;
    stack.apply(&spec).await?;
    settled(&stack).await?;
    let spec = spec_of(&stack).await?;
    known.are_kept(&stack, "after the upgrade").await?;

    let image = app_image(&stack).await?;
    before.go_back().await?;
    runs_another(&stack, &image).await?;
    let written = [
        "annotate",
        "sst",
        &stack.name,
        "e2e.shortener.dev/by=the-earlier-release",
    ];
    kubectl(&stack, &written).await?;
    settled(&stack).await?;
    ensure!(
        spec_of(&stack).await? == spec,
        "the way back changed {spec}"
    );
    known.are_kept(&stack, "after the way back").await?;

    let image = app_image(&stack).await?;
    forward(release).await?;
    runs_another(&stack, &image).await?;
    ensure!(
        spec_of(&stack).await? == spec,
        "the next upgrade changed {spec}"
    );
    known.are_kept(&stack, "after the next upgrade").await
}

/// The earlier release.
struct Before {
    /// The folder with its chart and its definition.
    folder: PathBuf,
    /// Helm's revision with it.
    revision: u64,
}

impl Before {
    /// Replaces the operator and the definition by those of the earlier release.
    async fn install() -> Result<Self> {
        let variable = |name: &str| {
            std::env::var(name).with_context(|| format!("{name} is not set: run `make test-all`"))
        };
        let (folder, values) = (variable("E2E_BEFORE")?, variable("E2E_BEFORE_VALUES")?);
        let arguments = format!(
            "{folder}/chart --reset-values --values {values} --force-conflicts --wait --timeout 3m"
        );
        helm("upgrade shortener-operator", &arguments).await?;
        let definition = format!("{folder}/definition.yaml");
        let apply =
            format!("kubectl apply --server-side --force-conflicts --filename {definition}");
        command(&apply, "").await?;
        let status = helm("status shortener-operator", "--output json").await?;
        let status: Value = serde_json::from_str(&status)?;
        Ok(Self {
            folder: folder.into(),
            revision: status["version"].as_u64().context("no revision")?,
        })
    }

    /// Rolls the operator back. The definition stays.
    async fn go_back(&self) -> Result<()> {
        let arguments = format!("{} --force-conflicts --wait --timeout 3m", self.revision);
        helm("rollback shortener-operator", &arguments)
            .await
            .map(|_| ())
    }

    /// Checks that a spec sets every field that the earlier definition lacks.
    fn lacks_nothing_else(&self, spec: &Value) -> Result<()> {
        let definition = std::fs::read_to_string(self.folder.join("definition.yaml"))?;
        let definition: Value = serde_yaml::from_str(&definition)?;
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let new = missing_fields(&schema["properties"]["spec"]);
        let is_absent = |path: &&String| !has(spec, path) && !WHEN_CREATED.contains(&path.as_str());
        let absent: Vec<_> = new.iter().filter(is_absent).collect();
        ensure!(absent.is_empty(), "set {absent:?} in e2e/before/new.yaml");
        Ok(())
    }
}

/// Returns true if a spec sets a field, in any element of its lists.
fn has(spec: &Value, path: &str) -> bool {
    let mut found = vec![spec];
    for name in path.split('.').skip(1) {
        let values = found.into_iter().flat_map(|value| match value {
            Value::Array(items) => items.iter().collect(),
            value => vec![value],
        });
        found = values.filter_map(|value| value.get(name)).collect();
    }
    !found.is_empty()
}

/// The links, jobs and keys that neither upgrade nor rollback may lose.
struct Known {
    gateway: GatewayClient,
    /// Codes with their destinations.
    links: Vec<(String, String)>,
    jobs: usize,
}

impl Known {
    /// Creates links and runs jobs.
    async fn fill(stack: &Stack, gateway: GatewayClient) -> Result<Self> {
        let mut links = Vec::new();
        for number in 0..20 {
            let url = format!("https://example.com/{number}");
            links.push((gateway.shorten(&url).await?, url));
        }
        let jobs = 10;
        for number in 0..jobs {
            let job = gateway
                .enqueue(&json!({"task": "count", "id": number}))
                .await?;
            gateway.wait_for_job_status(&job.id, "done").await?;
        }
        let known = Self {
            gateway,
            links,
            jobs,
        };
        known.rows(stack).await?;
        Ok(known)
    }

    /// Checks links, rows and keys, and creates one more link.
    async fn are_kept(&mut self, stack: &Stack, moment: &str) -> Result<()> {
        for (code, url) in &self.links {
            let redirects = self.gateway.wait_until_redirects(code, url).await;
            redirects.context(moment.to_owned())?;
        }
        let url = format!("https://example.com/{}", self.links.len());
        let create = || {
            let request = self.gateway.request(Method::POST, "/api/shorten");
            request.json(&json!({"url": url}))
        };
        let refused = self.gateway.send(create()).await?;
        ensure!(
            refused.status == 401,
            "{moment}, without a key: {refused:?}"
        );
        let created = self.gateway.send(create().bearer_auth(KEY)).await?;
        ensure!(created.status == 201, "{moment}, with a key: {created:?}");
        let code = created.json()?["code"].as_str().map(str::to_owned);
        self.links.push((code.context("no code")?, url));
        self.rows(stack).await.context(moment.to_owned())
    }

    /// Counts the rows of the database.
    async fn rows(&self, stack: &Stack) -> Result<()> {
        let expected = format!("{}|{}", self.links.len(), self.jobs);
        let found = psql(stack, ROWS).await?;
        ensure!(
            found.trim() == expected,
            "links|jobs: {expected} became {found}"
        );
        Ok(())
    }
}

/// Upgrades the definition and the operator to those of this checkout.
async fn forward(release: &Release) -> Result<()> {
    let chart = "../charts/shortener-definition --force-conflicts";
    helm("upgrade shortener-definition", chart).await?;
    release.put_back().await
}

async fn helm(verb: &str, arguments: &str) -> Result<String> {
    let line = format!("helm {verb} {arguments} --namespace shortener-system");
    command(&line, "").await
}

fn read(name: &str) -> Result<String> {
    Ok(std::fs::read_to_string(checkout("before").join(name))?)
}

async fn spec_of(stack: &Stack) -> Result<String> {
    Ok(stack.get().await?.data["spec"].to_string())
}

async fn app_image(stack: &Stack) -> Result<String> {
    let deployments = Api::<Deployment>::namespaced(stack.client.clone(), &stack.namespace);
    let app = deployments.get(&format!("{}-app", stack.name)).await?;
    let pod = app.spec.and_then(|spec| spec.template.spec);
    let image = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
    image.context("the app has no image")
}

/// Waits until the operator runs another image of the app.
async fn runs_another(stack: &Stack, image: &str) -> Result<()> {
    await_condition("the other release has the stack", async || {
        let now = app_image(stack).await?;
        ensure!(now != image, "the app is still {now}");
        Ok(())
    })
    .await?;
    settled(stack).await
}
