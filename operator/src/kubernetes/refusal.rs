//! Reasons for refusals of the API server, for conditions, commands, logs and metrics.

use kube::core::Status;

use crate::transport::with_causes;

/// The reason while a namespace is being deleted. The API server then refuses new objects, and none are needed.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// Returns a specific reason for a refusal that the user can resolve, and `fallback` for every other error.
pub fn reason(error: &kube::Error, fallback: &'static str) -> &'static str {
    match error {
        kube::Error::Api(status) if has_cause(status, NAMESPACE_TERMINATING) => {
            NAMESPACE_TERMINATING
        }
        kube::Error::Api(status) if status.message.contains("exceeded quota") => "QuotaExceeded",
        kube::Error::Api(status) if status.is_forbidden() => "Forbidden",
        kube::Error::Api(status) if status.is_invalid() => "Refused",
        _ => fallback,
    }
}

/// Returns what went wrong with a request, in one line. An error's own text has every field of the API server's answer, or
/// names only the step that failed.
pub fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            format!("the API server answered {}", status.code)
        }
        kube::Error::Api(status) => status.message.clone(),
        other => with_causes(other),
    }
}

/// Returns true when a volume claim was to grow and its storage class does not let it.
pub fn is_growth(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            status.is_forbidden() && status.message.contains("must support resize")
        }
        _ => false,
    }
}

/// Returns true when the requested object or kind does not exist. For an unknown kind, the API server answers 404 in
/// plain text, which [`Status::is_not_found`] does not recognise.
pub fn is_absent(status: &Status) -> bool {
    status.code == 404
}

fn has_cause(status: &Status, reason: &str) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == reason)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct NoConnection(#[source] std::io::Error);

    fn refused(message: &str, reason: &str, code: u16, causes: Value) -> kube::Error {
        let status = json!({
            "status": "Failure", "message": message, "reason": reason, "code": code,
            "details": {"causes": causes},
        });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn a_kind_that_the_cluster_does_not_have_is_absent_like_an_object() {
        for reason in ["NotFound", "Failed to parse error data"] {
            let kube::Error::Api(status) = refused("404 page not found", reason, 404, json!([]))
            else {
                panic!("no answer of the API server");
            };
            assert!(is_absent(&status), "{reason}");
        }
        let kube::Error::Api(status) = refused("no", "Forbidden", 403, json!([])) else {
            panic!("no answer of the API server");
        };
        assert!(!is_absent(&status));
    }

    #[test]
    fn a_volume_that_its_class_does_not_let_grow_is_told_from_a_missing_right() {
        for (message, growth) in [
            (
                "persistentvolumeclaims \"a\" is forbidden: only dynamically provisioned pvc can be resized and the \
                 storageclass that provisions the pvc must support resize",
                true,
            ),
            ("pods is forbidden: User \"b\" cannot create", false),
        ] {
            let error = refused(message, "Forbidden", 403, json!([]));
            assert_eq!(is_growth(&error), growth, "{message}");
        }
    }

    #[test]
    fn a_sentence_is_what_the_server_says_or_the_error_with_its_causes() {
        let forbidden = "deployments.apps is forbidden: User \"b\" cannot list resource";
        let refusal = refused(forbidden, "Forbidden", 403, json!([]));
        assert_eq!(sentence(&refusal), forbidden);
        let silent = refused("", "", 502, json!([]));
        assert_eq!(sentence(&silent), "the API server answered 502");
        let cause = NoConnection(std::io::Error::other("connection refused"));
        let unreachable = kube::Error::Service(cause.into());
        assert_eq!(
            sentence(&unreachable),
            "ServiceError: client error (Connect): connection refused"
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        let going = json!([{"reason": "NamespaceTerminating", "message": "namespace a is being terminated", "field": "metadata.namespace"}]);
        let cases = [
            (
                refused(
                    "unable to create new content in namespace a",
                    "Forbidden",
                    403,
                    going,
                ),
                NAMESPACE_TERMINATING,
            ),
            (
                refused(
                    "pods \"a\" is forbidden: exceeded quota: small",
                    "Forbidden",
                    403,
                    json!([]),
                ),
                "QuotaExceeded",
            ),
            (
                refused(
                    "pods is forbidden: User \"b\" cannot create",
                    "Forbidden",
                    403,
                    json!([]),
                ),
                "Forbidden",
            ),
            (
                refused("spec.replicas: Invalid value", "Invalid", 422, json!([])),
                "Refused",
            ),
            (
                refused(
                    "etcdserver: request timed out",
                    "InternalError",
                    500,
                    json!([]),
                ),
                "ApplyFailed",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(reason(&error, "ApplyFailed"), expected, "{error}");
        }
    }
}
