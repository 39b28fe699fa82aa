//! The wire format of OTLP: the parts of Protocol Buffers that its messages need.
//!
//! A span or a log record is written once, in the form in which it is sent. Building a tree of values first, which the
//! generated types want, costs several times as much as the request that it describes.
//! <https://protobuf.dev/programming-guides/encoding/>

/// The wire types, by their numbers.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;
const FIXED32: u32 = 5;

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl Value<'_> {
    /// Returns the length of the message `AnyValue` with this value.
    fn length(self) -> usize {
        match self {
            Self::Text(text) => 1 + prefixed(text.len()),
            Self::Bool(_) => 2,
            Self::Integer(number) => 1 + varint_length(number.cast_unsigned()),
            Self::Double(_) => 9,
        }
    }
}

/// A message under construction: its fields, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Returns a message with room for this many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes as they are sent.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends the fields of another message.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Appends an integer.
    pub(super) fn integer(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    /// Appends an integer of eight bytes.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends an integer of four bytes.
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends bytes, a string, or a message.
    pub(super) fn nested(&mut self, field: u32, bytes: &[u8]) {
        self.begin_nested(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Begins a message of this length, whose fields follow.
    pub(super) fn begin_nested(&mut self, field: u32, length: usize) {
        self.tag(field, LENGTH);
        self.varint(length as u64);
    }

    /// Appends fields of the message that was begun last.
    pub(super) fn fields(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Appends a message `AnyValue`.
    pub(super) fn value(&mut self, field: u32, value: Value<'_>) {
        self.begin_nested(field, value.length());
        match value {
            Value::Text(text) => self.nested(1, text.as_bytes()),
            Value::Bool(truth) => self.integer(2, truth.into()),
            Value::Integer(number) => self.integer(3, number.cast_unsigned()),
            Value::Double(number) => self.fixed64(4, number.to_bits()),
        }
    }

    /// Appends a message `KeyValue`.
    pub(super) fn attribute(&mut self, field: u32, name: &str, value: Value<'_>) {
        self.begin_nested(field, 2 + prefixed(name.len()) + prefixed(value.length()));
        self.nested(1, name.as_bytes());
        self.value(2, value);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Returns the length of a field with its length in front; a field number below 16 takes one byte more.
pub(super) fn prefixed(length: usize) -> usize {
    varint_length(length as u64) + length
}

fn varint_length(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// Returns an attribute as another implementation reads it.
    fn read(name: &str, value: Value<'_>) -> (String, Any) {
        // An instrumentation scope has attributes under 3.
        let mut message = Message::default();
        message.attribute(3, name, value);
        let scope =
            opentelemetry_proto::tonic::common::v1::InstrumentationScope::decode(message.bytes());
        let [KeyValue { key, value, .. }] = &scope.unwrap().attributes[..] else {
            panic!("not one attribute")
        };
        let Some(AnyValue { value: Some(value) }) = value else {
            panic!("no value")
        };
        (key.clone(), value.clone())
    }

    proptest! {
        #[test]
        fn attributes_are_read_as_they_were_written(name in ".{0,300}", text in ".{0,300}", number: i64, truth: bool) {
            prop_assert_eq!(read(&name, (&*text).into()), (name.clone(), Any::StringValue(text)));
            prop_assert_eq!(read(&name, number.into()), (name.clone(), Any::IntValue(number)));
            prop_assert_eq!(read(&name, truth.into()), (name, Any::BoolValue(truth)));
        }
    }

    #[test]
    fn numbers_of_every_length_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 16_383, 16_384, i64::MAX, -1, i64::MIN] {
            assert_eq!(read("n", number.into()).1, Any::IntValue(number));
        }
        for number in [0.0, -1.5, f64::MAX, f64::INFINITY] {
            assert_eq!(read("n", number.into()).1, Any::DoubleValue(number));
        }
    }
}
