//! The ShortenerStack operator: it runs a link-shortening service from one custom resource.
//!
//! Reading order: [`api`], [`reconcile`] and its steps `gather`, `validate`, `build`, `apply` and `status`, then
//! [`controller`], which calls them, and [`inventory`] and [`ledger`], which keep the steady state free of requests.

pub mod api;
pub mod context;
pub mod controller;
pub mod drift;
pub mod http;
pub mod inventory;
pub mod ledger;
pub mod metadata;
pub mod metrics;
pub mod reconcile;
pub mod settings;
pub mod telemetry;

#[cfg(test)]
mod testing;
