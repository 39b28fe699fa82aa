//! The state of a stack's external stores as its own programs see it.
//!
//! The operator asks a program, and does not connect to these stores itself: the users of a stack choose their
//! addresses, and the operator may reach more than they do.

use std::collections::BTreeMap;

use super::metadata::Component;

/// Answers in a row that have to be missing before the state of the stores counts as unknown.
const SILENCE: u32 = 3;

/// A reason why a program cannot use a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The server's certificate has expired or is not valid yet.
    TlsExpired,
    /// No trusted authority signed the server's certificate.
    TlsUntrusted,
    /// The server's certificate is for another name.
    TlsWrongName,
    /// The TLS handshake was refused for another reason.
    TlsRefused,
    /// The server refuses the user, the password, the key, or a right of the user.
    LoginRefused,
    /// The server does not answer, or not in its protocol.
    Unreachable,
    /// The server has no such database, virtual host or master.
    NotFound,
    /// The collection of the vector store differs from the spec.
    OtherCollection,
}

impl StoreFault {
    pub const ALL: [Self; 8] = [
        Self::TlsExpired,
        Self::TlsUntrusted,
        Self::TlsWrongName,
        Self::TlsRefused,
        Self::LoginRefused,
        Self::Unreachable,
        Self::NotFound,
        Self::OtherCollection,
    ];

    /// Returns the fault for which the programs have this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.word() == word)
    }

    /// Returns the fault for which a condition has this reason.
    pub fn of_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.reason() == reason)
    }

    /// Returns the word of the programs.
    fn word(self) -> &'static str {
        match self {
            Self::TlsExpired => "tls_expired",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsWrongName => "tls_name",
            Self::TlsRefused => "tls_refused",
            Self::LoginRefused => "denied",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not_found",
            Self::OtherCollection => "other_collection",
        }
    }

    /// Returns the reason in conditions.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TlsExpired => "TlsExpired",
            Self::TlsUntrusted => "TlsUntrusted",
            Self::TlsWrongName => "TlsWrongName",
            Self::TlsRefused => "TlsRefused",
            Self::LoginRefused => "LoginRefused",
            Self::Unreachable => "Unreachable",
            Self::NotFound => "NotFound",
            Self::OtherCollection => "OtherCollection",
        }
    }
}

/// The state of a store in one answer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// The program does not use the store, and does not know why, or the reason passes by itself.
    Unknown,
    /// The program uses the store.
    Up,
    /// The program cannot use the store for this reason.
    Down(StoreFault),
}

/// One answer of a program: the state of each store that it uses.
pub type StoreStates = BTreeMap<Component, StoreState>;

pub type StoreFaults = BTreeMap<Component, StoreFault>;

/// The known faults of a stack's stores, a state machine: the answers of its programs change it.
///
/// A fault counts at once, unless the store is merely unreachable: a server that restarts is that as well, so the next
/// answer has to repeat it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreRecord {
    faults: StoreFaults,
    last: StoreStates,
    missing: u32,
}

impl StoreRecord {
    /// Returns a record of faults that were known before this process started.
    pub fn remembering(faults: StoreFaults) -> Self {
        Self {
            faults,
            ..Self::default()
        }
    }

    /// Returns the faults that the status shows.
    pub fn faults(&self) -> &StoreFaults {
        &self.faults
    }

    /// Records an answer, or that there is none. Returns true when the faults have changed.
    pub fn hear(&mut self, said: Option<StoreStates>) -> bool {
        let before = self.faults.clone();
        match said {
            Some(states) => self.follow(states),
            None => {
                self.missing = self.missing.saturating_add(1);
                if self.missing >= SILENCE {
                    self.faults.clear();
                    self.last.clear();
                }
            }
        }
        self.faults != before
    }

    fn follow(&mut self, states: StoreStates) {
        self.missing = 0;
        self.faults.retain(|store, _| states.contains_key(store));
        for (&store, &state) in &states {
            let repeated = self.last.get(&store) == Some(&state);
            let known = self.faults.contains_key(&store);
            match state {
                StoreState::Up => {
                    self.faults.remove(&store);
                }
                // A program that has just started does not know either.
                StoreState::Unknown if !repeated => {}
                StoreState::Unknown => {
                    self.faults.remove(&store);
                }
                StoreState::Down(StoreFault::Unreachable) if !repeated && !known => {}
                StoreState::Down(fault) => {
                    self.faults.insert(store, fault);
                }
            }
        }
        self.last = states;
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreState::*, *};

    /// Hears these states of the cache one after the other; returns the fault after each.
    fn faults(record: &mut StoreRecord, said: &[Option<StoreState>]) -> Vec<Option<StoreFault>> {
        let hear = |state: &Option<StoreState>| {
            let before = record.faults().clone();
            let states = state.map(|state| StoreStates::from([(Component::Cache, state)]));
            let changed = record.hear(states);
            assert_eq!(changed, before != *record.faults(), "{state:?}");
            record.faults().get(&Component::Cache).copied()
        };
        said.iter().map(hear).collect()
    }

    #[test]
    fn the_settings_are_to_blame_at_once_and_the_network_after_two_answers() {
        let (expired, away) = (StoreFault::TlsExpired, StoreFault::Unreachable);
        let mut record = StoreRecord::default();
        let said = [
            Up,
            Down(expired),
            Up,
            Down(away),
            Up,
            Down(away),
            Down(away),
        ]
        .map(Some);
        let expected = [None, Some(expired), None, None, None, None, Some(away)];
        assert_eq!(faults(&mut record, &said), expected);
        // A server that stops with a fault has one already.
        let said = [Down(expired), Down(away), Up].map(Some);
        let expected = [Some(expired), Some(away), None];
        assert_eq!(faults(&mut record, &said), expected);
    }

    #[test]
    fn a_program_that_starts_or_is_silent_for_a_moment_changes_nothing() {
        let denied = StoreFault::LoginRefused;
        let known = StoreFaults::from([(Component::Cache, denied)]);
        let mut record = StoreRecord::remembering(known);
        let said = [Some(Unknown), Some(Down(denied)), None, None, Some(Unknown)];
        assert_eq!(faults(&mut record, &said), [Some(denied); 5]);
        assert_eq!(faults(&mut record, &[Some(Unknown)]), [None]);
        let said = [Some(Down(denied)), None, None, None];
        let expected = [Some(denied), Some(denied), Some(denied), None];
        assert_eq!(faults(&mut record, &said), expected);
    }

    #[test]
    fn a_store_that_is_not_used_any_more_has_no_fault() {
        let mut record = StoreRecord::default();
        faults(&mut record, &[Some(Down(StoreFault::TlsExpired))]);
        assert!(record.hear(Some(StoreStates::new())));
        assert!(record.faults().is_empty());
    }

    #[test]
    fn words_and_reasons_lead_back_to_their_fault() {
        for fault in StoreFault::ALL {
            assert_eq!(StoreFault::of_word(fault.word()), Some(fault));
            assert_eq!(StoreFault::of_reason(fault.reason()), Some(fault));
        }
        assert_eq!(StoreFault::of_word("TlsExpired"), None);
        assert_eq!(StoreFault::of_reason("External"), None);
    }
}
