//! The clusters of servers that other operators run for the stores of a stack.

/// What another operator runs for a store.
#[derive(Debug, PartialEq, Eq)]
pub struct Runner {
    /// Field of the spec.
    pub field: &'static str,
    /// Name of the store in messages.
    pub noun: &'static str,
    /// Kind of the object that it takes.
    pub kind: &'static str,
    /// API group and version of that kind.
    pub api: &'static str,
    /// Name of the operator.
    pub operator: &'static str,
    /// The operator with the versions that a stack works with.
    pub versions: &'static str,
}
