//! The profile `observability`: every event of the specification, and the links between the signals.
//!
//! Specification: 2.7, 6.

mod signals;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{
    Caller, Observed, Prometheus, Provider, Trace, children_of, condition_of, every_profile,
    log_of_job, merge, pods_of, settled, valkey, with_telemetry,
};

use signals::{from, is_a_job_of, is_part, leads_back, pod_of};

/// Durations of requests that enqueue jobs.
const JOB_REQUESTS: &str = r#"http_server_request_duration_seconds_bucket{job="app",http_route="/jobs",http_request_method="POST"}"#;
/// Durations of the processing of jobs.
const JOB_WORK: &str = r#"messaging_process_duration_seconds_bucket{job="worker"}"#;
/// Durations of redirects.
const REDIRECT_REQUESTS: &str = r#"http_server_request_duration_seconds_bucket{job="app",http_route="/{code}",http_response_status_code="302"}"#;
/// Number of redirects.
const REDIRECTS: &str = r#"http_requests_total{http_request_method="GET",http_route="/{code}",http_response_status_code="302"}"#;
/// Number of redirects for a caller that does not set the sampled flag.
const UNSAMPLED: usize = 40;

#[tokio::test]
async fn an_exemplar_of_a_job_leads_to_its_trace_and_from_there_to_its_log_records_and_back()
-> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let prometheus = Prometheus::start(&shared.space, stack).await?;
        let job = gateway.enqueue(&json!({"task": "email", "id": 1})).await?;
        gateway.wait_for_job_status(&job.id, "done").await?;

        let exemplar = prometheus.exemplar(JOB_REQUESTS, &job.trace_id).await?;
        let trace_id = exemplar.labels["trace_id"].as_str().unwrap_or_default();
        let names = [
            "POST /jobs",
            "publish jobs",
            "process jobs",
            "INSERT jobs",
            "UPDATE jobs",
        ];
        let trace = sink.trace_with(trace_id, &names).await?;
        let request = trace.span("POST /jobs")?;
        assert_eq!(exemplar.labels["span_id"], json!(request.span_id));
        ensure!(
            request.parent_span_id.trim_matches('0').is_empty(),
            "{request:?}"
        );
        is_a_job_of(request, &trace, trace_id)?;
        for name in ["INSERT jobs", "UPDATE jobs"] {
            let call = trace.call("postgresql", name)?;
            is_part(call, trace.span("process jobs")?, "CLIENT", "worker")?;
        }
        from(stack, request, "app").await?;
        from(stack, trace.span("process jobs")?, "worker").await?;
        let exemplar = prometheus.exemplar(JOB_WORK, trace_id).await?;
        let worker = &trace.span("process jobs")?.span_id;
        assert_eq!(exemplar.labels["span_id"], json!(worker));

        let records = sink
            .records_with(trace_id, &["request", "job_start", "job_done"])
            .await?;
        for record in &records {
            leads_back(record, &trace, trace_id)?;
        }
        for (body, component) in [
            ("request", "app"),
            ("job_start", "worker"),
            ("job_done", "worker"),
        ] {
            let record = records.iter().find(|record| record.body == body);
            let record = record.with_context(|| format!("no {body}"))?;
            assert_eq!(record.service, component);
            assert_eq!(record.attributes["host"], pod_of(stack, component).await?);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_document_is_one_trace_from_its_request_to_the_vector_store() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let (gateway, caller) = (&shared.gateway, Caller::new());
        let document = json!({"vector": [1, 0, 0, 0], "payload": {"category": "traced"}});
        let request = gateway.request(Method::PUT, "/api/docs/7").json(&document);
        let request = request.header("traceparent", caller.traceparent());
        let answer = gateway.send(request).await?;
        ensure!(answer.status == 202, "expected status 202, got {answer:?}");

        let names = [
            "PUT /docs/{id}",
            "INSERT documents",
            "publish jobs",
            "process jobs",
            "upsert docs",
        ];
        let trace = sink.trace_with(&caller.trace_id, &names).await?;
        let request = trace.span("PUT /docs/{id}")?;
        assert_eq!(request.parent_span_id, caller.span_id);
        let stored = trace.call("postgresql", "INSERT documents")?;
        is_part(stored, request, "CLIENT", "app")?;
        is_a_job_of(request, &trace, &caller.trace_id)?;
        let upsert = trace.call("qdrant", "upsert docs")?;
        is_part(upsert, trace.span("process jobs")?, "CLIENT", "worker")?;
        assert_eq!(upsert.attributes["server.address"], "acme-qdrant");
        assert_eq!(upsert.attributes["db.collection.name"], "docs");

        let caller = Caller::new();
        let query = json!({"vector": [1, 0, 0, 0], "limit": 1});
        let request = gateway
            .request(Method::POST, "/api/docs/query")
            .json(&query);
        let request = request.header("traceparent", caller.traceparent());
        let answer = gateway.send(request).await?;
        ensure!(answer.status == 200, "expected status 200, got {answer:?}");
        let names = ["POST /docs/query", "query docs"];
        let trace = sink.trace_with(&caller.trace_id, &names).await?;
        let request = trace.span("POST /docs/query")?;
        is_part(
            trace.call("qdrant", "query docs")?,
            request,
            "CLIENT",
            "app",
        )
    })
    .await
}

#[tokio::test]
async fn a_redirect_continues_the_trace_of_its_caller_with_cache_and_database() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let prometheus = Prometheus::start(&shared.space, stack).await?;
        let code = gateway.shorten("https://example.com/traced").await?;
        let entry = format!("link:{code}");
        let path = format!("/api/links/{code}");

        // On a busy machine the cache may be away or answer too late, or the database so late that the app does not cache
        // it.
        let missed = loop {
            valkey(stack, &["del", &entry]).await?;
            let missed = Caller::new();
            assert_eq!(gateway.get_traced(&path, &missed).await?.status, 302);
            let names = ["GET /{code}", "SELECT links"];
            let trace = sink.trace_with(&missed.trace_id, &names).await?;
            if answered(&trace) && valkey(stack, &["exists", &entry]).await?.trim() == "1" {
                break missed;
            }
        };
        let trace = sink.trace_with(&missed.trace_id, &["EVALSHA"]).await?;
        let request = trace.span("GET /{code}")?;
        assert_eq!(
            (request.kind.as_str(), request.service.as_str()),
            ("SERVER", "app")
        );
        assert_eq!(request.parent_span_id, missed.span_id);
        assert_eq!(request.attributes["http.route"], "/{code}");
        assert_eq!(request.attributes["http.response.status_code"], 302);
        for (system, name, server) in [
            ("redis", "MGET", "acme-cache"),
            ("postgresql", "SELECT links", "acme-postgres"),
            ("redis", "EVALSHA", "acme-cache"),
        ] {
            let call = trace.call(system, name)?;
            is_part(call, request, "CLIENT", "app")?;
            assert_eq!(call.attributes["server.address"], server);
        }
        let exemplar = prometheus
            .exemplar(REDIRECT_REQUESTS, &missed.trace_id)
            .await?;
        assert_eq!(exemplar.labels["span_id"], json!(request.span_id));

        // The same goes for a hit.
        let (hit, trace) = loop {
            let hit = Caller::new();
            assert_eq!(gateway.get_traced(&path, &hit).await?.status, 302);
            let trace = sink.trace_with(&hit.trace_id, &["GET /{code}"]).await?;
            if answered(&trace) {
                break (hit, trace);
            }
        };
        let reads = trace.calls("postgresql").count();
        ensure!(reads == 0, "{reads} reads of the database for a hit");
        let records = sink.records_with(&hit.trace_id, &["request"]).await?;
        ensure!(records.len() == 1, "{records:?}");
        leads_back(&records[0], &trace, &hit.trace_id)
    })
    .await
}

/// Returns true when the cache answered a request in time, as its trace says. A span ends before that of its request.
fn answered(trace: &Trace) -> bool {
    let call = trace.call("redis", "MGET");
    call.is_ok_and(|call| call.status != "ERROR")
}

/// Specification: 8, 6.
#[tokio::test]
async fn every_trace_is_kept_whatever_its_caller_thinks_of_sampling() -> Result<()> {
    with_telemetry(async |Observed { shared, sink }| {
        let code = shared.gateway.shorten("https://example.com/kept").await?;
        let callers: Vec<Caller> = (0..UNSAMPLED).map(|_| Caller::new()).collect();
        for caller in &callers {
            let answer = shared
                .gateway
                .get_traced(&format!("/{code}"), caller)
                .await?;
            ensure!(answer.status == 302, "expected status 302, got {answer:?}");
        }
        for caller in &callers {
            sink.trace_with(&caller.trace_id, &["GET /{code}"]).await?;
        }
        Ok(())
    })
    .await
}

/// Specification: 2.7, 6, 8.
#[tokio::test]
async fn prometheus_finds_what_app_workers_and_collector_count() -> Result<()> {
    with_telemetry(async |Observed { shared, .. }| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let prometheus = Prometheus::start(&shared.space, stack).await?;
        let code = gateway.shorten("https://example.com/counted").await?;
        for _ in 0..5 {
            gateway.get(&format!("/{code}")).await?;
        }
        valkey(stack, &["del", &format!("link:{code}")]).await?;
        gateway.get(&format!("/{code}")).await?;
        let job = gateway.enqueue(&json!({"task": "email", "id": 2})).await?;
        gateway.wait_for_job_status(&job.id, "done").await?;

        let counted = gateway.count(REDIRECTS).await? as f64;
        ensure!(
            counted >= 6.0,
            "expected at least 6 redirects, counted {counted}"
        );
        prometheus
            .wait_for_value(&format!("sum({REDIRECTS})"), |value| value == counted)
            .await?;
        for result in ["hit", "miss"] {
            let lookups = format!(r#"sum(cache_requests_total{{result="{result}"}})"#);
            prometheus
                .wait_for_value(&lookups, |value| value >= 1.0)
                .await?;
        }
        let results = "count(count by (result) (cache_requests_total))";
        prometheus
            .wait_for_value(results, |value| value == 2.0)
            .await?;
        for series in [
            r#"jobs_processed_total{job="worker",outcome="done"}"#,
            r#"otelcol_exporter_sent_spans{exporter="otlp_grpc/traces"}"#,
            r#"otelcol_exporter_sent_log_records{exporter="otlp_grpc/logs"}"#,
        ] {
            prometheus
                .wait_for_value(&format!("sum({series})"), |value| value >= 1.0)
                .await?;
        }
        let up = format!(
            r#"sum(up{{namespace="{}",stack="{}"}})"#,
            stack.namespace, stack.name
        );
        prometheus.wait_for_value(&up, |value| value == 3.0).await?;
        let metrics = gateway.get("/api/metrics").await?;
        ensure!(
            !metrics.body.contains(&code),
            "a code is in a label: {}",
            metrics.body
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn switched_off_nothing_is_exported_and_nothing_of_it_is_left() -> Result<()> {
    with_telemetry(async |Observed { shared, .. }| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let mut changes = every_profile();
        merge(
            &mut changes,
            json!({"profiles": ["caching", "queue", "vector"]}),
        );
        shared.space.serve(Provider::IngressNginx, changes).await?;
        settled(stack).await?;

        for child in children_of(stack).await? {
            let telling = ["-otel", "-metrics", "-dashboards"];
            let left = telling.iter().any(|part| child.name.ends_with(part));
            ensure!(!left, "{} is left", child.title());
        }
        for component in ["app", "worker"] {
            let pods = serde_json::to_string(&pods_of(stack, component).await?)?;
            ensure!(
                !pods.contains("OTEL_"),
                "a pod of the {component} has an OTEL_ variable: {pods}"
            );
        }
        let object = stack.get().await?;
        let told = condition_of(&object, "TelemetryReady");
        ensure!(told.is_err(), "the stack still has {told:?}");
        let metrics = gateway.get("/api/metrics").await?;
        ensure!(!metrics.body.contains("otel_"), "{}", metrics.body);

        // The trace id is logged nonetheless.
        let job = gateway.enqueue(&json!({"task": "email", "id": 3})).await?;
        gateway.wait_for_job_status(&job.id, "done").await?;
        for event in ["job_start", "job_done"] {
            let lines = log_of_job(stack, event, &job.id).await?;
            ensure!(
                lines.iter().any(|line| line["trace_id"] == job.trace_id),
                "{lines:?}"
            );
        }
        Ok(())
    })
    .await
}
