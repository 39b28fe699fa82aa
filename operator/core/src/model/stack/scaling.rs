//! Scaling of the app of a validated stack.

use crate::api::AppAutoscaling;

/// Scaling of the app by an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppScaling {
    /// Limits of the autoscaler that the spec asks for.
    pub limits: Option<AppAutoscaling>,
    /// Name of an autoscaler of the app that the operator did not make. There is no second one beside it.
    pub rival: Option<String>,
    /// True when another manager owns the number of pods. Until then the operator writes the live one: left out before,
    /// it would fall to 1.
    pub is_left: bool,
}
