//! What can go wrong, in the real server's words, and what each API makes of it.

use axum::http::StatusCode;
use qdrant_edge::OperationError;
use tonic::{Code, Status};

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not what the request takes.
    #[error("Format error in JSON body: {0}")]
    Format(String),
    /// The body is not declared as JSON.
    #[error("Content type error")]
    ContentType,
    /// A value is out of its range; names the field and the range.
    #[error("Validation error: [{0}]")]
    Invalid(String),
    /// The request does not fit the collection.
    #[error("Wrong input: {0}")]
    BadInput(String),
    /// The request asks for nothing.
    #[error("Bad request: {0}")]
    BadRequest(String),
    /// Such a collection exists.
    #[error("Wrong input: Collection `{0}` already exists!")]
    CollectionExists(String),
    /// No such collection.
    #[error("Not found: Collection `{0}` doesn't exist!")]
    NoCollection(String),
    /// No such point.
    #[error("Not found: {0}")]
    NoPoint(String),
    /// The engine, or the disk under it.
    #[error("Service internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The status of an HTTP response.
    pub fn http_status(&self) -> StatusCode {
        match self {
            Self::Format(_) | Self::ContentType | Self::BadInput(_) | Self::BadRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::CollectionExists(_) => StatusCode::CONFLICT,
            Self::NoCollection(_) | Self::NoPoint(_) => StatusCode::NOT_FOUND,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn grpc_code(&self) -> Code {
        match self {
            Self::CollectionExists(_) => Code::AlreadyExists,
            Self::NoCollection(_) | Self::NoPoint(_) => Code::NotFound,
            Self::Internal(_) => Code::Internal,
            _ => Code::InvalidArgument,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.grpc_code(), error.to_string())
    }
}

impl From<OperationError> for Error {
    fn from(error: OperationError) -> Self {
        let text = error.to_string();
        match error {
            OperationError::PointIdError { .. } => Self::NoPoint(text),
            OperationError::WrongVectorDimension { .. }
            | OperationError::VectorNameNotExists { .. }
            | OperationError::TypeError { .. }
            | OperationError::TypeInferenceError { .. }
            | OperationError::ValidationError { .. }
            | OperationError::WrongSparse
            | OperationError::WrongMulti
            | OperationError::MissingRangeIndexForOrderBy { .. } => Self::BadInput(text),
            _ => Self::Internal(text),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
