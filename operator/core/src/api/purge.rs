//! The removal of expired data.

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::rules::schedule_or_never;

/// The removal of expired data: the destinations of expired links, whose codes stay taken, and old entries of the ledger
/// of jobs, of the keys of requests and of the audit log. The CronJob `<stack>-purge` does it at each time, except while the stack is paused
/// or stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct PurgeSpec {
    /// Times in UTC, as the five fields of cron: minute, hour, day of the month, month, day of the week (0 is Sunday), in
    /// numbers, rising ranges and steps; or `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`. `17 3 * * *` (every day
    /// at 3:17) by default, and never if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    #[x_kube(validation = schedule_or_never("workers.purge.schedule"))]
    pub schedule: Option<String>,
    /// Number of days for which finished jobs stay in the ledger; 30 by default. Jobs of clients without a key stay for one
    /// day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: Option<i32>,
    /// Number of days for which entries of the audit log of management stay; 400 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub audit_days: Option<i32>,
    /// Number of days for which documents of clients without a key stay after their last change; for ever if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub document_days: Option<i32>,
}

#[cfg(test)]
mod tests {
    use kube_cel::Validator;
    use kube_core::CustomResourceExt;
    use serde_json::{Value, json};

    use crate::api::ShortenerStack;

    fn is_admitted(schema: &Value, schedule: &str) -> bool {
        let stack = json!({
            "metadata": {"name": "acme"},
            "spec": {"workers": {"purge": {"schedule": schedule}}},
        });
        let verdict = Validator::new().validate(schema, &stack, None);
        if let Err(errors) = &verdict {
            let errors = format!("{errors:?}");
            assert!(errors.contains("is not a schedule"), "{errors}");
        }
        verdict.is_ok()
    }

    #[test]
    fn a_schedule_is_admitted_if_a_cron_job_takes_it() {
        let definition = serde_json::to_value(ShortenerStack::crd()).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for schedule in [
            "",
            "17 3 * * *",
            "* * * * *",
            "*/15 8-17 * * 1-5",
            "0,30 2-22/2 1,15 */3 0",
            "59 23 31 12 6",
            "05 03-10 01 01 00",
            "@daily",
            "@hourly",
        ] {
            assert!(is_admitted(schema, schedule), "{schedule:?}");
        }
        for schedule in [
            "60 3 * * *",
            "17 24 * * *",
            "17 3 0 * *",
            "17 3 32 * *",
            "17 3 * 13 *",
            "17 3 * JAN *",
            // Kubernetes knows Sunday as 0 only.
            "17 3 * * 7",
            "5/10 3 * * *",
            "*/0 3 * * *",
            "*/05 3 * * *",
            "*/100 3 * * *",
            "005 3 * * *",
            "1, 3 * * *",
            "1-2-3 3 * * *",
            "+5 3 * * *",
            "17  3 * * *",
            " 17 3 * * *",
            "17 3 * * * *",
            "17 3 * *",
            "@every 5m",
            "@reboot",
            "TZ=Europe/Berlin 17 3 * * *",
        ] {
            assert!(!is_admitted(schema, schedule), "{schedule:?}");
        }
    }
}
