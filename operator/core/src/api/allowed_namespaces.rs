//! The namespaces whose ShortLinks a stack takes, beside its own.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::names;

/// A namespace that may have ShortLinks of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedNamespace {
    /// Name of the namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = names::NAMESPACE))]
    pub name: String,
    /// Beginnings of the codes that its ShortLinks may have. Upper and lower case differ.
    #[schemars(schema_with = "prefixes")]
    pub code_prefixes: BTreeSet<String>,
}

/// Returns the schema of a set of beginnings of codes.
fn prefixes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": names::CODE},
    })
}
