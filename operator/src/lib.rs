//! The ShortenerStack operator, which runs a link-shortening service from one custom resource.
//!
//! Reading order: [`api`], [`reconcile`] and its steps `gather`, `validate`, `build`, `apply` and `status`, then
//! [`controller`], which calls them, and [`inventory`] and [`ledger`], which keep the steady state free of writes.

pub mod access;
pub mod api;
pub mod broker;
pub mod client;
pub mod context;
pub mod controller;
pub mod deadline;
pub mod dlq;
pub mod drift;
pub mod fence;
pub mod http;
pub mod inventory;
pub mod leader;
pub mod ledger;
pub mod metadata;
pub mod metrics;
pub mod monitoring;
pub mod queues;
pub mod reconcile;
pub mod reference;
pub mod run;
pub mod settings;
pub mod telemetry;
pub mod write_deadline;
pub mod yaml;

#[cfg(test)]
mod testing;
