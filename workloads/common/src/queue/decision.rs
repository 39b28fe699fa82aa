//! The decisions of the app about a job that it accepts, as headers of the message. A worker does not make them again: its
//! release and its settings may be others.

use std::{borrow::Cow, sync::Arc};

use lapin::{BasicProperties, types::FieldTable};

use super::job::{BUILT_IN, header, insert, needs_vector_store, string_of};

const HANDLER: &str = "shortener-handler";
const TARGET: &str = "shortener-target";
/// The handler of a task that is none of [`BUILT_IN`].
pub const DEFAULT: &str = "default";

/// The decisions about a job. The default leaves them to the worker, as a message does that an administrator of the broker
/// publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The task of the service that handles the job, or [`DEFAULT`].
    pub handler: Option<Cow<'static, str>>,
    /// The target of the vectors, see [`crate::vector::VectorStore::target`], for a job that needs one.
    pub target: Option<Arc<str>>,
}

impl Decision {
    /// Returns the decisions about a job with this name of its task, at an app with this target of vectors.
    pub fn new(task: &str, target: Option<&Arc<str>>) -> Self {
        let built_in = BUILT_IN.into_iter().find(|name| *name == task);
        let target = target.filter(|_| needs_vector_store(task));
        Self {
            handler: Some(built_in.unwrap_or(DEFAULT).into()),
            target: target.cloned(),
        }
    }

    /// Returns the decisions about a job that a user replays: the vectors go to the store of the worker that takes it.
    pub fn of_replay(properties: &BasicProperties) -> Self {
        Self {
            target: None,
            ..Self::read(properties)
        }
    }

    /// Reads the headers of a message.
    pub(super) fn read(properties: &BasicProperties) -> Self {
        let text = |name: &str| header(properties, name).and_then(string_of);
        Self {
            handler: text(HANDLER).map(Cow::Owned),
            target: text(TARGET).map(Into::into),
        }
    }

    /// Adds the headers to those of a message.
    pub(super) fn write(&self, headers: &mut FieldTable) {
        if let Some(handler) = &self.handler {
            insert(headers, HANDLER, handler.as_ref());
        }
        if let Some(target) = &self.target {
            insert(headers, TARGET, &**target);
        }
    }
}
