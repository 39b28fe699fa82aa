//! Helpers of the tests that run on a real cluster.
//!
//! The tests know the operator only from outside: stacks are plain JSON, children are found by their labels, and
//! requests to public routes go through the gateway. Of the operator's crates this one takes only the table of child
//! kinds and the names of annotations.
//!
//! A test takes a [`Space`] (a namespace of its own), applies a [`Stack`], waits with [`await_condition`], and
//! sends requests through the [`GatewayClient`]. When a test fails, the state of its namespace is printed; with
//! `E2E_KEEP=1` the namespace stays.
//!
//! The code is in three modules, each of which uses only those before it: `harness` (the cluster), `clients` (the
//! servers of a stack), `fixtures` (the stacks of the tests).

mod clients;
mod fixtures;
mod harness;

pub use clients::*;
pub use fixtures::*;
pub use harness::*;
