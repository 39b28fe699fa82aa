//! The memory of a pod's container, as its control group counts it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::harness::{
    Curve, Space, Stack,
    joined::{CONTAINER, join},
    kubectl, pods_of,
};

/// The number of readings of a curve.
const READINGS: u32 = 60;
/// Prints the limit and then the readings; the arguments are their number and the pause in seconds. Files of both
/// versions of control groups.
const SCRIPT: &str = r#"
set -euo pipefail
cd /proc/1/root/sys/fs/cgroup
limit=memory.max usage=memory.current
if [[ ! -e $usage ]]; then limit=memory/memory.limit_in_bytes usage=memory/memory.usage_in_bytes; fi
cat "$limit"
for ((reading = 0; reading < $1; reading++)); do
  cat "$usage"
  sleep "$2"
done
"#;

/// A meter in a pod. It stays there as long as the pod.
pub struct MemoryMeter {
    stack: Stack,
    pod: String,
}

impl MemoryMeter {
    /// Joins the only pod of a component.
    pub async fn join(space: &Space, stack: &Stack, component: &str) -> Result<Self> {
        let found = pods_of(stack, component).await?;
        ensure!(
            found.len() == 1,
            "{component} has {} pods, not 1",
            found.len()
        );
        let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
        let image = &space.settings.postgres_image;
        Ok(Self {
            stack: stack.clone(),
            pod: join(&pods, &found[0], image, &["sleep", "infinity"]).await?,
        })
    }

    /// Reads the memory 60 times, for this time in all.
    pub async fn read(&self, time: Duration) -> Result<Curve> {
        let readings = READINGS.to_string();
        let pause = (time / READINGS).as_secs_f32().to_string();
        let arguments = [
            "exec",
            self.pod.as_str(),
            "--container",
            CONTAINER,
            "--",
            "bash",
            "-c",
            SCRIPT,
            CONTAINER,
            readings.as_str(),
            pause.as_str(),
        ];
        let printed = kubectl(&self.stack, &arguments).await?;
        let mut lines = printed.lines().map(|line| {
            let bytes = line.trim().parse::<u64>();
            bytes.with_context(|| format!("the meter in pod {} printed {line}", self.pod))
        });
        let limit = lines.next().context("the meter printed nothing")??;
        Ok(Curve {
            limit,
            readings: lines.collect::<Result<_>>()?,
        })
    }
}
