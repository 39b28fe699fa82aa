//! The state of the stores as a process sees it, without any text from outside.
//!
//! The operator asks a pod for it at `/backends` of the internal port, and shows it in the status of the stack. It does
//! not connect to the stores itself, because the users of a stack choose their addresses.

use std::error::Error;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::tls;

crate::words! {
    /// A reason why a store cannot be used, or not for everything. The operator knows it by its word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum Fault {
        /// That of the server, or of an intermediate authority.
        #[error("the server's certificate has expired or is not valid yet")]
        TlsExpired = "tls_expired",
        #[error("the server's certificate is not signed by a trusted authority")]
        TlsUntrusted = "tls_untrusted",
        #[error("the server's certificate is for another name")]
        TlsName = "tls_name",
        /// The server or this program refused it for another reason, such as a missing client certificate.
        #[error("the TLS handshake was refused")]
        TlsRefused = "tls_refused",
        #[error("the server refuses the user, the password, the key, or a right of the user")]
        Denied = "denied",
        #[error("the server does not answer, or not in its protocol")]
        Unreachable = "unreachable",
        #[error("the server has no such database, virtual host or master")]
        NotFound = "not_found",
        #[error("the collection of the vector store differs from the settings")]
        OtherCollection = "other_collection",
        #[error("the database takes no jobs and documents of clients without keys")]
        RecordsReserved = "records_reserved",
        #[error("the database takes no links of clients without keys")]
        LinksReserved = "links_reserved",
    }
}

impl Fault {
    /// Returns true if the store is used, but not for everything.
    pub fn is_partial(self) -> bool {
        matches!(self, Self::RecordsReserved | Self::LinksReserved)
    }

    /// Returns the fault of a connection that failed before the server could refuse anything.
    pub fn of_connection(error: &(dyn Error + 'static)) -> Self {
        tls::fault(error).unwrap_or(Self::Unreachable)
    }
}

/// The reason why a store cannot be used, as text for the log and, if it is one of the faults, as such.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    pub reason: String,
    pub fault: Option<Fault>,
}

/// The state of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreState {
    /// The store is not used, and the reason is unknown or passes by itself.
    #[default]
    Unknown,
    /// The store is used.
    Up,
    /// The store cannot be used for this reason, or not for everything.
    Down(Fault),
}

impl StoreState {
    fn to_json(self) -> Value {
        match self {
            Self::Unknown => json!({"up": false}),
            Self::Up => json!({"up": true}),
            Self::Down(fault) => json!({"up": false, "fault": fault.as_str()}),
        }
    }
}

/// The state of a store, kept up to date by the task that maintains the connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(watch::Sender<StoreState>);

impl Health {
    /// Records that the store is used.
    pub fn up(&self) {
        self.0.send_replace(StoreState::Up);
    }

    /// Records that the store is not used.
    pub fn failed(&self, fault: Option<Fault>) {
        let state = fault.map_or(StoreState::Unknown, StoreState::Down);
        self.0.send_replace(state);
    }

    pub fn state(&self) -> StoreState {
        *self.0.borrow()
    }
}

/// The states of the stores that a process uses, under the names that they have in the spec of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    pub database: StoreState,
    /// The cache; `None` if the process uses none.
    pub cache: Option<StoreState>,
    /// The message broker; `None` if the process uses none.
    pub queue: Option<StoreState>,
    /// The vector store; `None` if the process uses none.
    pub vector: Option<StoreState>,
}

impl Backends {
    /// Returns the answer of `/backends`.
    pub fn to_json(self) -> Value {
        let stores = [
            ("database", Some(self.database)),
            ("cache", self.cache),
            ("queue", self.queue),
            ("vector", self.vector),
        ];
        let used = stores.into_iter().filter_map(|(name, state)| {
            let state = state?.to_json();
            Some((name.to_owned(), state))
        });
        Value::Object(used.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::CertificateError;

    use super::*;

    #[test]
    fn an_answer_names_the_stores_in_use_each_with_a_word_of_its_own() {
        let health = Health::default();
        let answer = |queue| {
            let backends = Backends {
                database: health.state(),
                queue,
                ..Backends::default()
            };
            backends.to_json()
        };
        assert_eq!(answer(None), json!({"database": {"up": false}}));
        health.up();
        assert_eq!(answer(None), json!({"database": {"up": true}}));
        health.clone().failed(Some(Fault::TlsExpired));
        assert_eq!(
            answer(Some(StoreState::Down(Fault::Denied))),
            json!({
                "database": {"up": false, "fault": "tls_expired"},
                "queue": {"up": false, "fault": "denied"},
            })
        );
        health.failed(None);
        assert_eq!(health.state(), StoreState::Unknown);

        let mut words = Fault::ALL.map(Fault::as_str).to_vec();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Fault::ALL.len());
    }

    #[test]
    fn a_connection_fails_because_of_its_certificate_or_is_out_of_reach() {
        let invalid = rustls::Error::InvalidCertificate;
        for (error, fault) in [
            (invalid(CertificateError::Expired), Fault::TlsExpired),
            (
                invalid(CertificateError::UnknownIssuer),
                Fault::TlsUntrusted,
            ),
            (invalid(CertificateError::NotValidForName), Fault::TlsName),
            (rustls::Error::DecryptError, Fault::TlsRefused),
        ] {
            assert_eq!(Fault::of_connection(&io::Error::other(error)), fault);
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(Fault::of_connection(&refused), Fault::Unreachable);
    }
}
