//! Access to the brokers: the management API, and the known state of the stacks' queues.

pub mod broker;
pub mod queues;
