//! The stacks of the tests: their specs, those that tests share, and those that are reserved for one test at a time.

mod certificate;
mod examples;
mod observed;
mod reserved_stack;
mod serve;
mod shared_stack;
mod spec;

pub use examples::Examples;
pub use observed::{Observed, with_telemetry};
pub use reserved_stack::{
    Reservation, every_profile, give_up_profiled_stacks, observed_stack,
    stopped_with_every_profile, with_cache, with_every_profile, with_queue, with_vector,
    with_vector_and_queue,
};
pub use shared_stack::{
    DENIED, HOME, KEYS, ORIGIN, PROXY_SECRET, SharedStack, echo_stack, keyed_stack, real_stack,
};
pub use spec::{base_spec, echo_spec, small, small_broker_cluster, with_env};
