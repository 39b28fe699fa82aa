//! Clients of the servers of a stack and beside it. They use `harness`, and not `fixtures`.

mod answer;
mod broker;
mod documents;
mod echoed;
mod flood;
mod gateway;
mod https;
mod jobs;
mod load;
mod object_store;
mod prometheus;
mod qdrant;
mod redirect_times;
mod sign_in;
mod sink;
mod trace;
mod valkey;
mod writer;

pub use answer::Answer;
pub use broker::{Broker, Depth, publication};
pub use documents::{Hit, hits};
pub use echoed::Echoed;
pub use flood::{
    FLOOD_BEGINS, FLOOD_CODE, FLOOD_LABEL, Flood, FloodArguments, Head, LONGEST_FLOOD,
    RunningFlood, Tally,
};
pub use gateway::{GatewayClient, Provider};
pub use jobs::{Job, log_of_job, wait_job};
pub use load::{Load, LoadReport};
pub use object_store::ObjectStore;
pub use prometheus::{Exemplar, Prometheus};
pub use qdrant::Qdrant;
pub use redirect_times::redirects_are_right_and_quick;
pub use sign_in::{ASK, SIGNED_IN, start_sign_in};
pub use sink::{SINK_ENDPOINT, Sink, SinkMode};
pub use trace::{Caller, Link, Record, Span, Trace};
pub use valkey::valkey;
pub use writer::Writer;
