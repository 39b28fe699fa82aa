//! The worker: receives jobs from the queue, one at a time, and processes them.
//!
//! `main` reads [`config`], [`run`] connects the parts, [`consumer`] is the only part that talks to the broker,
//! [`processor`] decides the outcome of one message, and [`tasks`] contains the kinds of jobs.

pub mod config;
pub mod consumer;
pub mod ledger;
pub mod metrics;
pub mod outcome;
pub mod processor;
pub mod run;
pub mod tasks;
