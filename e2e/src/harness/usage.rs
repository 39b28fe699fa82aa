//! Memory and processor time of a pod's container, second by second, as its control group counts them.

use std::{str::FromStr, time::Duration};

use anyhow::{Context, Error, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};

use crate::harness::joined::{CONTAINER, join};

/// Prints a reading every second, without starting another program but `sleep`. Files of both versions of control
/// groups; older kernels have no `memory.peak`.
const SCRIPT: &str = r#"
set -euo pipefail
cd /proc/1/root/sys/fs/cgroup
if [[ -e memory.current ]]; then
  usage=memory.current peak=memory.peak stat=memory.stat anonymous=anon inactive=inactive_file
else
  usage=memory/memory.usage_in_bytes peak=memory/memory.max_usage_in_bytes stat=memory/memory.stat
  anonymous=total_rss inactive=total_inactive_file
fi
field() {
  local key value
  while read -r key value; do
    if [[ $key == "$2" ]]; then
      found=$value
      return
    fi
  done <"$1"
  return 1
}
while :; do
  read -r uptime _ </proc/uptime
  read -r all <"$usage"
  highest=$all
  if [[ -e $peak ]]; then read -r highest <"$peak"; fi
  field "$stat" "$anonymous"
  private=$found
  field "$stat" "$inactive"
  unused=$((found < all ? found : all))
  if [[ -e cpu.stat ]]; then
    field cpu.stat usage_usec
  else
    read -r found <cpuacct/cpuacct.usage
    found=$((found / 1000))
  fi
  printf '%s %s %s %s %s\n' "$uptime" "$((all - unused))" "$highest" "$private" "$found"
  sleep 1
done
"#;

/// A reading of a container's control group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// The time since the node has started.
    pub uptime: Duration,
    /// The memory in bytes without inactive pages of files, as the kubelet and `kubectl top` count it.
    pub working_set: u64,
    /// The highest memory since the container has started, in bytes, with all pages of files.
    pub highest: u64,
    /// The memory in bytes that no file backs.
    pub anonymous: u64,
    /// The processor time since the container has started.
    pub processor: Duration,
}

impl FromStr for Usage {
    type Err = Error;

    /// Reads a line of the script.
    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().context("the line ends early");
        Ok(Self {
            uptime: Duration::try_from_secs_f64(word()?.parse()?)?,
            working_set: word()?.parse()?,
            highest: word()?.parse()?,
            anonymous: word()?.parse()?,
            processor: Duration::from_micros(word()?.parse()?),
        })
    }
}

/// A meter in a pod, which reads once a second. It stays there as long as the pod.
pub struct UsageMeter {
    pods: Api<Pod>,
    pod: String,
}

impl UsageMeter {
    /// Joins a pod by a container of an image with bash.
    pub async fn join(pods: &Api<Pod>, pod: &Pod, image: &str) -> Result<Self> {
        Ok(Self {
            pods: pods.clone(),
            pod: join(pods, pod, image, &["bash", "-c", SCRIPT]).await?,
        })
    }

    /// Returns every reading since the meter joined, the oldest first.
    pub async fn readings(&self) -> Result<Vec<Usage>> {
        let parameters = LogParams {
            container: Some(CONTAINER.to_owned()),
            ..LogParams::default()
        };
        let log = self.pods.logs(&self.pod, &parameters).await?;
        let readings = log.lines().map(|line| {
            let reading = line.parse::<Usage>();
            reading.with_context(|| format!("the meter in pod {} printed {line}", self.pod))
        });
        readings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_script_is_a_reading() {
        let reading = "81.25 5000 9000 4000 1500000".parse::<Usage>();
        let expected = Usage {
            uptime: Duration::from_millis(81_250),
            working_set: 5000,
            highest: 9000,
            anonymous: 4000,
            processor: Duration::from_millis(1500),
        };
        assert_eq!(reading.ok(), Some(expected));
    }

    #[test]
    fn a_line_that_is_no_reading_is_an_error() {
        assert!("81.25 5000".parse::<Usage>().is_err());
        assert!("cat: memory.current: gone".parse::<Usage>().is_err());
    }
}
