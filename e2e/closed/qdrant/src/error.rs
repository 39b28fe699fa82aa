//! The errors, with the messages of the real server, and their status in each API.

use axum::http::StatusCode;
use qdrant_edge::OperationError;
use tonic::{Code, Status};

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not valid for the request.
    #[error("Format error in JSON body: {0}")]
    Format(String),
    /// The content type of the body is not JSON.
    #[error("Content type error")]
    ContentType,
    /// A value is out of range; the text names the field and the range.
    #[error("Validation error: [{0}]")]
    Invalid(String),
    /// The request does not fit the collection.
    #[error("Wrong input: {0}")]
    BadInput(String),
    /// The request is empty.
    #[error("Bad request: {0}")]
    BadRequest(String),
    /// A collection of this name exists.
    #[error("Wrong input: Collection `{0}` already exists!")]
    CollectionExists(String),
    /// No collection of this name exists.
    #[error("Not found: Collection `{0}` doesn't exist!")]
    NoCollection(String),
    /// No point with this id exists.
    #[error("Not found: {0}")]
    NoPoint(String),
    /// An error of the engine, or of the disk.
    #[error("Service internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Returns the status of the HTTP response.
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
