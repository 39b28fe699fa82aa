//! Why the vector store did not do what it was asked for.

use tonic::{Code, Status};

/// Why the vector store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// It is down, slow, refuses the key, or has lost the collection: trying again later may work.
    #[error("vector store unavailable: {0}")]
    Unavailable(String),
    /// The live collection is not the one of the settings, which only a person can change.
    #[error(
        "the collection {name} has {found}, but {expected} is expected: set size and distance to what it has, \
         or delete it and it is made anew from the database"
    )]
    OtherCollection {
        /// The collection.
        name: String,
        /// What the live collection looks like.
        found: String,
        /// What the settings say.
        expected: String,
    },
    /// It refused the question itself.
    #[error("the vector store refused: {0}")]
    Refused(String),
}

impl From<Status> for VectorError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument | Code::OutOfRange => Self::Refused(status.message().to_owned()),
            code => Self::Unavailable(format!("{code:?}: {}", status.message())),
        }
    }
}
