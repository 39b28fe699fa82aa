//! The alerts of a stack. Each has a section in `docs/runbooks.md` and test cases in `e2e/alerts/`.

/// An alert of a stack.
pub(super) struct Alert {
    /// Name of the alert, and anchor of its runbook.
    pub(super) name: &'static str,
    /// PromQL expression that raises it.
    pub(super) expression: &'static str,
    /// Duration for which the expression must hold.
    pub(super) hold: &'static str,
    /// Severity: `critical` pages at once, `warning` can wait until the morning.
    pub(super) severity: &'static str,
    /// Summary, the text of the alert.
    pub(super) summary: &'static str,
}

/// Every alert of a stack. The metrics of a part that is off have no series, so its alerts do not fire.
pub(super) const ALERTS: [Alert; 20] = [
    // The objective is 99.9 % of requests without a server error. At this rate, a month's error budget lasts two
    // days.
    Alert {
        name: "ShortenerErrorBudgetBurn",
        expression: r#"sum(rate(http_requests_total{%STACK%,http_response_status_code=~"5.."}[5m]))
            / sum(rate(http_requests_total{%STACK%}[5m])) > 0.0144
            and sum(rate(http_requests_total{%STACK%,http_response_status_code=~"5.."}[1h]))
            / sum(rate(http_requests_total{%STACK%}[1h])) > 0.0144"#,
        hold: "2m",
        severity: "critical",
        summary: "More than 1.4 % of requests fail: at this rate, the monthly error budget lasts two days.",
    },
    Alert {
        name: "ShortenerErrorBudgetBurnSlow",
        expression: r#"sum(rate(http_requests_total{%STACK%,http_response_status_code=~"5.."}[30m]))
            / sum(rate(http_requests_total{%STACK%}[30m])) > 0.006
            and sum(rate(http_requests_total{%STACK%,http_response_status_code=~"5.."}[6h]))
            / sum(rate(http_requests_total{%STACK%}[6h])) > 0.006"#,
        hold: "15m",
        severity: "warning",
        summary: "More than 0.6 % of requests have failed for hours: at this rate, the monthly error budget lasts five days.",
    },
    Alert {
        name: "ShortenerRedirectsSlow",
        expression: r#"histogram_quantile(0.99,
            sum by (le) (rate(http_server_request_duration_seconds_bucket{%STACK%,http_route="/{code}"}[5m]))) > 0.25"#,
        hold: "10m",
        severity: "warning",
        summary: "One redirect in a hundred takes longer than 250 ms.",
    },
    Alert {
        name: "ShortenerAppNotSeen",
        expression: r"absent(http_requests_total{%STACK%})",
        hold: "10m",
        severity: "critical",
        summary: "No pod of the app exports metrics.",
    },
    Alert {
        name: "ShortenerBufferFull",
        expression: r"sum by (buffer) (rate(buffer_refused_total{%STACK%}[5m])) > 0",
        hold: "10m",
        severity: "warning",
        summary: "A buffer of the app or the workers is full: its memory limit is too low for the load.",
    },
    Alert {
        name: "ShortenerDatabaseDown",
        expression: r"max(database_up{%STACK%}) < 1",
        hold: "2m",
        severity: "critical",
        summary: "No pod of the stack reaches the database.",
    },
    Alert {
        name: "ShortenerCacheDown",
        expression: r"max(cache_up{%STACK%}) < 1",
        hold: "5m",
        severity: "warning",
        summary: "No pod of the app uses the cache; redirects come from the database.",
    },
    Alert {
        name: "ShortenerCacheMisses",
        expression: r#"sum(rate(cache_requests_total{%STACK%,result="hit"}[30m]))
            / sum(rate(cache_requests_total{%STACK%}[30m])) < 0.5
            and sum(rate(cache_requests_total{%STACK%}[30m])) > 1"#,
        hold: "30m",
        severity: "warning",
        summary: "Fewer than half of the redirects find their link in the cache.",
    },
    Alert {
        name: "ShortenerJobsWaiting",
        expression: r#"sum(shortener_stack_queue_messages{%STACK%,state="ready"}) > 1000"#,
        hold: "15m",
        severity: "warning",
        summary: "More than 1,000 jobs have waited for a quarter of an hour.",
    },
    Alert {
        name: "ShortenerJobsStuck",
        expression: r#"sum(shortener_stack_queue_messages{%STACK%,state="ready"}) > 0
            unless sum(rate(jobs_processed_total{%STACK%}[10m])) > 0"#,
        hold: "15m",
        severity: "critical",
        summary: "Jobs wait, and no worker finishes a job.",
    },
    Alert {
        name: "ShortenerJobsFailing",
        expression: r#"sum(rate(jobs_processed_total{%STACK%,outcome=~"failed|rejected|invalid"}[10m]))
            / sum(rate(jobs_processed_total{%STACK%}[10m])) > 0.2"#,
        hold: "10m",
        severity: "warning",
        summary: "More than a fifth of the attempts at jobs fail.",
    },
    Alert {
        name: "ShortenerDeadLetters",
        expression: r"sum(shortener_stack_dead_letters{%STACK%}) > 0",
        hold: "5m",
        severity: "warning",
        summary: "Jobs failed for good and are in the dead-letter queue.",
    },
    Alert {
        name: "ShortenerDeadLettersDropped",
        expression: r"sum(increase(shortener_stack_dead_letters_dropped_total{%STACK%}[15m])) > 0",
        hold: "1m",
        severity: "warning",
        summary: "The dead-letter queue is full, and the oldest dead letters are lost.",
    },
    Alert {
        name: "ShortenerPurgeMissed",
        expression: r"min(purge_missed{%STACK%}) >= 3",
        hold: "10m",
        severity: "warning",
        summary: "Expired data was not removed at the last three times of the schedule.",
    },
    Alert {
        name: "ShortenerTelemetryDropped",
        expression: r"sum by (signal) (rate(otel_dropped_total{%STACK%}[5m])) > 0",
        hold: "10m",
        severity: "warning",
        summary: "The app or the workers drop traces or logs because the collector does not accept them.",
    },
    Alert {
        name: "ShortenerTelemetryNotSent",
        expression: r"(sum(rate(otelcol_exporter_send_failed_spans{%STACK%}[5m])) or vector(0))
            + (sum(rate(otelcol_exporter_send_failed_log_records{%STACK%}[5m])) or vector(0)) > 0",
        hold: "10m",
        severity: "warning",
        summary: "The collector drops traces or logs because the backend does not accept them.",
    },
    Alert {
        name: "ShortenerVectorDown",
        expression: r"max(vector_up{%STACK%}) < 1",
        hold: "5m",
        severity: "warning",
        summary: "No pod of the stack can use the vector store; documents are not found.",
    },
    Alert {
        name: "ShortenerStackNotReady",
        expression: r"min(shortener_operator_stack_ready{%NAME%}) < 1",
        hold: "15m",
        severity: "warning",
        summary: "The stack has not been ready for a quarter of an hour.",
    },
    Alert {
        name: "ShortenerEndToEndFails",
        expression: r"min(shortener_stack_end_to_end_success{%STACK%}) < 1",
        hold: "5m",
        severity: "critical",
        summary: "The operator cannot make a link, open it or get a job done through the gateway.",
    },
    Alert {
        name: "ShortenerPoliciesIgnored",
        expression: r"min(shortener_stack_network_policies_enforced{%STACK%}) < 1",
        hold: "10m",
        severity: "warning",
        summary: "The cluster does not enforce the NetworkPolicies of the stack, so any pod may reach the app and the stores.",
    },
];
