//! The worker: takes jobs off the queue, one at a time, and does them.
//!
//! `main` reads [`config`], [`run`] wires everything together, [`consumer`] is the only part that knows the broker,
//! [`processor`] decides what becomes of one message, and [`tasks`] holds what jobs can ask for.

pub mod config;
pub mod consumer;
pub mod ledger;
pub mod metrics;
pub mod processor;
pub mod run;
pub mod stop;
pub mod tasks;
