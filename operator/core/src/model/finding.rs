//! The result of a probe that is repeated: a state machine.

/// The answer of one probe.
pub trait ProbeResult {
    /// Returns true when the answer is as it should be.
    fn is_good(&self) -> bool;

    /// Returns true when the status says the same of both answers.
    fn is_as(&self, other: &Self) -> bool;
}

/// The known answer to a probe. A good one counts at once; a bad one has to be repeated, because a pod that starts or
/// ends, and a policy that is not in force yet, are no fault.
#[derive(Clone, Debug)]
pub struct Finding<T> {
    known: Option<T>,
    doubted: bool,
}

impl<T: ProbeResult> Finding<T> {
    /// Returns the finding of an answer that was known before this process started.
    pub fn remembering(known: Option<T>) -> Self {
        Self {
            known,
            doubted: false,
        }
    }

    /// Returns the answer that the status shows; `None` until there is one.
    pub fn known(&self) -> Option<&T> {
        self.known.as_ref()
    }

    /// Records an answer, or that the probe proved nothing. Returns true when the status should change.
    pub fn hear(&mut self, answer: Option<T>) -> bool {
        let Some(answer) = answer else {
            return false;
        };
        let repeated = std::mem::replace(&mut self.doubted, false);
        if self
            .known
            .as_ref()
            .is_some_and(|known| known.is_as(&answer))
        {
            return false;
        }
        if !answer.is_good() && !repeated {
            self.doubted = true;
            return false;
        }
        self.known = Some(answer);
        true
    }

    /// Returns true when the last answer counts only if the next one repeats it.
    pub fn is_in_doubt(&self) -> bool {
        self.doubted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that is good if it is 0. The second number is a detail.
    type Probed = (u8, u8);

    impl ProbeResult for Probed {
        fn is_good(&self) -> bool {
            self.0 == 0
        }

        fn is_as(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    #[test]
    fn a_bad_answer_counts_when_it_is_repeated_and_a_good_one_at_once() {
        let mut finding = Finding::remembering(None);
        let said = [
            (Some((1, 0)), false, None),
            (Some((0, 1)), true, Some((0, 1))),
            (Some((0, 2)), false, Some((0, 1))),
            (Some((1, 3)), false, Some((0, 1))),
            (None, false, Some((0, 1))),
            (Some((1, 4)), true, Some((1, 4))),
            (Some((1, 5)), false, Some((1, 4))),
            (Some((2, 6)), false, Some((1, 4))),
            (Some((0, 7)), true, Some((0, 7))),
            (Some((2, 8)), false, Some((0, 7))),
            (Some((0, 9)), false, Some((0, 7))),
            (Some((2, 10)), false, Some((0, 7))),
        ];
        for (answer, changes, known) in said {
            assert_eq!(finding.hear(answer), changes, "{answer:?}");
            assert_eq!(finding.known().copied(), known, "{answer:?}");
        }
        assert!(finding.is_in_doubt());
    }
}
