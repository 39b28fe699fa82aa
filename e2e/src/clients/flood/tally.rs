//! What became of the requests of a flood.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The requests of a flood by their outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Answered ones by their status.
    pub answers: BTreeMap<u16, u64>,
    /// Those without an answer: the connection ended, or the client did not wait any longer.
    pub unanswered: u64,
}

impl Tally {
    /// Counts a request by the status of its answer.
    pub fn count(&mut self, status: Option<u16>) {
        match status {
            Some(status) => *self.answers.entry(status).or_default() += 1,
            None => self.unanswered += 1,
        }
    }

    /// Adds the requests of another client.
    pub fn add(&mut self, other: Self) {
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.unanswered += other.unanswered;
    }

    /// Returns the number of answers with this status.
    pub fn with(&self, status: u16) -> u64 {
        self.answers.get(&status).copied().unwrap_or_default()
    }

    /// Returns the number of all requests.
    pub fn all(&self) -> u64 {
        self.unanswered + self.answers.values().sum::<u64>()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests", self.all())?;
        for (status, count) in &self.answers {
            write!(formatter, ", {count} answered with {status}")?;
        }
        write!(formatter, ", {} unanswered", self.unanswered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_all_clients_are_added_up() {
        let mut all = Tally::default();
        for status in [Some(404), Some(503), None] {
            let mut one = Tally::default();
            one.count(status);
            one.count(Some(404));
            all.add(one);
        }
        assert_eq!((all.with(404), all.with(503), all.with(200)), (4, 1, 0));
        let told = "6 requests, 4 answered with 404, 1 answered with 503, 1 unanswered";
        assert_eq!(all.to_string(), told);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), all);
    }
}
