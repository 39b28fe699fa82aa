//! The Secrets that the operator generates: their names and the keys of their data.

use super::metadata::Component;

/// Key of the user name in a Secret with credentials.
pub const USERNAME_KEY: &str = "username";
/// Key of the password in a Secret with credentials.
pub const PASSWORD_KEY: &str = "password";
/// Key of the API key in a Secret with credentials.
pub const API_KEY: &str = "api-key";

/// Returns the keys that a store's Secret must contain.
pub fn keys(store: Component) -> &'static [&'static str] {
    match store {
        Component::Postgres => &[USERNAME_KEY, PASSWORD_KEY],
        Component::Cache => &[PASSWORD_KEY],
        Component::Rabbitmq => &[USERNAME_KEY, PASSWORD_KEY],
        Component::Telemetry => &[USERNAME_KEY, PASSWORD_KEY],
        Component::Qdrant => &[API_KEY],
        Component::App
        | Component::Gateway
        | Component::Worker
        | Component::Otel
        | Component::Stack => &[],
    }
}

/// Returns the name of the Secret with the stack's own key for checksums.
pub fn checksum_name(stack: &str) -> String {
    format!("{stack}-checksum")
}
