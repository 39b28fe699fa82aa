//! The rate limit of a request, and what is left of it.

use std::time::Duration;

use http::{HeaderMap, Method};

use super::facts::RequestFacts;
use crate::{
    error::Error,
    limits::{Limit, Question},
    state::SharedState,
};

/// The rate limit that applies to a request, if any, and the state of its buckets.
pub(super) struct Allowance<'a> {
    limit: Option<&'a Limit>,
    /// The tokens that the request costs.
    cost: u32,
    /// The question to the bucket that all replicas share, if that bucket decides.
    question: Option<Question<'a>>,
    /// The time until the emptier of the two buckets is full again.
    refill: Duration,
}

impl<'a> Allowance<'a> {
    /// Returns the rate limit of a request, before tokens are taken.
    pub(super) fn of(state: &'a SharedState, facts: &RequestFacts<'_>) -> Self {
        let creates = *facts.method == Method::POST && facts.route.row().creates;
        let limits = match facts.identity {
            None => &state.limits,
            Some(_) => &state.key_limits,
        };
        let limit = match creates {
            true => &limits.shorten,
            false => &limits.requests,
        };
        let limit = limit.as_ref();
        Self {
            limit,
            cost: limit.map_or(0, |limit| limit.cost(facts.body)),
            question: None,
            refill: Duration::ZERO,
        }
    }

    /// Takes the tokens out of this replica's bucket.
    pub(super) fn take(&mut self, facts: &RequestFacts<'_>) -> Result<(), Error> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let taken = limit.take(facts.bucket(), self.cost);
        let taken = taken.map(|(refill, question)| {
            self.question = question;
            refill
        });
        self.note(limit, taken, facts)
    }

    /// Asks the bucket that all replicas share, if it decides.
    pub(super) async fn take_shared(&mut self, facts: &RequestFacts<'_>) -> Result<(), Error> {
        match (self.limit, self.question.take()) {
            (Some(limit), Some(question)) => {
                // In a box, because few requests ask.
                let taken = Box::pin(question.ask()).await;
                self.note(limit, taken, facts)
            }
            _ => Ok(()),
        }
    }

    fn note(
        &mut self,
        limit: &Limit,
        taken: Result<Duration, Duration>,
        facts: &RequestFacts<'_>,
    ) -> Result<(), Error> {
        let (refill, result) = match taken {
            Ok(refill) => (refill, Ok(())),
            Err(wait) => (
                limit.refill_of_empty(self.cost, wait),
                Err(facts.rate_limited(wait)),
            ),
        };
        self.refill = self.refill.max(refill);
        result
    }

    /// Tells the client its limit, and what is left of it.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        if let Some(limit) = self.limit {
            limit.tell(self.refill, headers);
        }
    }
}
