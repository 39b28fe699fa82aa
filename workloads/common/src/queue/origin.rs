//! The sender of a job, as a header of its message. The workers store less of a job that anyone could send, and when they
//! reject it, it becomes no dead letter.

use std::{borrow::Cow, sync::Arc};

use lapin::types::AMQPValue;

use super::job::text_of;

pub(super) const ORIGIN: &str = "shortener-origin";

const ANONYMOUS: &str = "anonymous";
const INTERNAL: &str = "internal";
/// The beginning of the value for a client.
const KEY: &str = "key:";

/// The sender of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Anyone who reaches the app.
    Anonymous,
    /// The client of this name, with a key for jobs.
    Client(Arc<str>),
    /// The service itself, or an administrator of the broker.
    Internal,
}

impl Origin {
    /// Returns the value of the header.
    pub fn value(&self) -> Cow<'static, str> {
        match self {
            Self::Anonymous => ANONYMOUS.into(),
            Self::Client(name) => format!("{KEY}{name}").into(),
            Self::Internal => INTERNAL.into(),
        }
    }

    /// Reads the header. Clients cannot send a message without it, but administrators of the broker can. A value of another
    /// form is no reason for trust.
    pub(super) fn of(header: Option<&AMQPValue>) -> Self {
        let Some(header) = header else {
            return Self::Internal;
        };
        let value = text_of(header).and_then(|text| std::str::from_utf8(text).ok());
        match value {
            Some(INTERNAL) => Self::Internal,
            Some(value) => match value.strip_prefix(KEY) {
                Some(name) => Self::Client(name.into()),
                None => Self::Anonymous,
            },
            None => Self::Anonymous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_read_as_it_was_written() {
        for (sender, text) in [
            (Origin::Anonymous, "anonymous"),
            (Origin::Client("shop".into()), "key:shop"),
            (Origin::Internal, "internal"),
        ] {
            assert_eq!(sender.value(), text);
            let value = AMQPValue::LongString(text.into());
            assert_eq!(Origin::of(Some(&value)), sender);
            let value = AMQPValue::ShortString(text.into());
            assert_eq!(Origin::of(Some(&value)), sender);
        }
    }

    #[test]
    fn a_message_without_the_header_is_trusted_and_one_with_another_value_is_not() {
        assert_eq!(Origin::of(None), Origin::Internal);
        for value in [
            AMQPValue::LongString("Internal".into()),
            AMQPValue::LongString("".into()),
            AMQPValue::LongString(b"internal\xff".to_vec().into()),
            AMQPValue::Boolean(true),
            AMQPValue::Void,
        ] {
            assert_eq!(Origin::of(Some(&value)), Origin::Anonymous, "{value:?}");
        }
    }
}
