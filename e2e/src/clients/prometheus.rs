//! A Prometheus server of the tests, configured as documented and queried through a forwarded port.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::https;
use crate::harness::{
    Forward, Space, Stack, await_condition, restricted_container,
    server::{LABEL, Server},
};

const NAME: &str = "prometheus";
const PORT: u16 = 9090;

/// A Prometheus that scrapes the app, the workers and the collector of one stack. It works as long as the pod
/// that the port is forwarded to.
pub struct Prometheus {
    http: Client,
    forward: Forward,
}

/// A link from a metric to a trace.
#[derive(Clone, Debug, Deserialize)]
pub struct Exemplar {
    /// `trace_id` and `span_id`.
    pub labels: Value,
}

impl Prometheus {
    /// Returns the entry of `spec.observability.scrapeFrom` that admits it.
    pub fn peer() -> Value {
        json!({"podSelector": {"matchLabels": {LABEL: NAME}}})
    }

    /// Starts it beside a stack unless it already runs.
    pub async fn start(space: &Space, stack: &Stack) -> Result<Self> {
        let files = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
            // JSON is valid YAML.
            "data": {"prometheus.yml": configuration(stack).to_string()},
        });
        Api::<ConfigMap>::namespaced(space.client.clone(), &space.name)
            .patch(
                NAME,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(files),
            )
            .await?;
        let container = json!({
            "args": [
                "--config.file=/etc/prometheus/prometheus.yml",
                "--storage.tsdb.path=/prometheus",
                "--enable-feature=exemplar-storage",
            ],
            "readinessProbe": {"httpGet": {"path": "/-/ready", "port": PORT}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "files", "mountPath": "/etc/prometheus", "readOnly": true},
                {"name": "data", "mountPath": "/prometheus"},
            ],
        });
        let server = Server {
            name: NAME,
            ports: &[PORT],
            container: restricted_container(&space.settings.prometheus_image, container),
            volumes: json!([
                {"name": "files", "configMap": {"name": NAME}},
                {"name": "data", "emptyDir": {}},
            ]),
        };
        server.start(space).await?;
        Ok(Self {
            http: https::client(&[])?.build()?,
            forward: Forward::to(stack, NAME, PORT).await?,
        })
    }

    /// Waits for an exemplar of these series that leads to the trace.
    pub async fn exemplar(&self, series: &str, trace_id: &str) -> Result<Exemplar> {
        #[derive(Deserialize)]
        struct OfSeries {
            exemplars: Vec<Exemplar>,
        }
        let what = format!("an exemplar of {series} has the trace id {trace_id}");
        await_condition(&what, async || {
            let found = self.ask("query_exemplars", series).await?;
            let found: Vec<OfSeries> = serde_json::from_value(found)?;
            let mut exemplars = found.into_iter().flat_map(|series| series.exemplars);
            let exemplar = exemplars.find(|exemplar| exemplar.labels["trace_id"] == trace_id);
            exemplar.context("no exemplar has this trace id")
        })
        .await
    }

    /// Returns the only value of an expression, as of now.
    pub async fn value(&self, expression: &str) -> Result<f64> {
        let result = &self.ask("query", expression).await?["result"];
        match result.as_array().map(Vec::as_slice) {
            Some([sample]) => {
                let value = sample["value"][1].as_str();
                let value = value
                    .with_context(|| format!("{expression}: the sample has no value: {sample}"))?;
                Ok(value.parse()?)
            }
            _ => bail!("{expression}: expected one value, got {result}"),
        }
    }

    /// Waits until `right` accepts the only value of an expression.
    pub async fn wait_for_value(
        &self,
        expression: &str,
        right: impl Fn(f64) -> bool,
    ) -> Result<()> {
        await_condition(
            &format!("{expression} has the expected value"),
            async || {
                let value = self.value(expression).await?;
                ensure!(right(value), "it is {value}");
                Ok(())
            },
        )
        .await
    }

    async fn ask(&self, what: &str, query: &str) -> Result<Value> {
        let url = format!("http://{}/api/v1/{what}", self.forward.address);
        let url = Url::parse_with_params(&url, [("query", query)])?;
        let mut answer: Value = self.http.get(url).send().await?.json().await?;
        ensure!(
            answer["status"] == "success",
            "{query}: the query failed: {answer}"
        );
        Ok(answer["data"].take())
    }
}

/// Returns the configuration: DNS names that resolve to every pod of the app and the workers, and the collector.
fn configuration(stack: &Stack) -> Value {
    let (name, namespace) = (&stack.name, &stack.namespace);
    let jobs = [
        ("app", "app-metrics", 9090),
        ("worker", "worker-metrics", 9090),
        ("otel", "otel", 8888),
    ];
    let jobs = jobs.map(|(job, service, port)| {
        let host = format!("{name}-{service}.{namespace}");
        json!({
            "job_name": job,
            "dns_sd_configs": [{"names": [host], "type": "A", "port": port, "refresh_interval": "2s"}],
            "relabel_configs": [
                {"target_label": "namespace", "replacement": namespace},
                {"target_label": "stack", "replacement": name},
            ],
        })
    });
    json!({
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
        "scrape_configs": jobs,
    })
}
