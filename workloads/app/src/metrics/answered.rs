//! A request as the metrics see it.

use std::time::Duration;

use http::{Method, StatusCode};
use shortener_common::trace::TraceContext;
use tokio::time::Instant;

use crate::route::Route;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    pub route: Route,
    pub method: &'a Method,
    /// The status of the answer.
    pub status: StatusCode,
    /// Its position in its trace.
    pub trace: TraceContext,
    /// The time at which it began.
    pub start: Instant,
    /// The time that it took.
    pub duration: Duration,
}

impl<'a> Answered<'a> {
    /// Returns a request that was answered just now, in no time, for a look at what is exported.
    #[must_use]
    pub fn at_once(
        route: Route,
        method: &'a Method,
        status: StatusCode,
        trace: TraceContext,
    ) -> Self {
        Self {
            route,
            method,
            status,
            trace,
            start: Instant::now(),
            duration: Duration::ZERO,
        }
    }
}
