//! The verdict on a store that the operator does not run, in sentences with the remedy.

use crate::{
    model::{
        external::TlsFileKind,
        metadata::Component,
        stack::StoreTls,
        store_state::{StoreFault, StoreFaults},
    },
    plan::{
        stores::{self, Definition, external},
        verdict::{Verdict, View},
    },
};

/// The settings of an external store that a sentence may name.
pub(super) struct Settings<'a> {
    /// Secret with the address and the credentials.
    pub(super) secret: &'a str,
    pub(super) tls: Option<&'a StoreTls>,
}

/// Returns the verdict: true, unless the stack's programs say why they cannot use the store. `without` describes the
/// effect on requests while it is unavailable.
pub(super) fn ready(
    view: View<'_>,
    component: Component,
    settings: &Settings<'_>,
    without: &str,
) -> Verdict {
    let fault = fault(view, component).zip(stores::of(component));
    match fault.filter(|_| !view.stack.stopped) {
        Some((fault, store)) => {
            let what = sentence(fault, store, settings);
            Verdict::fault(fault.reason(), format!("{}.external: {what}", store.field))
        }
        None => Verdict::yes(
            "External",
            format!(
                "external server, configured by Secret {}; {without}",
                settings.secret
            ),
        ),
    }
}

/// Returns the fault of a store. For the database, a failed migration takes precedence: it has the current settings,
/// and running pods may have older ones.
fn fault(view: View<'_>, component: Component) -> Option<StoreFault> {
    let faults: &StoreFaults = &view.live.store_faults;
    let migration = match component {
        Component::Postgres => external::of_migration(&view.live.pods),
        _ => None,
    };
    migration.or_else(|| faults.get(&component).copied())
}

fn sentence(fault: StoreFault, store: &Definition, settings: &Settings<'_>) -> String {
    let Definition { field, noun, .. } = *store;
    let secret = settings.secret;
    match fault {
        StoreFault::TlsExpired => {
            format!("the certificate of the {noun} has expired or is not valid yet: renew it")
        }
        StoreFault::TlsUntrusted => match file(settings, TlsFileKind::Authorities) {
            Some((secret, key)) => format!(
                "the certificate of the {noun} is not signed by the authority in Secret {secret} (key {key}): add the \
                 authority that signed it"
            ),
            None => format!(
                "the certificate of the {noun} is not signed by a public authority: name the Secret with the authority \
                 that signed it in {field}.external.tls.caSecretRef"
            ),
        },
        StoreFault::TlsWrongName => format!(
            "the certificate of the {noun} is for another name than the address in Secret {secret}: use a name that the \
             certificate has, or renew it with this one"
        ),
        StoreFault::TlsRefused => match file(settings, TlsFileKind::Certificate) {
            Some((certificate, _)) => format!(
                "the TLS handshake with the {noun} failed: check that it speaks TLS at the port in Secret {secret} and \
                 accepts the certificate in Secret {certificate}"
            ),
            None => format!(
                "the TLS handshake with the {noun} failed: check that it speaks TLS at the port in Secret {secret}; if \
                 it demands a certificate of its clients, name one in {field}.external.tls.clientCertificateSecretRef"
            ),
        },
        StoreFault::LoginRefused => login_refused(store, secret),
        StoreFault::Unreachable => format!(
            "the stack's pods get no answer from the {noun} at the address in Secret {secret}, or one in another \
             protocol: check the address, the server, and the network policies between them"
        ),
        StoreFault::NotFound => not_found(store, secret),
        StoreFault::OtherCollection => format!(
            "the collection has another size or distance than {field}.size and {field}.distance: switch the profile \
             {field} off and set them to those of the collection, or delete the collection"
        ),
    }
}

fn login_refused(store: &Definition, secret: &str) -> String {
    let Definition { field, noun, .. } = *store;
    match store.component {
        Component::Qdrant => {
            format!("the {noun} refuses the API key: correct {field}.external.apiKeySecretRef")
        }
        _ => format!(
            "the {noun} refuses the user or the password in Secret {secret}, or a right of this user: correct them"
        ),
    }
}

fn not_found(store: &Definition, secret: &str) -> String {
    let (missing, setting) = match store.component {
        Component::Postgres => ("database", format!("Secret {secret}")),
        Component::Rabbitmq => ("virtual host", format!("Secret {secret}")),
        Component::Cache => ("master", format!("{}.external.sentinelMaster", store.field)),
        _ => ("collection", format!("{}.collection", store.field)),
    };
    format!("the server has no {missing} of the name in {setting}: create it, or correct the name")
}

/// Returns the Secret and the key of a file that the programs need for TLS.
fn file<'a>(settings: &Settings<'a>, kind: TlsFileKind) -> Option<(&'a str, &'a str)> {
    let files = &settings.tls?.files;
    let file = files.iter().find(|file| file.kind == kind)?;
    Some((file.secret.as_str(), file.key.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        model::{live::Live, metadata::labels, stack::ValidatedStack},
        testing::stack::minimal_stack,
    };

    const STORES: [Component; 4] = [
        Component::Postgres,
        Component::Cache,
        Component::Rabbitmq,
        Component::Qdrant,
    ];

    fn verdict(stack: &ValidatedStack, live: &Live, store: Component) -> Verdict {
        let condition = stores::of(store).unwrap().condition.as_ref().unwrap();
        (condition.verdict)(View { stack, live }).unwrap()
    }

    fn with_fault(component: Component, fault: StoreFault) -> Live {
        Live {
            store_faults: [(component, fault)].into(),
            ..Live::default()
        }
    }

    fn without_tls() -> ValidatedStack {
        minimal_stack()
            .external_database()
            .external_cache()
            .external_queue()
            .external_vector()
    }

    #[test]
    fn every_fault_of_every_store_is_a_sentence_with_the_field_and_a_remedy() {
        for stack in [
            without_tls(),
            minimal_stack().every_external_store_over_tls(),
        ] {
            for component in STORES {
                let healthy = verdict(&stack, &Live::default(), component);
                assert_eq!((healthy.holds, healthy.reason), (true, "External"));
                for fault in StoreFault::ALL {
                    let live = with_fault(component, fault);
                    let found = verdict(&stack, &live, component);
                    assert!(found.fault, "{found:?}");
                    assert_eq!(found.reason, fault.reason());
                    let field = stores::of(component).unwrap().field;
                    let start = format!("{field}.external: the ");
                    let (what, remedy) = found.message.rsplit_once(": ").unwrap();
                    assert!(what.starts_with(&start), "{}", found.message);
                    assert!(!remedy.is_empty(), "{}", found.message);
                    for other in STORES.into_iter().filter(|other| *other != component) {
                        assert_eq!(verdict(&stack, &live, other).reason, "External");
                    }
                }
            }
        }
    }

    #[test]
    fn a_sentence_names_what_to_change() {
        let private = minimal_stack().every_external_store_over_tls();
        let public = without_tls();
        let expected = [
            (
                &private,
                Component::Rabbitmq,
                StoreFault::TlsUntrusted,
                "queue.external: the certificate of the broker is not signed by the authority in Secret links-ca (key \
                 bundle.pem): add the authority that signed it",
            ),
            (
                &public,
                Component::Rabbitmq,
                StoreFault::TlsUntrusted,
                "in queue.external.tls.caSecretRef",
            ),
            (
                &private,
                Component::Cache,
                StoreFault::TlsRefused,
                "accepts the certificate in Secret links-client",
            ),
            (
                &public,
                Component::Cache,
                StoreFault::TlsRefused,
                "in cache.external.tls.clientCertificateSecretRef",
            ),
            (
                &public,
                Component::Postgres,
                StoreFault::LoginRefused,
                "the password in Secret links-database",
            ),
            (
                &public,
                Component::Qdrant,
                StoreFault::LoginRefused,
                "vector.external.apiKeySecretRef",
            ),
            (
                &public,
                Component::Cache,
                StoreFault::NotFound,
                "no master of the name in cache.external.sentinelMaster",
            ),
        ];
        for (stack, component, fault, part) in expected {
            let message = verdict(stack, &with_fault(component, fault), component).message;
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_failed_migration_speaks_before_running_pods_do() {
        let statuses = json!([{
            "name": "migrate", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "state": {"terminated": {"exitCode": 1, "message": "app: why\ndenied\n"}},
        }]);
        let pod = json!({
            "metadata": {"name": "acme-app-a", "labels": labels("acme", Component::App)},
            "status": {"initContainerStatuses": statuses},
        });
        let live = Live {
            pods: vec![Arc::new(serde_json::from_value(pod).unwrap())],
            ..with_fault(Component::Postgres, StoreFault::Unreachable)
        };
        let stack = without_tls();
        let found = verdict(&stack, &live, Component::Postgres);
        assert_eq!(found.reason, "LoginRefused");
        let stopped = verdict(&stack.stopped(), &live, Component::Postgres);
        assert_eq!(stopped.reason, "External");
        let managed = verdict(&minimal_stack(), &live, Component::Postgres);
        assert_eq!(managed.reason, "Pending");
    }
}
