//! Tests that run side by side on one cluster: each in a namespace of its own or on a shared stack that it only reads.

mod admission;
mod caching;
mod conformance;
mod credentials;
mod database;
mod dead_letters;
mod deletion;
mod draining;
mod gateway;
mod isolation;
mod outages;
mod pod_security;
mod queue;
mod status;
mod switches;
mod unreadable;
