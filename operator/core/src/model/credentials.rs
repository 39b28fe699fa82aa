//! The Secrets that the operator generates: their names and the keys of their data.

/// Key of the user name in a Secret with credentials.
pub const USERNAME_KEY: &str = "username";
/// Key of the password in a Secret with credentials.
pub const PASSWORD_KEY: &str = "password";
/// Key of the name of the operator's own user in the Secret of a broker.
pub const OPERATOR_USERNAME_KEY: &str = "operator-username";
/// Key of the password of the operator's own user in the Secret of a broker.
pub const OPERATOR_PASSWORD_KEY: &str = "operator-password";
/// Key of the definitions in the Secret of a broker, and their file name.
pub const DEFINITIONS_KEY: &str = "definitions.json";
/// Key of the API key in a Secret with credentials.
pub const API_KEY: &str = "api-key";

/// Key of the key that marks the identifiers of jobs, in a Secret of its own.
pub const JOB_IDS_KEY: &str = "key";
/// Key of the key with which the operator manages links, in a Secret of its own.
pub const MANAGEMENT_KEY: &str = "key";

/// Returns the name of the Secret with the stack's own key for checksums.
pub fn checksum_name(stack: &str) -> String {
    format!("{stack}-checksum")
}

/// Returns the name of the Secret with the key that marks the identifiers of jobs.
pub fn job_ids_name(stack: &str) -> String {
    format!("{stack}-job-ids")
}

/// Returns the name of the Secret with the key with which the operator manages the links of a stack.
pub fn management_name(stack: &str) -> String {
    format!("{stack}-management")
}
