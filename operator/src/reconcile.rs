//! One reconcile: five steps in a fixed order.

pub mod build;
pub mod desired;
pub mod stack;
