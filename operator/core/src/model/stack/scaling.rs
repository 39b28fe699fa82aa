//! Scaling of the app of a validated stack.

use crate::api::AppAutoscaling;

/// Scaling of the app by an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppScaling {
    /// Limits of the autoscaler that the spec asks for.
    pub limits: Option<AppAutoscaling>,
    /// There is no second autoscaler beside this one.
    pub rival: Option<Rival>,
    /// True when another manager owns the number of pods. Until then the operator writes the live one: left out before,
    /// it would fall to 1.
    pub is_left: bool,
}

/// An autoscaler of the app that the operator did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Name of the HorizontalPodAutoscaler.
    pub name: String,
    /// Largest number of pods.
    pub most: i32,
}

impl AppScaling {
    /// Returns the largest number of pods that an autoscaler may choose; `None` if the last one is gone.
    pub fn most(&self) -> Option<i32> {
        let of_rival = self.rival.as_ref().map(|rival| rival.most);
        of_rival.or(self.limits.map(|limits| limits.max_replicas))
    }
}
