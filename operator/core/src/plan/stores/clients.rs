//! The settings of the stores in the stack's own programs: environment variables, named after the programs' settings. A
//! store without variables is off. Credentials come from Secrets and never appear as literal values.

use k8s_openapi::api::core::v1::EnvVar;

use super::{Definition, all};
use crate::{
    api::DatabaseTlsMode,
    model::{
        access::Access,
        metadata::Component,
        stack::{Store, StoreTls, ValidatedStack},
    },
    plan::objects::pod,
};

/// Returns the variables of every store that a client of the stack uses.
pub(in crate::plan) fn env(stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    all()
        .flat_map(|store| variables(store, stack, client))
        .collect()
}

/// Returns the checksums of the Secrets that a client of the stores uses. They change with every such Secret, so that
/// the client's pods restart.
pub(in crate::plan) fn checksum(stack: &ValidatedStack, client: Component) -> String {
    let checksums: Vec<&str> = used(stack, client).map(Store::checksum).collect();
    checksums.join(".")
}

/// Returns the stores that a client of the stack uses.
pub(super) fn used(stack: &ValidatedStack, client: Component) -> impl Iterator<Item = &Store> {
    let used = all().filter(move |store| !variables(store, stack, client).is_empty());
    used.filter_map(move |store| (store.store)(stack))
}

fn variables(store: &Definition, stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    if store.clients.contains(&client) {
        (store.env)(stack, client)
    } else {
        Vec::new()
    }
}

/// Returns the variables that come from the Secret of an external store. The parts stay separate, because a URL would
/// require them to be percent-encoded. Certificates are files.
pub(super) fn external(
    store: &str,
    secret: &str,
    access: &Access,
    tls: Option<&StoreTls>,
) -> Vec<EnvVar> {
    let variable =
        |setting: &str, key: &str| pod::secret_env(&format!("{store}_{setting}"), secret, key);
    let mut env = match access {
        Access::Url(key) => vec![variable("URL", key)],
        Access::Parts(parts) => {
            let parts = parts.iter();
            parts
                .map(|(part, key)| variable(part.setting(), key))
                .collect()
        }
    };
    env.extend(tls.into_iter().flat_map(|tls| tls_env(store, tls)));
    env
}

fn tls_env(store: &str, tls: &StoreTls) -> Vec<EnvVar> {
    let extent = match tls.mode {
        None => pod::env(&format!("{store}_TLS"), "true"),
        Some(mode) => {
            let mode = match mode {
                DatabaseTlsMode::Require => "require",
                DatabaseTlsMode::VerifyCa => "verify-ca",
                DatabaseTlsMode::VerifyFull => "verify-full",
            };
            pod::env(&format!("{store}_TLS_MODE"), mode)
        }
    };
    let files = tls.files.iter().map(|file| {
        let name = format!("{store}_{}", file.kind.setting());
        pod::env(&name, tls.path(file.kind))
    });
    std::iter::once(extent).chain(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::access::Part,
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn credentials_of_managed_stores_are_in_no_literal_value() {
        let env = env(&every_profile(), Component::App);
        golden("env-backends", &env);
        for literal in env.iter().filter_map(|variable| variable.value.as_deref()) {
            assert!(
                !literal.contains('@') && !literal.contains("s3cret"),
                "{literal}"
            );
        }
    }

    #[test]
    fn an_external_cache_is_known_by_its_secret_and_its_mode() {
        golden(
            "env-external-cache",
            &env(&minimal_stack().external_cache(), Component::App),
        );
    }

    #[test]
    fn an_external_vector_store_is_known_by_its_secrets() {
        golden(
            "env-external-vector",
            &env(&minimal_stack().external_vector(), Component::App),
        );
    }

    #[test]
    fn the_parts_of_an_access_are_settings_of_the_app() {
        let everything = [
            Part::Host,
            Part::Port,
            Part::Database,
            Part::VirtualHost,
            Part::Username,
            Part::Password,
        ];
        let settings = |store: &str, known: &[Part]| {
            let parts = known.iter().map(|part| (*part, "key")).collect();
            let names = external(store, "secret", &Access::Parts(parts), None);
            names
                .into_iter()
                .map(|variable| variable.name)
                .collect::<Vec<_>>()
        };
        let app = <shortener_app::config::Cli as clap::CommandFactory>::command();
        let serve = app.find_subcommand("serve").unwrap();
        let known: Vec<&str> = serve
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        for (store, unknown) in [
            ("DATABASE", &[Part::VirtualHost][..]),
            ("QUEUE", &[Part::Database][..]),
            ("CACHE", &[Part::Database, Part::VirtualHost][..]),
            (
                "VECTOR",
                &[
                    Part::Database,
                    Part::VirtualHost,
                    Part::Username,
                    Part::Password,
                ][..],
            ),
        ] {
            let told: Vec<Part> = everything
                .into_iter()
                .filter(|part| !unknown.contains(part))
                .collect();
            for name in settings(store, &told) {
                assert!(known.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn an_external_database_over_tls_is_known_by_its_certificates() {
        let stack = minimal_stack().external_database_over_tls();
        golden("env-external-database-tls", &env(&stack, Component::App));
    }

    #[test]
    fn an_external_database_is_known_by_the_parts_of_its_secret() {
        let mut stack = minimal_stack();
        stack.database = Some(Store::External {
            secret: "links-app".to_owned(),
            access: Access::Parts(vec![
                (Part::Host, "host"),
                (Part::Port, "port"),
                (Part::Database, "dbname"),
                (Part::Username, "username"),
                (Part::Password, "password"),
            ]),
            tls: None,
            pooler: None,
            checksum: String::new(),
        });
        golden("env-external-database", &env(&stack, Component::App));
    }

    #[test]
    fn workers_are_not_told_of_the_cache() {
        let env = env(&every_profile(), Component::Worker);
        let known = |store: &str| env.iter().any(|variable| variable.name.starts_with(store));
        assert!(known("QUEUE_") && known("VECTOR_") && !known("CACHE_"));
    }

    #[test]
    fn a_stack_without_profiles_knows_its_database_only() {
        let env = env(&minimal_stack(), Component::App);
        assert!(
            env.iter()
                .all(|variable| variable.name.starts_with("DATABASE_"))
        );
    }
}
