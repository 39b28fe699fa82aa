//! A stack as the API server has it: it may fail to parse, and it may have fields of a newer definition.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{DeserializeGuard, error_boundary::InvalidObject},
};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use shortener_operator_core::{api::ShortenerStack, definition};

/// A stack resource that may fail to parse, and the paths of the fields of its spec that this program does not have.
#[derive(Clone, Debug)]
pub struct GuardedStack(pub Result<ShortenerStack, InvalidObject>, pub Vec<String>);

impl<'de> Deserialize<'de> for GuardedStack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let unknown = definition::unknown_fields(&object["spec"]);
        let DeserializeGuard(stack) =
            DeserializeGuard::deserialize(object).map_err(D::Error::custom)?;
        Ok(Self(stack, unknown))
    }
}

impl Resource for GuardedStack {
    type DynamicType = <ShortenerStack as Resource>::DynamicType;
    type Scope = <ShortenerStack as Resource>::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        ShortenerStack::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        ShortenerStack::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        ShortenerStack::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        ShortenerStack::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        let stack = self.0.as_ref();
        stack.map_or_else(|invalid| &invalid.metadata, ShortenerStack::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        let stack = self.0.as_mut();
        stack.map_or_else(|invalid| &mut invalid.metadata, ShortenerStack::meta_mut)
    }
}
