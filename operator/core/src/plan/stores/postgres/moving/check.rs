//! What a Cluster must be like before the links of a managed database can be imported into it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value};

use crate::{
    model::{
        cloud_native_pg::RUNNER,
        facts::{MoveFacts, RunningServer},
        quantity,
        stack::StoreCluster,
        version::Version,
    },
    plan::error::{MoveProblem, ValidateError},
};

/// Checks that the links can be imported.
pub(super) fn check(
    found: &MoveFacts,
    wanted: &StoreCluster,
    claim: String,
) -> Result<(), ValidateError> {
    begins_empty(&wanted.template)?;
    reads_dump(found, &wanted.template)?;
    let storage = wanted.template.get("storage");
    let size = storage.and_then(|storage| storage.get("size"));
    let size = size.and_then(Value::as_str).unwrap_or(&wanted.storage.0);
    let present = found.claim.as_ref().and_then(|claim| claim.size());
    let present = present.and_then(|Quantity(size)| quantity::bytes(size));
    // The import keeps its dump beside the copy, and the write-ahead log needs room too.
    let least = present.map(|bytes| (bytes / 2).saturating_mul(5));
    match (quantity::bytes(size), least) {
        (Some(bytes), Some(least)) if bytes < least => {
            Err(ValidateError::Move(MoveProblem::TooSmall {
                wanted: size.to_owned(),
                claim,
                least: format!("{}Mi", least.div_ceil(1 << 20)),
            }))
        }
        _ => Ok(()),
    }
}

/// Checks that a template lets the Cluster begin with an import.
pub(super) fn begins_empty(template: &Map<String, Value>) -> Result<(), ValidateError> {
    let fields = |value: Option<&Value>, path: &str| match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        Some(_) => Err(refusal(path, "is not an object: remove it")),
    };
    let bootstrap = fields(template.get("bootstrap"), "bootstrap")?;
    if let Some(way) = bootstrap.keys().find(|way| *way != "initdb") {
        let problem = "excludes the links of the managed database: remove it";
        return Err(refusal(&format!("bootstrap.{way}"), problem));
    }
    fields(bootstrap.get("initdb"), "bootstrap.initdb").map(|_| ())
}

/// Checks that the image of a template, if its tag has the version, reads a dump of the managed database.
fn reads_dump(found: &MoveFacts, template: &Map<String, Value>) -> Result<(), ValidateError> {
    let image = template.get("imageName").and_then(Value::as_str);
    let version = image.and_then(Version::of_image);
    let of_data = found.claim.as_ref().and_then(|claim| claim.version);
    let server = found.server.as_deref().and_then(RunningServer::of);
    let of_server = server.and_then(|server| Version::of_image(&server.image));
    match version.zip(of_data.or(of_server)) {
        Some((version, data)) if version.major < data.major => Err(refusal(
            "imageName",
            &format!(
                "is older than the managed database: set an image of PostgreSQL {} or later",
                data.major
            ),
        )),
        _ => Ok(()),
    }
}

fn refusal(path: &str, problem: &str) -> ValidateError {
    ValidateError::ClusterTemplate {
        field: RUNNER.field,
        path: path.to_owned(),
        problem: problem.to_owned(),
    }
}
