//! The rows and panels of the dashboard.

/// A row of the dashboard.
pub(super) struct Row {
    /// Title of the row.
    pub(super) title: &'static str,
    /// Panels of the row, from left to right.
    pub(super) panels: &'static [Panel],
}

/// A graph.
pub(super) struct Panel {
    /// Title of the graph.
    pub(super) title: &'static str,
    /// Unit of the values, as Grafana spells it.
    pub(super) unit: &'static str,
    /// Lines of the graph: legend and expression.
    pub(super) lines: &'static [(&'static str, &'static str)],
    /// True when points of the graph link to traces.
    pub(super) exemplars: bool,
}

const fn panel(
    title: &'static str,
    unit: &'static str,
    lines: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel {
        title,
        unit,
        lines,
        exemplars: false,
    }
}

const fn with_exemplars(panel: Panel) -> Panel {
    Panel {
        exemplars: true,
        ..panel
    }
}

/// Every row of the dashboard. The rows of a part that is off stay empty.
pub(super) const ROWS: [Row; 6] = [
    Row {
        title: "Requests",
        panels: &[
            panel(
                "Requests",
                "reqps",
                &[(
                    "{{http_route}}",
                    r"sum by (http_route) (rate(http_requests_total{%STACK%}[$__rate_interval]))",
                )],
            ),
            panel(
                "Errors of the server",
                "percentunit",
                &[(
                    "5xx",
                    r#"(sum(rate(http_requests_total{%STACK%,http_response_status_code=~"5.."}[$__rate_interval])) or vector(0))
                    / sum(rate(http_requests_total{%STACK%}[$__rate_interval]))"#,
                )],
            ),
            with_exemplars(panel(
                "Duration of redirects",
                "s",
                &[
                    (
                        "99 %",
                        r#"histogram_quantile(0.99, sum by (le) (rate(http_server_request_duration_seconds_bucket{%STACK%,http_route="/{code}"}[$__rate_interval])))"#,
                    ),
                    (
                        "50 %",
                        r#"histogram_quantile(0.5, sum by (le) (rate(http_server_request_duration_seconds_bucket{%STACK%,http_route="/{code}"}[$__rate_interval])))"#,
                    ),
                ],
            )),
        ],
    },
    Row {
        title: "Database and cache",
        panels: &[
            panel(
                "Redirects by the cache",
                "percentunit",
                &[(
                    "hits",
                    r#"sum(rate(cache_requests_total{%STACK%,result="hit"}[$__rate_interval]))
                    / sum(rate(cache_requests_total{%STACK%}[$__rate_interval]))"#,
                )],
            ),
            panel(
                "Lookups in the cache",
                "reqps",
                &[(
                    "{{result}}",
                    r"sum by (result) (rate(cache_requests_total{%STACK%}[$__rate_interval]))",
                )],
            ),
            panel(
                "Reached by every pod",
                "bool_yes_no",
                &[
                    ("database", r"min(database_up{%STACK%})"),
                    ("cache", r"min(cache_up{%STACK%})"),
                    ("broker", r"min(queue_up{%STACK%})"),
                    ("vector store", r"min(vector_up{%STACK%})"),
                ],
            ),
        ],
    },
    Row {
        title: "Jobs",
        panels: &[
            panel(
                "In the queue",
                "short",
                &[
                    (
                        "{{state}}",
                        r"sum by (state) (shortener_stack_queue_messages{%STACK%})",
                    ),
                    (
                        "dead letters",
                        r"sum(shortener_stack_dead_letters{%STACK%})",
                    ),
                    (
                        "dead letters dropped",
                        r"sum(increase(shortener_stack_dead_letters_dropped_total{%STACK%}[$__rate_interval]))",
                    ),
                ],
            ),
            panel(
                "Deliveries",
                "ops",
                &[(
                    "{{outcome}}",
                    r"sum by (outcome) (rate(jobs_processed_total{%STACK%}[$__rate_interval]))",
                )],
            ),
            with_exemplars(panel(
                "Duration of jobs",
                "s",
                &[(
                    "95 %",
                    r"histogram_quantile(0.95, sum by (le) (rate(messaging_process_duration_seconds_bucket{%STACK%}[$__rate_interval])))",
                )],
            )),
        ],
    },
    Row {
        title: "Telemetry",
        panels: &[
            panel(
                "Dropped by app and workers",
                "ops",
                &[(
                    "{{signal}}",
                    r"sum by (signal) (rate(otel_dropped_total{%STACK%}[$__rate_interval]))",
                )],
            ),
            panel(
                "Sent by the collector",
                "ops",
                &[
                    (
                        "spans",
                        r"sum(rate(otelcol_exporter_sent_spans{%STACK%}[$__rate_interval]))",
                    ),
                    (
                        "log records",
                        r"sum(rate(otelcol_exporter_sent_log_records{%STACK%}[$__rate_interval]))",
                    ),
                ],
            ),
            panel(
                "Given up by the collector",
                "ops",
                &[
                    (
                        "spans",
                        r"sum(rate(otelcol_exporter_send_failed_spans{%STACK%}[$__rate_interval]))",
                    ),
                    (
                        "log records",
                        r"sum(rate(otelcol_exporter_send_failed_log_records{%STACK%}[$__rate_interval]))",
                    ),
                ],
            ),
        ],
    },
    Row {
        title: "Documents",
        panels: &[
            panel(
                "Requests to the vector store",
                "ops",
                &[(
                    "{{db_operation_name}}",
                    r"sum by (db_operation_name) (rate(db_client_operation_duration_seconds_count{%STACK%}[$__rate_interval]))",
                )],
            ),
            panel(
                "Errors of the vector store",
                "ops",
                &[(
                    "{{error_type}}",
                    r#"sum by (error_type) (rate(db_client_operation_duration_seconds_count{%STACK%,error_type!=""}[$__rate_interval]))"#,
                )],
            ),
            panel(
                "Duration of requests to the vector store",
                "s",
                &[(
                    "95 % {{db_operation_name}}",
                    r"histogram_quantile(0.95, sum by (le, db_operation_name) (rate(db_client_operation_duration_seconds_bucket{%STACK%}[$__rate_interval])))",
                )],
            ),
        ],
    },
    Row {
        title: "Operator",
        panels: &[
            panel(
                "The stack is ready",
                "bool_yes_no",
                &[("ready", r"min(shortener_operator_stack_ready{%NAME%})")],
            ),
            panel(
                "Reconciles of all stacks",
                "ops",
                &[(
                    "{{result}}",
                    r"sum by (result) (rate(shortener_operator_reconciles_total{}[$__rate_interval]))",
                )],
            ),
            panel(
                "Duration of reconciles",
                "s",
                &[(
                    "99 %",
                    r"histogram_quantile(0.99, sum by (le) (rate(shortener_operator_reconcile_duration_seconds_bucket{}[$__rate_interval])))",
                )],
            ),
        ],
    },
];
