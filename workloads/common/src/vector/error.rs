//! The errors of the vector store.

use tonic::{Code, Status};

use crate::tls;

/// An error of the vector store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// The store is down, slow, rejects the key, or has lost the collection. A later attempt may succeed.
    #[error("vector store unavailable: {0}")]
    Unavailable(String),
    /// The live collection differs from the settings, which only the user can fix.
    #[error(
        "the collection {name} has {found}, but the settings have {expected}; switch the vector profile off and set \
         vector.size and vector.distance to those of the collection, or delete the collection, and the app creates it \
         again from the database"
    )]
    OtherCollection {
        /// Name of the collection.
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

impl From<Status> for VectorError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Self::Refused(status.message().to_owned()),
            code => {
                let text = format!("{code:?}: {}", status.message());
                Self::Unavailable(match tls::fault(&status) {
                    Some(fault) => format!("{fault} ({text})"),
                    None => text,
                })
            }
        }
    }
}
