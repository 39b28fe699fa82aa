//! Reports of the watches: failures in the log, in the metrics and in the operator's health.
//!
//! A watch repeats its last step until it succeeds, so the same failure occurs again and again. It is logged once,
//! until its text changes or the watch works again.

use kube::{
    Resource,
    core::Status,
    runtime::watcher::{self, Event},
};

use crate::server::{
    health::{Health, WatchHealth},
    metrics::Metrics,
};

/// The place that watches report to, and the namespace that they watch.
#[derive(Clone, Copy)]
pub struct Reports<'a> {
    /// Metrics that count the failures.
    pub metrics: &'a Metrics,
    /// Health of the watches that reconciles depend on.
    pub health: &'a Health,
    /// Namespace; `None` for the whole cluster.
    pub namespace: Option<&'a str>,
}

/// The report of one watch.
pub struct WatchReport {
    kind: String,
    /// Plural and group of the kind, as RBAC rules and `kubectl` take them.
    resource: String,
    scope: String,
    metrics: Metrics,
    /// Health of the watch; `None` if reconciles do without it.
    health: Option<WatchHealth>,
    /// Failure that was logged last, until the watch works again.
    logged: Option<String>,
}

impl Reports<'_> {
    /// Starts the report of a watch. Without a needed one, the operator counts as unready.
    pub fn of<K: Resource<DynamicType = ()>>(self, needed: bool) -> WatchReport {
        let (plural, group) = (K::plural(&()), K::group(&()));
        let resource = if group.is_empty() {
            plural.into_owned()
        } else {
            format!("{plural}.{group}")
        };
        let scope = match self.namespace {
            Some(namespace) => format!("namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let health = needed.then(|| self.health.expect(&format!("{resource} in {scope}")));
        WatchReport {
            kind: K::kind(&()).into_owned(),
            resource,
            scope,
            metrics: self.metrics.clone(),
            health,
            logged: None,
        }
    }
}

impl WatchReport {
    /// Reports an event of the watch.
    pub fn see<K>(&mut self, event: &watcher::Result<Event<K>>) {
        match event {
            // The rest of the list may still fail.
            Ok(Event::Init | Event::InitApply(_)) => {}
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => self.works(),
            Err(error) => self.fails(error),
        }
    }

    fn works(&mut self) {
        if let Some(health) = &self.health {
            health.works();
        }
        if self.logged.take().is_some() {
            tracing::info!(kind = %self.kind, scope = %self.scope, "the watch works again");
        }
    }

    fn fails(&mut self, error: &watcher::Error) {
        self.metrics.watch_failed(&self.kind);
        let text = format!("{error}: {}", self.remedy(error));
        if let Some(health) = &self.health {
            health.fails(&text);
        }
        if self.logged.as_ref() != Some(&text) {
            tracing::warn!(kind = %self.kind, scope = %self.scope, error = %text, "the objects of a kind cannot be listed or watched; retrying");
            self.logged = Some(text);
        }
    }

    fn remedy(&self, error: &watcher::Error) -> String {
        let (resource, scope) = (&self.resource, &self.scope);
        match status(error).map(|status| status.code) {
            Some(401 | 403) => format!(
                "grant the operator's service account `list` and `watch` on {resource} in {scope}, as the chart's rules do"
            ),
            Some(404) => format!(
                "the cluster does not serve {resource}: install its CustomResourceDefinition (the chart shortener-definition does)"
            ),
            Some(410) => "the operator lists the objects anew".to_owned(),
            _ => "check the API server and the operator's connection to it".to_owned(),
        }
    }
}

/// Returns the answer of the API server, if there is one.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;
    use shortener_operator_core::api::ShortenerStack;

    use super::*;

    fn refused(code: u16, message: &str) -> watcher::Result<Event<()>> {
        let status = json!({"status": "Failure", "message": message, "reason": "", "code": code});
        let status = serde_json::from_value(status).unwrap();
        Err(watcher::Error::WatchError(status))
    }

    struct ReportScene {
        metrics: Metrics,
        health: Health,
    }

    impl ReportScene {
        fn new() -> Self {
            Self {
                metrics: Metrics::new().unwrap(),
                health: Health::default(),
            }
        }

        fn report<K: Resource<DynamicType = ()>>(&self, needed: bool) -> WatchReport {
            let reports = Reports {
                metrics: &self.metrics,
                health: &self.health,
                namespace: Some("links"),
            };
            reports.of::<K>(needed)
        }
    }

    #[test]
    fn the_remedy_names_the_missing_right_or_definition() {
        let scene = ReportScene::new();
        let mut report = scene.report::<ShortenerStack>(true);
        for (code, expected) in [
            (
                403,
                "`list` and `watch` on shortenerstacks.shortener.dev in namespace links",
            ),
            (404, "does not serve shortenerstacks.shortener.dev"),
            (500, "check the API server"),
        ] {
            report.see(&refused(code, "no"));
            let problems = scene.health.problems().join("\n");
            assert!(problems.contains(expected), "{code}: {problems}");
        }
        report.see(&Ok(Event::<()>::InitDone));
        assert_eq!(scene.health.problems(), [] as [String; 0]);
    }

    #[test]
    fn a_failure_is_counted_each_time_and_logged_until_its_text_changes() {
        let scene = ReportScene::new();
        let mut report = scene.report::<Secret>(true);
        report.see(&refused(500, "first"));
        let logged = report.logged.clone().unwrap();
        assert!(logged.contains("first"), "{logged}");
        report.see(&Ok(Event::<()>::Init));
        report.see(&refused(500, "first"));
        assert_eq!(report.logged, Some(logged));
        report.see(&refused(500, "second"));
        assert!(report.logged.clone().unwrap().contains("second"));
        let page = String::from_utf8(scene.metrics.render().unwrap()).unwrap();
        let line = "shortener_operator_watch_errors_total{kind=\"Secret\"} 3";
        assert!(page.contains(line), "{page}");
        report.see(&Ok(Event::<()>::InitDone));
        assert_eq!(report.logged, None);
    }

    #[test]
    fn a_kind_that_reconciles_do_without_leaves_the_operator_ready() {
        let scene = ReportScene::new();
        let mut report = scene.report::<Secret>(false);
        report.see(&refused(403, "no"));
        assert_eq!(scene.health.problems(), [] as [String; 0]);
    }
}
