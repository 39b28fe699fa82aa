//! Tests that run in parallel on one cluster: each in a namespace of its own, on a shared stack that it only reads,
//! or on one that is reserved for it.

mod admission;
mod autoscaling;
mod backup;
mod backup_bucket;
mod broker_outages;
mod cache_nonsense;
mod caching;
mod cloud_native_pg;
mod conformance;
mod console;
mod credentials;
mod database;
mod database_move;
mod database_outages;
mod dead_letters;
mod deletion;
mod deliveries;
mod deputies;
mod draining;
mod gateway;
mod gateway_api;
mod isolation;
mod keys;
mod measured;
mod mutations;
mod observability;
mod outages;
mod pod_security;
mod pod_templates;
mod pooler;
mod postgres_move;
mod public_tasks;
mod purge;
mod queue;
mod rabbitmq_cluster;
mod references;
mod short_links;
mod sign_in;
mod status;
mod switches;
mod telemetry_outages;
mod tls;
mod unreadable;
mod vector;
mod vector_outages;
mod workers_by_keda;

// The files of operator/core that `mutations` includes know the resource by this path.
use shortener_operator_core::api;
