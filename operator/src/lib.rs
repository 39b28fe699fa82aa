//! The ShortenerStack operator, which runs a link-shortening service from one custom resource.
//!
//! The crate `shortener-operator-core` makes every decision and is pure. This crate reads the facts, writes the
//! objects, talks to brokers, asks pods and tries what users and intruders would. Its modules use only those after them in this list:
//! [`run`] and [`cli`], [`short_links`] and [`drills`], [`reconcile`], [`kubernetes`], [`probes`], [`rabbitmq`], [`registry`], [`transport`] and [`workers`],
//! [`leadership`], [`server`], [`telemetry`].

pub mod cli;
pub mod drills;
pub mod kubernetes;
pub mod leadership;
pub mod probes;
pub mod rabbitmq;
pub mod reconcile;
pub mod registry;
pub mod run;
pub mod server;
pub mod short_links;
pub mod telemetry;
pub mod transport;
pub mod workers;

#[cfg(test)]
mod testing;
