//! Helpers of the tests that run on a real cluster.
//!
//! The tests know the operator only from outside: stacks are plain JSON, children are found by their labels, and
//! requests to public routes go through the gateway. So this crate does not depend on the operator's.
//!
//! A test takes a [`Space`] (a namespace of its own), applies a [`Stack`], waits with [`await_condition`], and
//! sends requests through the [`GatewayClient`]. When a test fails, the state of its namespace is printed; with
//! `E2E_KEEP=1` the namespace stays.

mod broker;
mod children;
mod docs;
mod door;
mod dump;
mod echoed;
mod jobs;
mod kubectl;
mod load;
mod meter;
mod observed;
mod operator;
mod outage;
mod pace;
mod pods;
mod prometheus;
mod qdrant;
mod release;
mod server;
mod settings;
mod shared;
mod sink;
mod space;
mod spec;
mod stack;
mod valkey;
mod wait;

pub use broker::{Broker, Depth, MANAGEMENT_PORT};
pub use children::{CHILD_KINDS, Child, Kind, children_of};
pub use docs::{Hit, hits};
pub use door::{Answer, GatewayClient};
pub use echoed::Echoed;
pub use jobs::{Job, log_of_job, pods_of, wait_job};
pub use kubectl::{Forward, kubectl, kubectl_with_input};
pub use load::{LoadReport, follow_links, under_load};
pub use meter::{Meter, Reading};
pub use observed::{Observed, log_lines, settled, with_telemetry};
pub use operator::{OPERATOR_NAMESPACE, Operator};
pub use pace::redirects_are_right_and_quick;
pub use pods::{is_ready, restricted_container, restricted_pod, run_script};
pub use prometheus::{Exemplar, Prometheus};
pub use qdrant::Qdrant;
pub use release::{Release, checkout};
pub use settings::Settings;
pub use shared::{
    Provider, SharedStack, echo_stack, every_profile, give_up_profiled_stacks, observed_stack,
    real_stack, with_cache, with_every_profile, with_queue, with_vector, with_vector_and_queue,
};
pub use sink::{Caller, Link, Record, SINK_ENDPOINT, Sink, SinkMode, Span, Trace};
pub use space::Space;
pub use spec::{base_spec, echo_spec, merge};
pub use stack::{Condition, Stack, condition_of, conditions_of, stack_resource};
pub use valkey::valkey;
pub use wait::{PATIENCE, await_condition, await_within, holds_for};
