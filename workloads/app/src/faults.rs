//! The invalid fields of a request, collected so that all of them are reported at once.

use serde_json::Value;

use crate::error::{Error, FieldError};

/// The invalid fields that were found so far.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    /// Records an invalid field and returns a placeholder that is never used.
    pub fn add<T: Default>(&mut self, field: &'static str, reason: impl Into<String>) -> T {
        let reason = reason.into();
        self.0.push(FieldError { field, reason });
        T::default()
    }

    /// Returns the value of a field, or records why it is invalid.
    pub fn value<T: Default>(&mut self, field: &'static str, value: Result<T, String>) -> T {
        value.unwrap_or_else(|reason| self.add(field, reason))
    }

    /// Returns the value of an optional field that is true or false.
    pub fn flag(&mut self, field: &'static str, value: Option<Value>) -> bool {
        match value {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(_) => self.add(field, "must be true or false"),
        }
    }

    /// Returns what was read if every field is valid.
    ///
    /// # Errors
    /// Returns [`Error::InvalidFields`] with one entry per invalid field.
    pub fn end<T>(self, value: T) -> Result<T, Error> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(Error::InvalidFields(self.0)),
        }
    }
}
