//! Numbers of pods that follow the load.

use kube_core::Rule;
use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::defaults::number;

/// Lets a HorizontalPodAutoscaler choose the number of app pods by their CPU utilization. `replicas` then has no
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = ordered("app"))]
#[serde(rename_all = "camelCase")]
pub struct AppAutoscaling {
    /// Smallest number of pods.
    #[serde(default = "number::<2>")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: i32,
    /// Largest number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Target average CPU utilization, as a percentage of the CPU request.
    #[serde(default = "number::<80>", rename = "targetCPUUtilizationPercentage")]
    #[schemars(range(min = 1, max = 10_000))]
    pub target_cpu_utilization_percentage: i32,
}

/// Lets the operator choose the number of workers by the number of jobs in a queue that it manages. `replicas` then has
/// no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = ordered("workers"))]
#[serde(rename_all = "camelCase")]
pub struct WorkersAutoscaling {
    /// Smallest number of pods. With 0, no worker runs while there is no job, and the first job starts one.
    #[serde(default = "number::<1>")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_replicas: i32,
    /// Largest number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Target number of jobs per worker, both waiting and in progress.
    #[serde(default = "number::<10>")]
    #[schemars(range(min = 1, max = 100_000))]
    pub jobs_per_worker: i32,
    /// Seconds during which fewer workers must have sufficed before the operator removes any. Values below 15 count as 15,
    /// because the broker's statistics lag by a few seconds.
    #[serde(default = "number::<300>")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: i32,
}

/// Returns the rule that the smallest number of pods is not above the largest one.
fn ordered(component: &str) -> Rule {
    let message = format!(
        "{component}.autoscaling.minReplicas is above maxReplicas: lower the first or raise the second"
    );
    Rule::new("!has(self.minReplicas) || self.minReplicas <= self.maxReplicas")
        .message(message.as_str())
}
