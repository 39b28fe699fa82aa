//! The state of a stack's stores as its own programs see it.
//!
//! The operator asks a program, and does not connect to external stores itself: the users of a stack choose their
//! addresses, and the operator may reach more than they do.

use std::collections::BTreeMap;

use super::{finding::ProbeResult, metadata::Component};

/// A reason why a program cannot use a store, or not for everything.
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
    /// The database is so full that it takes no jobs and documents of clients without keys.
    RecordsReserved,
    /// The database is so full that it takes no links of clients without keys.
    LinksReserved,
}

impl StoreFault {
    pub const ALL: [Self; 10] = [
        Self::TlsExpired,
        Self::TlsUntrusted,
        Self::TlsWrongName,
        Self::TlsRefused,
        Self::LoginRefused,
        Self::Unreachable,
        Self::NotFound,
        Self::OtherCollection,
        Self::RecordsReserved,
        Self::LinksReserved,
    ];

    /// Returns the fault for which the programs have this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.names().0 == word)
    }

    /// Returns the fault for which a condition has this reason.
    pub fn of_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.reason() == reason)
    }

    /// Returns the reason in conditions.
    pub fn reason(self) -> &'static str {
        self.names().1
    }

    /// Returns the word of the programs and the reason in conditions.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::TlsExpired => ("tls_expired", "TlsExpired"),
            Self::TlsUntrusted => ("tls_untrusted", "TlsUntrusted"),
            Self::TlsWrongName => ("tls_name", "TlsWrongName"),
            Self::TlsRefused => ("tls_refused", "TlsRefused"),
            Self::LoginRefused => ("denied", "LoginRefused"),
            Self::Unreachable => ("unreachable", "Unreachable"),
            Self::NotFound => ("not_found", "NotFound"),
            Self::OtherCollection => ("other_collection", "OtherCollection"),
            Self::RecordsReserved => ("records_reserved", "RecordsReserved"),
            Self::LinksReserved => ("links_reserved", "LinksReserved"),
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
    /// The program cannot use the store for this reason, or not for everything.
    Down(StoreFault),
}

/// One answer of a program: the state of each store that it uses.
pub type StoreStates = BTreeMap<Component, StoreState>;

pub type StoreFaults = BTreeMap<Component, StoreFault>;

impl ProbeResult for StoreFaults {
    fn is_good(&self) -> bool {
        self.is_empty()
    }

    fn is_as(&self, other: &Self) -> bool {
        self == other
    }
}

/// Returns the faults in an answer. A store whose state is unknown keeps the one that is known: a program that has just
/// started knows no state yet.
pub fn faults(states: &StoreStates, known: &StoreFaults) -> StoreFaults {
    let fault = |(store, state): (&Component, &StoreState)| {
        let fault = match state {
            StoreState::Up => None,
            StoreState::Unknown => known.get(store).copied(),
            StoreState::Down(fault) => Some(*fault),
        };
        Some((*store, fault?))
    };
    states.iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_unknown_state_keeps_its_fault_and_one_that_is_not_used_has_none() {
        let (denied, expired) = (StoreFault::LoginRefused, StoreFault::TlsExpired);
        let known = StoreFaults::from([
            (Component::Cache, denied),
            (Component::Postgres, denied),
            (Component::Qdrant, denied),
        ]);
        let states = StoreStates::from([
            (Component::Cache, StoreState::Unknown),
            (Component::Postgres, StoreState::Up),
            (Component::Rabbitmq, StoreState::Down(expired)),
        ]);
        let expected = [(Component::Cache, denied), (Component::Rabbitmq, expired)];
        assert_eq!(faults(&states, &known), expected.into());
        let unknown = StoreStates::from([(Component::Cache, StoreState::Unknown)]);
        assert!(faults(&unknown, &StoreFaults::new()).is_empty());
    }

    #[test]
    fn words_and_reasons_lead_back_to_their_fault() {
        for fault in StoreFault::ALL {
            assert_eq!(StoreFault::of_word(fault.names().0), Some(fault));
            assert_eq!(StoreFault::of_reason(fault.reason()), Some(fault));
        }
        assert_eq!(StoreFault::of_word("TlsExpired"), None);
        assert_eq!(StoreFault::of_reason("External"), None);
    }
}
