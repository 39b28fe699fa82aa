//! The errors of the vector store.

use tonic::{Code, Status};

use crate::{backends::Fault, tls};

/// An error of the vector store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The store is down, slow, rejects the key, or has lost the collection. A later attempt may succeed.
    #[error("vector store unavailable: {reason}")]
    Unavailable {
        reason: String,
        /// The reason, if it is one of the faults.
        fault: Option<Fault>,
    },
    /// The live collection differs from the settings, which only the user can fix.
    #[error(
        "the collection {name} has {found}, but the settings have {expected}; switch the vector profile off and set \
         vector.size and vector.distance to those of the collection, or delete the collection, and the app creates it \
         again from the database"
    )]
    OtherCollection {
        name: String,
        /// Shape of the live collection.
        found: String,
        /// Shape in the settings.
        expected: String,
    },
    /// The store rejected the request as invalid.
    #[error("the vector store rejected the request: {0}")]
    Refused(String),
}

impl VectorError {
    /// Returns true if the server refuses the key, or the key lacks the right.
    pub fn is_denied(&self) -> bool {
        let denied = Some(Fault::Denied);
        matches!(self, Self::Unavailable { fault, .. } if *fault == denied)
    }
}

impl From<Status> for VectorError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Self::Refused(status.message().to_owned()),
            code => {
                let text = format!("{code:?}: {}", status.message());
                let tls = tls::fault(&status);
                Self::Unavailable {
                    reason: match tls {
                        Some(fault) => format!("{fault} ({text})"),
                        None => text,
                    },
                    fault: tls.or_else(|| fault(code)),
                }
            }
        }
    }
}

/// Returns the fault behind a status; `None` if the store answers, and with something else than a refusal.
fn fault(code: Code) -> Option<Fault> {
    match code {
        Code::Unauthenticated | Code::PermissionDenied => Some(Fault::Denied),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
            Some(Fault::Unreachable)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_key_is_told_apart_from_silence_and_from_a_busy_store() {
        for (code, expected) in [
            (Code::Unauthenticated, Some(Fault::Denied)),
            (Code::PermissionDenied, Some(Fault::Denied)),
            (Code::Unavailable, Some(Fault::Unreachable)),
            (Code::DeadlineExceeded, Some(Fault::Unreachable)),
            (Code::ResourceExhausted, None),
        ] {
            match VectorError::from(Status::new(code, "why")) {
                VectorError::Unavailable { reason, fault } => {
                    assert_eq!(fault, expected, "{code:?}");
                    assert!(reason.contains("why"), "{reason}");
                }
                other => panic!("{other}"),
            }
        }
    }
}
