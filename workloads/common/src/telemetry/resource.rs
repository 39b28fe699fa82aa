//! The description of the process that goes with every batch.

use opentelemetry::{KeyValue, Value as SdkValue};
use opentelemetry_sdk::Resource;

use super::{
    Service,
    wire::{Message, Value},
};

/// The field of the attributes in a message `Resource`.
const ATTRIBUTES: u32 = 1;

/// Returns the message `Resource`: the attributes of `OTEL_RESOURCE_ATTRIBUTES`, the service and the replica.
pub(super) fn resource(service: Service<'_>) -> Message {
    let mut message = Message::default();
    for (name, value) in &described(service) {
        match value {
            SdkValue::Bool(truth) => message.attribute(ATTRIBUTES, name.as_str(), (*truth).into()),
            SdkValue::I64(number) => message.attribute(ATTRIBUTES, name.as_str(), (*number).into()),
            SdkValue::F64(number) => message.attribute(ATTRIBUTES, name.as_str(), (*number).into()),
            other => message.attribute(ATTRIBUTES, name.as_str(), Value::Text(&other.as_str())),
        }
    }
    message
}

fn described(service: Service<'_>) -> Resource {
    Resource::builder()
        .with_service_name(service.name)
        .with_attributes([
            KeyValue::new("service.version", service.version),
            KeyValue::new("service.instance.id", service.host.to_owned()),
        ])
        .build()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        common::v1::any_value::Value as Any, resource::v1::Resource as Read,
    };
    use prost::Message as _;

    use super::*;

    #[test]
    fn the_program_says_who_it_is() {
        let resource = resource(Service {
            name: "app",
            version: "1.2.3",
            host: "replica-7",
        });
        let resource = Read::decode(resource.bytes()).unwrap();
        for (name, value) in [
            ("service.name", "app"),
            ("service.version", "1.2.3"),
            ("service.instance.id", "replica-7"),
        ] {
            let found = resource.attributes.iter().find(|found| found.key == name);
            let found = found.and_then(|found| found.value.clone()?.value);
            assert_eq!(found, Some(Any::StringValue(value.to_owned())), "{name}");
        }
    }
}
